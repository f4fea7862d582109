package e2e

import (
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// chargeProxy stands between an aggregator and its etcd. Armed, it lets the next
// charge through to etcd and nothing back any more: the round is charged then,
// and the aggregator does not know.
type chargeProxy struct {
	etcd  string
	tasks sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool // open ones, of both sides
	armed   chan uint64       // gets the round of the charge; nil when not armed
	holding bool              // nothing is passed back
	said    []byte            // what the aggregator said last
}

func newChargeProxy(t *testing.T, address, etcd string) *chargeProxy {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &chargeProxy{etcd: etcd, conns: map[net.Conn]bool{}}
	p.tasks.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.tasks.Go(func() { p.join(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.reset()
		p.tasks.Wait()
	})
	return p
}

// arm makes the proxy hold back the outcome of the next charge, and everything
// after it, until reset. The channel then gets the round that is charged.
func (p *chargeProxy) arm() <-chan uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = make(chan uint64, 1)
	return p.armed
}

// reset breaks all connections and passes the next ones on.
func (p *chargeProxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.holding = nil, false
	for conn := range p.conns {
		conn.Close()
	}
}

// join passes on what the two sides of a connection say until one closes.
func (p *chargeProxy) join(client net.Conn) {
	etcd, err := net.Dial("tcp", p.etcd)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[etcd] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(client, etcd, p.forth) })
	both.Go(func() { p.pass(etcd, client, p.back) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, etcd)
	p.mu.Unlock()
}

// pass copies what may be passed from one side to the other, and closes both
// when one is closed.
func (p *chargeProxy) pass(from, to net.Conn, may func(chunk []byte) bool) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && may(buffer[:n]) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// stored is in the request that stores a release, and in no other: a key of
// package coordinator, with the run and the round, and behind it a value in JSON.
var stored = regexp.MustCompile(`(?s).*/releases/[^/]+/([0-9a-f]{16}).*"release":"`)

func (p *chargeProxy) forth(chunk []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == nil {
		p.said = nil
		return true
	}
	p.said = append(p.said, chunk...) // a request may come in pieces
	if found := stored.FindSubmatch(p.said); found != nil {
		round, _ := strconv.ParseUint(string(found[1]), 16, 64)
		p.armed <- round
		p.armed, p.said, p.holding = nil, nil, true
	}
	return true
}

func (p *chargeProxy) back([]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.holding
}
