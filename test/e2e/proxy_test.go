package e2e

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// pace is how long a message between a student and an aggregator takes in a cluster whose
// runs shall last.
const pace = 40 * time.Millisecond

// slowDown has the students whose files are written from now on reach the aggregators over
// a slow line, so that a run is not over before a test has done what it does in its middle.
func (c *cluster) slowDown() {
	c.t.Helper()
	var paced []string
	for _, address := range strings.Split(strings.Trim(c.address, "'"), ", ") {
		line := freeAddress(c.t)
		slowly := func([]byte) bool { time.Sleep(pace); return true }
		newProxy(c.t, line, &proxy{target: address, forth: slowly, back: slowly})
		paced = append(paced, line)
	}
	c.paced = "'" + strings.Join(paced, ", ") + "'"
}

// proxy passes on connections to a target, each chunk when forth or back says that it may.
type proxy struct {
	target      string
	forth, back func(chunk []byte) bool
	tasks       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // open ones, of both sides
}

// newProxy starts p at an address.
func newProxy(t *testing.T, address string, p *proxy) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	p.conns = map[net.Conn]bool{}
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
		p.cut()
		p.tasks.Wait()
	})
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

// join passes on what the two sides of a connection say until one closes.
func (p *proxy) join(client net.Conn) {
	target, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[target] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(client, target, p.forth) })
	both.Go(func() { p.pass(target, client, p.back) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, target)
	p.mu.Unlock()
}

// pass copies what may be passed from one side to the other, and closes both
// when one is closed.
func (p *proxy) pass(from, to net.Conn, may func(chunk []byte) bool) {
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

// chargeProxy stands between an aggregator and its etcd. Armed, it lets the next
// charge through to etcd and no longer anything back: the round is charged then,
// and the aggregator does not know.
type chargeProxy struct {
	proxy *proxy

	mu      sync.Mutex
	armed   chan uint64 // gets the round of the charge; nil when not armed
	holding bool        // nothing is passed back
	said    []byte      // what the aggregator said last
}

func newChargeProxy(t *testing.T, address, etcd string) *chargeProxy {
	t.Helper()
	p := &chargeProxy{}
	p.proxy = &proxy{target: etcd, forth: p.forth, back: p.back}
	newProxy(t, address, p.proxy)
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
	p.armed, p.holding = nil, false
	p.mu.Unlock()
	p.proxy.cut()
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
