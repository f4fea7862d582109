package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/cli/programs/aggregator"
	"github.com/conclave-dp/conclave/internal/cli/programs/conclave"
	"github.com/conclave-dp/conclave/internal/cli/programs/student"
	"github.com/conclave-dp/conclave/internal/cli/programs/teacher"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// process is a role running as an operating system process.
type process struct {
	*clustertest.Program
	t    *testing.T
	name string
}

// start runs a program. If it still runs when the test ends, it is killed.
func start(t *testing.T, name string, command ...string) *process {
	t.Helper()
	return startWith(t, name, nil, command...)
}

// startRole runs this program in a role of package clustertest.
func startRole(t *testing.T, role string, args ...string) *process {
	t.Helper()
	return startWith(t, role, []string{clustertest.RoleVariable + "=" + role}, append([]string{os.Args[0]}, args...)...)
}

func startWith(t *testing.T, name string, environment []string, command ...string) *process {
	t.Helper()
	program, err := clustertest.Start(environment, nil, command...)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	p := &process{program, t, name}
	t.Cleanup(func() {
		p.kill()
		if p.Stderr.Panicked() {
			t.Errorf("%s panicked", name)
		}
		if t.Failed() {
			t.Logf("%s (%v) said at last:\n%s", name, p.Cmd.ProcessState, p.Stderr.Tail(12))
		}
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// kill sends SIGKILL.
func (p *process) kill() {
	if !p.ended() {
		_ = p.Cmd.Process.Kill()
	}
	testkit.Receive(p.t, p.Done)
}

// signal sends a signal to a process that runs.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %v to %s: %v", s, p.name, err)
	}
}

// freeze stops a process for a while, and returns when all its threads stand still.
func (p *process) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	p.await("it to stand still", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.Cmd.Process.Pid))
		testkit.Must(p.t, err)
		return !slices.ContainsFunc(threads, func(name string) bool {
			raw, err := os.ReadFile(name)
			return err == nil && !bytes.Contains(raw, []byte("State:\tT"))
		})
	})
}

// hasOpen reports whether a process has a file open.
func (p *process) hasOpen(path string) bool {
	p.t.Helper()
	if runtime.GOOS != "linux" {
		p.t.Skip("open files are in /proc")
	}
	file, err := os.Stat(path)
	testkit.Must(p.t, err)
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Cmd.Process.Pid))
	testkit.Must(p.t, err)
	return slices.ContainsFunc(open, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && os.SameFile(info, file)
	})
}

// killed reports whether SIGKILL ended the process.
func (p *process) killed() bool {
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// wait returns the exit code of a process that ends by itself.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.Done:
	case <-time.After(testkit.Patience):
		p.t.Fatalf("%s did not end within %v", p.name, testkit.Patience)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// stop sends SIGTERM; the process must drain and end without an error.
func (p *process) stop() {
	p.t.Helper()
	if p.ended() {
		p.t.Errorf("%s had ended by itself: %v", p.name, p.Cmd.ProcessState)
		return
	}
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("stop %s: %v", p.name, err)
	}
	if code := p.wait(); code != 0 {
		p.t.Errorf("%s ended with %v after SIGTERM, want exit code 0", p.name, p.Cmd.ProcessState)
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
func (p *process) logged(message string) []clustertest.Line { return p.Stderr.Logged(message) }

// awaitLog waits for a log line with a message for which holds is true; nil accepts any.
func (p *process) awaitLog(message string, holds func(clustertest.Line) bool) clustertest.Line {
	p.t.Helper()
	var found clustertest.Line
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
			p.t.Fatalf("waited for %s, and it ended: %v", what, p.Cmd.ProcessState)
		}
		return false
	})
}

// said reports whether a process wrote a text to standard error.
func (p *process) said(text string) bool {
	for _, l := range p.Stderr.All() {
		if strings.Contains(l.Text, text) {
			return true
		}
	}
	return false
}

// programs are the commands of the programs.
var programs = map[string]func() *cobra.Command{
	"aggregator": aggregator.Command, "conclave": conclave.Command,
	"student": student.Command, "teacher": teacher.Command,
}

// called runs a command that waits for nobody to its end, in this process.
func called(program string, args ...string) (stdout, stderr string, code int) {
	code, stdout, stderr = clitest.Call(programs[program](), clitest.At{}, args...)
	return stdout, stderr, code
}

// run runs a command to its end, in its own process.
func run(t *testing.T, path string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := start(t, path+" "+strings.Join(args, " "), append([]string{path}, args...)...)
	code = p.wait()
	return p.Stdout.String(), p.Stderr.Text(), code
}
