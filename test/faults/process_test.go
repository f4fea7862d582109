package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program under a supervisor that starts it again whenever it ends.
type process struct {
	name string
	log  string // file that gets what it writes to standard error
	told *happenings

	// command is what is started next.
	mu      sync.Mutex
	command []string
	extra   []string // environment
	cmd     *exec.Cmd
	down    time.Time // not started again before
	ours    bool      // it was ended by the test
	starts  int
	said    map[string]int // messages of the last start

	supervision
	cancel context.CancelFunc
	done   chan struct{} // closed when the supervision ended
	code   int           // of a program that runs once; after done
}

// supervision says how a process is supervised.
type supervision struct {
	// once ends the supervision when the program has ended with code 0; failed, when it
	// is set, decides about another code: true ends the supervision.
	once   bool
	failed func(code int, said string) bool
	// line is told every line of standard error that is JSON, with the number of the start.
	line func(start int, l logLine)
}

// logLine is what the checks need of a line of a log.
type logLine struct {
	Message  string `json:"msg"`
	Fence    int64  `json:"fence"`
	Run      string `json:"run"`
	Round    uint64 `json:"round"`
	Seq      uint64 `json:"ledger_seq"`
	Teachers uint32 `json:"teachers"`
}

// happenings collects what processes did by themselves, for the counts at the end.
type happenings struct {
	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

func (h *happenings) count(what string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = map[string]int{}
	}
	h.counts[what] += n
}

// blame notes something that must not happen.
func (h *happenings) blame(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

func (h *happenings) blamed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.wrong)
}

// supervise starts p and keeps it running until ctx ends.
func (p *process) supervise(ctx context.Context) {
	ctx, p.cancel = context.WithCancel(ctx)
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		for ctx.Err() == nil && !p.once1(ctx) {
		}
	}()
}

// once1 runs the program once, and waits until it may start again. It returns true when it
// shall not.
func (p *process) once1(ctx context.Context) (over bool) {
	tail, err := p.start()
	if err != nil {
		p.told.blame("%s does not start: %v", p.name, err)
		return true
	}
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	err = p.cmd.Wait()
	tail.file.Close()
	p.mu.Lock()
	ours, code := p.ours, p.cmd.ProcessState.ExitCode()
	p.mu.Unlock()
	said := tail.last()
	switch {
	case ctx.Err() != nil:
		return true
	case strings.Contains(said, "panic:") || strings.Contains(said, "goroutine 1 ["):
		p.told.blame("%s panicked; see %s", p.name, p.log)
		return true
	case p.once && code == 0:
		return true
	case !ours && p.failed != nil && p.failed(code, said):
		p.code = code
		return true
	case !ours && p.failed == nil:
		p.told.blame("%s ended by itself: %v: %s", p.name, err, said)
	}
	p.mu.Lock()
	wait := max(time.Until(p.down), 100*time.Millisecond)
	p.mu.Unlock()
	select {
	case <-time.After(wait):
		return false
	case <-ctx.Done():
		return true
	}
}

func (p *process) start() (*tail, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p.starts++
	p.ours = false
	p.said = map[string]int{}
	t := &tail{file: file, start: p.starts, tell: p.hear}
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CONCLAVE_") || strings.HasPrefix(v, roleVariable) ||
			strings.HasPrefix(v, dirVariable)
	}), p.extra...)
	// Memory is short where many processes share a machine.
	p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=2", "GOGC=50")
	p.cmd.Stderr = t
	if err := p.cmd.Start(); err != nil {
		file.Close()
		return nil, err
	}
	return t, nil
}

// signal sends a signal to the program, if it runs.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// kill is kill -9; the program is started again after a while.
func (p *process) kill(down time.Duration) { p.end(syscall.SIGKILL, down) }

func (p *process) end(s syscall.Signal, down time.Duration) {
	p.mu.Lock()
	p.ours, p.down = true, time.Now().Add(down)
	p.mu.Unlock()
	p.signal(s)
}

// expect says that the program that runs now may end in any way.
func (p *process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ours = true
}

// hear takes a line of the log in.
func (p *process) hear(start int, l logLine) {
	p.mu.Lock()
	p.said[l.Message]++
	p.mu.Unlock()
	if p.line != nil {
		p.line(start, l)
	}
}

// logged says how often the program that runs now logged a message.
func (p *process) logged(message string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said[message]
}

// replace ends the program with a signal and has another one started in its place.
func (p *process) replace(s syscall.Signal, command []string) {
	p.mu.Lock()
	p.command = command
	p.mu.Unlock()
	p.end(s, 0)
}

func (p *process) started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// state is the letter by which /proc tells what a process does; T is stopped. It is 0 where
// nothing can be said.
func (p *process) state() byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(p.cmd.Process.Pid), "stat"))
	if i := bytes.LastIndexByte(raw, ')'); err == nil && i > 0 && i+2 < len(raw) {
		return raw[i+2]
	}
	return 0
}

// close ends the supervision and the program.
func (p *process) close() {
	if p.cancel == nil {
		return
	}
	p.cancel()
	<-p.done
}

// tail passes on what a process writes, line by line, and keeps the last lines.
type tail struct {
	file  *os.File
	start int
	tell  func(int, logLine)

	mu      sync.Mutex
	partial []byte
	lines   []string
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.file.Write(b)
	t.partial = append(t.partial, b...)
	for {
		i := bytes.IndexByte(t.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		text := t.partial[:i]
		var l logLine
		if json.Unmarshal(text, &l) == nil {
			t.tell(t.start, l)
		}
		t.lines = append(t.lines, string(text[:min(len(text), 600)]))
		if len(t.lines) > 40 {
			t.lines = slices.Delete(t.lines, 0, 20)
		}
		t.partial = t.partial[i+1:]
	}
}

// last is what the process said at last, the end of a panic included.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(append(t.lines, string(t.partial)), "\n")
}
