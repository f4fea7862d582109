package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// process is a role running as an operating system process.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdout bytes.Buffer // complete after done
	stderr lines
	done   chan struct{}
}

// start runs a program. When the test ends and the process still runs, it is
// killed.
func start(t *testing.T, name, path string, args ...string) *process {
	t.Helper()
	return startWith(t, name, nil, path, args...)
}

func startWith(t *testing.T, name string, environment []string, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CONCLAVE_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(p.cmd.Env, environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // ProcessState has the outcome
	}()
	t.Cleanup(func() {
		p.kill()
		if text := p.stderr.text(); strings.Contains(text, "panic:") || strings.Contains(text, "goroutine 1 [") {
			t.Errorf("%s panicked", name)
		}
		if t.Failed() {
			t.Logf("%s (%v) said at last:\n%s", name, p.cmd.ProcessState, p.stderr.tail(12))
		}
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill is kill -9.
func (p *process) kill() {
	if !p.ended() {
		_ = p.cmd.Process.Kill()
	}
	testkit.Receive(p.t, p.done)
}

// signal sends a signal to a process that runs.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %v to %s: %v", s, p.name, err)
	}
}

// killed says whether SIGKILL ended the process, and nothing else.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// wait returns the exit code of a process that ends by itself.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(testkit.Patience):
		p.t.Fatalf("%s did not end within %v", p.name, testkit.Patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop is SIGTERM; the process must drain and end without an error.
func (p *process) stop() {
	p.t.Helper()
	if p.ended() {
		p.t.Errorf("%s had ended by itself: %v", p.name, p.cmd.ProcessState)
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("stop %s: %v", p.name, err)
	}
	if code := p.wait(); code != 0 {
		p.t.Errorf("%s ended with %v after SIGTERM, want exit code 0", p.name, p.cmd.ProcessState)
	}
}

// stop stops processes one after the other.
func stop(processes ...*process) {
	for _, p := range processes {
		p.t.Helper()
		p.stop()
	}
}

// logged returns the log lines with a message.
func (p *process) logged(message string) []logLine {
	var found []logLine
	for _, l := range p.stderr.all() {
		if l.Message == message {
			found = append(found, l)
		}
	}
	return found
}

// awaitLog waits for a log line with a message for which holds is true; nil
// takes any.
func (p *process) awaitLog(message string, holds func(logLine) bool) logLine {
	p.t.Helper()
	var found logLine
	p.await(fmt.Sprintf("%s to log %q", p.name, message), func() bool {
		for _, l := range p.logged(message) {
			if holds == nil || holds(l) {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

// await waits for something that p brings about.
func (p *process) await(what string, holds func() bool) {
	p.t.Helper()
	testkit.Eventually(p.t, what, func() bool {
		ended := p.ended()
		if holds() {
			return true
		}
		if ended {
			p.t.Fatalf("waited for %s, and it ended: %v", what, p.cmd.ProcessState)
		}
		return false
	})
}

// said tells whether a process wrote a text to standard error.
func (p *process) said(text string) bool {
	for _, l := range p.stderr.all() {
		if strings.Contains(l.Text, text) {
			return true
		}
	}
	return false
}

// run runs a command to its end.
func run(t *testing.T, path string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := start(t, strings.Join(append([]string{path}, args...), " "), path, args...)
	code = p.wait()
	return p.stdout.String(), p.stderr.text(), code
}

// logLine is a line of a role's standard error. Message is empty where the line
// is not a log entry.
type logLine struct {
	Text     string    `json:"-"`
	Time     time.Time `json:"ts"`
	Level    string    `json:"level"`
	Message  string    `json:"msg"`
	Run      string    `json:"run"`
	Round    uint64    `json:"round"`
	Teachers int       `json:"teachers"`
	Released uint64    `json:"released"`
	Spent    float64   `json:"epsilon_spent"`
}

// lines collects what a process writes, line by line.
type lines struct {
	mu      sync.Mutex
	whole   []logLine
	partial []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, b...)
	for {
		i := bytes.IndexByte(l.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		line := logLine{Text: string(l.partial[:i])}
		// Fields of another type under these names leave the rest as it is.
		if err := json.Unmarshal(l.partial[:i], &line); errors.As(err, new(*json.SyntaxError)) {
			line = logLine{Text: line.Text}
		}
		l.whole = append(l.whole, line)
		l.partial = l.partial[i+1:]
	}
}

func (l *lines) all() []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole[:len(l.whole):len(l.whole)]
}

func (l *lines) text() string {
	var b strings.Builder
	for _, line := range l.all() {
		b.WriteString(line.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// tail returns the last n lines; of a message that repeats, only the last.
func (l *lines) tail(n int) string {
	all := l.all()
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
