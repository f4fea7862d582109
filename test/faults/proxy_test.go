package faults

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// proxy stands between a role and one that it dials, and does to connections what networks
// do. It never changes, loses or adds a byte of a connection that lives: TCP does not.
type proxy struct {
	name, target string
	listener     net.Listener
	tasks        sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	links   map[*link]bool
	refuse  bool          // new connections are closed at once
	stalled [2]bool       // nothing is passed on: from the dialling side, to it
	delay   time.Duration // of every piece
	pace    time.Duration // the least delay, which is no fault
	tear    bool          // the next piece is cut in the middle, and its connection with it
	torn    int
}

// link is one connection with its two sides, the dialling one first.
type link struct{ sides [2]net.Conn }

func newProxy(t *testing.T, name, address, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	p := &proxy{name: name, target: target, listener: l, links: map[*link]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				p.tasks.Go(func() { p.join(c) })
			}
		}
	})
	t.Cleanup(p.close)
	return p
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cut()
	p.heal()
	p.tasks.Wait()
}

// join connects to the target and passes on until a side closes.
func (p *proxy) join(dialled net.Conn) {
	p.mu.Lock()
	refuse := p.refuse || p.closed
	p.mu.Unlock()
	if refuse {
		dialled.Close()
		return
	}
	target, err := net.DialTimeout("tcp", p.target, 3*time.Second)
	if err != nil {
		dialled.Close()
		return
	}
	l := &link{[2]net.Conn{dialled, target}}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	for side := range 2 {
		both.Go(func() { p.pass(l, side) })
	}
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pass copies from one side of a link to the other until one of them ends; then both do.
func (p *proxy) pass(l *link, side int) {
	from, to := l.sides[side], l.sides[1-side]
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			piece, tear := p.admit(l, side, buffer[:n])
			if _, werr := to.Write(piece); werr != nil || tear {
				reset(from)
				reset(to)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// admit waits until a piece may go on, and says how much of it, and whether the connection
// ends with it.
func (p *proxy) admit(l *link, side int, piece []byte) (rest []byte, tear bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for came := time.Now(); p.links[l] && !p.closed; {
		left := max(p.delay, p.pace) - time.Since(came)
		if left <= 0 {
			break
		}
		t := time.AfterFunc(left, p.changed.Broadcast)
		p.changed.Wait()
		t.Stop()
	}
	for p.stalled[side] && p.links[l] && !p.closed {
		p.changed.Wait()
	}
	if !p.links[l] {
		return nil, true
	}
	if p.tear && len(piece) > 1 {
		p.tear = false
		p.torn++
		return piece[:len(piece)/2], true
	}
	return piece, false
}

// reset ends a connection as a crash does, without a word.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		for _, side := range l.sides {
			reset(side)
		}
		delete(p.links, l)
	}
	p.changed.Broadcast()
}

// set changes what happens to connections; heal lets all pass.
func (p *proxy) set(change func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	p.changed.Broadcast()
}

func (p *proxy) heal() {
	p.set(func(p *proxy) { p.refuse, p.stalled, p.delay, p.tear = false, [2]bool{}, 0, false })
}

// paceStudents delays every piece between students and aggregators, so that runs take longer.
func (c *cluster) paceStudents(pace time.Duration) {
	for _, p := range c.proxiesWhere(func(from, _ string) bool { return from == "students" }) {
		p.set(func(p *proxy) { p.pace = pace })
	}
}

// proxiesWhere are those between two roles for which holds is true.
func (c *cluster) proxiesWhere(holds func(from, to string) bool) (of []*proxy) {
	for _, p := range c.proxies {
		if from, to, _ := strings.Cut(p.name, " to "); holds(from, to) {
			of = append(of, p)
		}
	}
	return of
}

// lose cuts the connections of nodes and students to an aggregator and refuses more, until the
// function that it returns is called. They look for another one at once then, and not when its
// silence has lasted.
func (c *cluster) lose(aggregator *process) (found func()) {
	of := c.proxiesWhere(func(_, to string) bool { return to == aggregator.name })
	for _, p := range of {
		p.set(func(p *proxy) { p.refuse = true })
		p.cut()
	}
	return func() {
		for _, p := range of {
			p.heal()
		}
	}
}

// A proxy does what its faults say and loses nothing of what it passes on.
func TestProxy(t *testing.T) {
	t.Parallel()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	p := newProxy(t, "echo", "127.0.0.1:0", echo.Addr().String())
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.listener.Addr().String())
		testkit.Must(t, err)
		return c
	}
	// said sends a text and returns what came back within a while.
	said := func(c net.Conn, text string, within time.Duration) string {
		if _, err := c.Write([]byte(text)); err != nil {
			return "error"
		}
		_ = c.SetReadDeadline(time.Now().Add(within))
		got := make([]byte, len(text))
		n, _ := io.ReadFull(c, got)
		return string(got[:n])
	}
	c := dial()
	if got := said(c, "hello", 5*time.Second); got != "hello" {
		t.Errorf("an echo of hello is %q", got)
	}
	p.set(func(p *proxy) { p.stalled[1] = true })
	if got := said(c, "held", 200*time.Millisecond); got != "" {
		t.Errorf("a stalled connection says %q", got)
	}
	p.heal()
	if got := said(c, "", 0) + said(c, "back", 5*time.Second); got != "held" {
		t.Errorf("after a stall comes %q, want what was held back", got)
	}
	p.set(func(p *proxy) { p.tear = true })
	// Four bytes are left of before, so that half of these are not enough.
	if got := said(c, "torn-torn", 5*time.Second); len(got) == len("torn-torn") {
		t.Errorf("a torn connection says %q", got)
	}
	if got := said(c, "x", time.Second); got != "" && got != "error" {
		t.Errorf("a torn connection lives: %q", got)
	}
	c.Close()
	p.set(func(p *proxy) { p.refuse = true })
	if c = dial(); said(c, "x", 5*time.Second) == "x" {
		t.Error("a refused connection answers")
	}
	c.Close()
	p.heal()
	c = dial()
	defer c.Close()
	p.set(func(p *proxy) { p.delay = 100 * time.Millisecond })
	began := time.Now()
	if got := said(c, "late", 5*time.Second); got != "late" || time.Since(began) < 200*time.Millisecond {
		t.Errorf("a delayed echo is %q after %v", got, time.Since(began))
	}
	p.cut()
	if got := said(c, "x", 5*time.Second); got == "x" {
		t.Error("a connection that was cut answers")
	}
}
