// Package clustertest has what tests of whole clusters share: programs as processes, connections between them that
// can be delayed and cut, an auditor of ledgers, and the parts of a cluster that Conclave does not ship.
package clustertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Program is a program in its own process.
type Program struct {
	Cmd    *exec.Cmd
	Stdout bytes.Buffer // complete after Done
	Stderr Lines
	Done   chan struct{} // closed when it has ended
}

// Start starts a program with this process's environment, without Conclave's variables, and more. tell, unless nil,
// gets each line of standard error.
func Start(environment []string, tell func(Line), command ...string) (*Program, error) {
	p := &Program{Cmd: exec.Command(command[0], command[1:]...), Done: make(chan struct{})}
	p.Stderr.tell = tell
	p.Cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CONCLAVE_") || strings.HasPrefix(v, RoleVariable+"=")
	}), environment...)
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Stdout, &p.Stderr
	if err := p.Cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.Done)
		_ = p.Cmd.Wait() // ProcessState has the outcome
	}()
	return p, nil
}

// Line is a line of a role's standard error. Message is empty if the line is not a log entry.
type Line struct {
	Text     string    `json:"-"`
	Time     time.Time `json:"ts"`
	Message  string    `json:"msg"`
	Fence    int64     `json:"fence"`
	Leader   string    `json:"leader"`
	Run      string    `json:"run"`
	Round    uint64    `json:"round"`
	Seq      uint64    `json:"ledger_seq"`
	Teachers uint32    `json:"teachers"`
	Released uint64    `json:"released"`
}

// Lines collects what a process writes, line by line.
type Lines struct {
	tell func(Line)

	mu      sync.Mutex
	whole   []Line
	logged  map[string][]Line // by message
	partial []byte
}

// Write receives the output of the process.
func (l *Lines) Write(b []byte) (int, error) {
	for _, line := range l.take(b) {
		if l.tell != nil {
			l.tell(line)
		}
	}
	return len(b), nil
}

func (l *Lines) take(b []byte) (came []Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, b...)
	for {
		text, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return came
		}
		line := Line{Text: string(text)}
		// Fields of another type under these names do not affect the rest.
		if err := json.Unmarshal(text, &line); errors.As(err, new(*json.SyntaxError)) {
			line = Line{Text: line.Text}
		}
		l.whole = append(l.whole, line)
		if line.Message != "" {
			if l.logged == nil {
				l.logged = map[string][]Line{}
			}
			l.logged[line.Message] = append(l.logged[line.Message], line)
		}
		came, l.partial = append(came, line), rest
	}
}

// All are the lines so far.
func (l *Lines) All() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole[:len(l.whole):len(l.whole)]
}

// Logged are the log lines with a message.
func (l *Lines) Logged(message string) []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.logged[message]
	return of[:len(of):len(of)]
}

// Text is all that was written in whole lines.
func (l *Lines) Text() string {
	var b strings.Builder
	for _, line := range l.All() {
		b.WriteString(line.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Panicked reports whether the process wrote the start of a panic.
func (l *Lines) Panicked() bool {
	return slices.ContainsFunc(l.All(), func(line Line) bool {
		return strings.Contains(line.Text, "panic:") || strings.Contains(line.Text, "goroutine 1 [")
	})
}

// Tail is the last n lines; of repeated messages only the last.
func (l *Lines) Tail(n int) string {
	all := l.All()
	var last []string
	for i := len(all) - 1; i >= 0 && len(last) < n; i-- {
		if i+1 < len(all) && all[i].Message != "" && all[i].Message == all[i+1].Message {
			continue
		}
		last = append(last, "    "+all[i].Text[:min(len(all[i].Text), 500)])
	}
	slices.Reverse(last)
	return strings.Join(last, "\n")
}
