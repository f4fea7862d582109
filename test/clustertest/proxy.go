package clustertest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Proxy is between a role and its peer, and simulates network faults on connections. It never changes, loses or adds
// a byte of a live connection, because TCP does not.
type Proxy struct {
	Name     string
	target   string
	listener net.Listener
	tasks    sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	links   map[*link]bool
	Refuse  bool          // new connections are closed at once
	Stalled [2]bool       // nothing passes: [0] from the dialling side, [1] to it
	Delay   time.Duration // for every piece
	Pace    time.Duration // minimum delay, which is not a fault
	Tear    bool          // the next piece is cut in the middle, and its connection ends
}

// link is one connection with its two sides, the dialling one first.
type link struct{ sides [2]net.Conn }

// NewProxy starts a proxy that listens on an address until the test ends.
func NewProxy(t testing.TB, name, address, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	p := &Proxy{Name: name, target: target, listener: l, links: map[*link]bool{}}
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

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.Heal()
	p.tasks.Wait()
}

// join connects to the target and forwards until a side closes.
func (p *Proxy) join(dialled net.Conn) {
	target, err := net.DialTimeout("tcp", p.target, 3*time.Second)
	if err != nil {
		dialled.Close()
		return
	}
	l := &link{[2]net.Conn{dialled, target}}
	p.mu.Lock()
	refuse := p.Refuse || p.closed
	if !refuse {
		p.links[l] = true
	}
	p.mu.Unlock()
	if refuse {
		dialled.Close()
		target.Close()
		return
	}
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
func (p *Proxy) pass(l *link, side int) {
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

// admit waits until a piece may pass. It returns how much of it, and whether the connection then ends.
func (p *Proxy) admit(l *link, side int, piece []byte) (rest []byte, tear bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for came := time.Now(); p.links[l] && !p.closed; {
		left := max(p.Delay, p.Pace) - time.Since(came)
		if left <= 0 {
			break
		}
		t := time.AfterFunc(left, p.changed.Broadcast)
		p.changed.Wait()
		t.Stop()
	}
	for p.Stalled[side] && p.links[l] && !p.closed {
		p.changed.Wait()
	}
	if !p.links[l] {
		return nil, true
	}
	if p.Tear && len(piece) > 1 {
		p.Tear = false
		return piece[:len(piece)/2], true
	}
	return piece, false
}

// reset ends a connection abruptly, as a crash does.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

// Cut ends all connections.
func (p *Proxy) Cut() {
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

// Set changes the faults; [Proxy.Heal] removes all.
func (p *Proxy) Set(change func(*Proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	p.changed.Broadcast()
}

// Sever ends all connections and refuses new ones, until [Proxy.Heal].
func (p *Proxy) Sever() {
	p.Set(func(p *Proxy) { p.Refuse = true })
	p.Cut()
}

// Heal ends all faults.
func (p *Proxy) Heal() {
	p.Set(func(p *Proxy) { p.Refuse, p.Stalled, p.Delay, p.Tear = false, [2]bool{}, 0, false })
}
