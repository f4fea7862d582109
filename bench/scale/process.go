package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// endPatience is how long a process that was told to end may take.
	endPatience = 30 * time.Second
	// startPatience bounds the wait for a process to say where it listens.
	startPatience = time.Minute
)

// process is a program under measurement or beside it. Its standard error goes to a
// file.
type process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	log   string // path of its standard error
	ended chan struct{}
	err   error // of Wait, after ended is closed
}

// start starts a program; its log goes to path.
func start(name, path, program string, args ...string) (*process, error) {
	stderr, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd := exec.Command(program, args...)
	cmd.Stderr = stderr
	cmd.Env = append(os.Environ(), childMark+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of our own: Wait closes that of the package, and the last output with it.
	out, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = said
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), said.Close(), out.Close())
	}
	said.Close()
	p := &process{name: name, cmd: cmd, in: in, out: bufio.NewReader(out), log: path, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// line reads a line of standard output. It blocks while the process prints nothing; ctx ends the process, and so
// the wait.
func (p *process) line(ctx context.Context) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	text, err := p.out.ReadString('\n')
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%s ended: %s", p.name, p.lastWords())
	}
	return strings.TrimSpace(text), nil
}

// stop ends a process: by closing its input, or by a signal if it reads none.
func (p *process) stop(by os.Signal) error {
	p.in.Close()
	if by != nil {
		if err := p.cmd.Process.Signal(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	select {
	case <-p.ended:
	case <-time.After(endPatience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %v and was killed", p.name, endPatience)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, p.err, p.lastWords())
	}
	return nil
}

// kill ends a process at once, if it has not ended.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.ended
}

func (p *process) lastWords() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-3):], []byte(" | ")))
}
