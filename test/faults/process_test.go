package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/conclave-dp/conclave/test/clustertest"
)

// process is a program with a supervisor that restarts it whenever it ends.
type process struct {
	name string
	log  string // file for its standard error
	told *happenings

	mu      sync.Mutex
	command []string             // the next command
	extra   []string             // environment
	program *clustertest.Program // the current or last program
	down    time.Time            // not restarted before
	ours    bool                 // the test ended it
	starts  int

	supervision
	cancel context.CancelFunc
	done   chan struct{} // closed when supervision ended
	code   int           // exit code of a program that runs once; valid after done
}

// supervision says how a process is supervised.
type supervision struct {
	// once ends supervision when the program exits with code 0. failed, if set, decides about other codes: true ends
	// supervision.
	once   bool
	failed func(code int, said string) bool
	// line gets every line of standard error, with the number of the start.
	line func(start int, l clustertest.Line)
}

// happenings counts events that processes caused on their own, for the summary.
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

// blame records a violation.
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

// once1 runs the program once and waits until it may restart. It returns true if it must not.
func (p *process) once1(ctx context.Context) (over bool) {
	program, err := p.start()
	if err != nil {
		p.told.blame("%s does not start: %v", p.name, err)
		return true
	}
	defer context.AfterFunc(ctx, func() { _ = program.Cmd.Process.Kill() })()
	<-program.Done
	p.mu.Lock()
	ours, code := p.ours, program.Cmd.ProcessState.ExitCode()
	p.mu.Unlock()
	said := program.Stderr.Tail(40)
	switch {
	case ctx.Err() != nil:
		return true
	case program.Stderr.Panicked():
		p.told.blame("%s panicked; see %s", p.name, p.log)
		return true
	case p.once && code == 0:
		return true
	case !ours && p.failed != nil && p.failed(code, said):
		p.code = code
		return true
	case !ours && p.failed == nil:
		p.told.blame("%s ended by itself: %v: %s", p.name, program.Cmd.ProcessState, said)
	}
	p.mu.Lock()
	wait := max(time.Until(p.down), 100*time.Millisecond)
	p.mu.Unlock()
	return pause(ctx, wait)
}

// pause waits, and reports whether ctx has ended.
func pause(ctx context.Context, d time.Duration) (over bool) {
	select {
	case <-time.After(d):
		return false
	case <-ctx.Done():
		return true
	}
}

func (p *process) start() (*clustertest.Program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p.starts++
	p.ours = false
	start := p.starts
	tell := func(l clustertest.Line) {
		_, _ = fmt.Fprintln(file, l.Text)
		if p.line != nil {
			p.line(start, l)
		}
	}
	environment := append(slices.Clone(p.extra), "GOMAXPROCS=2")
	if *faultCount > 0 { // memory is scarce when many processes share a machine for long
		environment = append(environment, "GOGC=50")
	}
	p.program, err = clustertest.Start(environment, tell, p.command...)
	if err != nil {
		file.Close()
		return nil, err
	}
	go func() { <-p.program.Done; file.Close() }()
	return p.program, nil
}

// signal sends a signal to the program, if it runs.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send(s)
}

// send is signal with the lock held.
func (p *process) send(s syscall.Signal) {
	if p.program != nil {
		_ = p.program.Cmd.Process.Signal(s)
	}
}

// kill is kill -9; the program restarts after a while.
func (p *process) kill(down time.Duration) { p.end(syscall.SIGKILL, down) }

func (p *process) end(s syscall.Signal, down time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ours, p.down = true, time.Now().Add(down)
	p.send(s)
}

// expect allows the current program to end in any way.
func (p *process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ours = true
}

// logged is how often the current program logged a message.
func (p *process) logged(message string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return 0
	}
	return len(p.program.Stderr.Logged(message))
}

// replace ends the program with a signal and starts another one in its place.
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

// state is the process state letter in /proc; T means stopped. It is 0 if unknown.
func (p *process) state() byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return 0
	}
	raw, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(p.program.Cmd.Process.Pid), "stat"))
	if i := bytes.LastIndexByte(raw, ')'); err == nil && i > 0 && i+2 < len(raw) {
		return raw[i+2]
	}
	return 0
}

// close ends supervision and the program.
func (p *process) close() {
	if p.cancel == nil {
		return
	}
	p.cancel()
	<-p.done
}
