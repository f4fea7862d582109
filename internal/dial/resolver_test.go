package dial

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// zone is a DNS of one name.
type zone struct {
	mu      sync.Mutex
	hosts   []string
	err     error
	lookups int
}

func (z *zone) set(err error, hosts ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.hosts, z.err = hosts, err
}

func (z *zone) asked() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.lookups
}

func (z *zone) lookup(_ context.Context, host string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.lookups++
	if host != theName {
		return nil, errors.New("no such host")
	}
	return slices.Clone(z.hosts), z.err
}

const theName = "aggregators.example"

// connectByName dials the zone's name at a port.
func (a aggregators) connectByName(z *zone, port string) *Conn {
	a.t.Helper()
	target, err := Parse(net.JoinHostPort(theName, port), "")
	testkit.Must(a.t, err)
	n := newNames(target)
	n.lookup, n.proxied, n.every = z.lookup, func(string) bool { return false }, 50*time.Millisecond
	n.attempt = 2 * testkit.Patience // longer than any test waits
	return a.connectBy(n)
}

// The listening address behind a name answers, and after it the next, including one that the name did not have before.
func TestANameOfSeveralAddresses(t *testing.T) {
	a := newAggregators(t)
	_, port, _ := net.SplitHostPort(testkit.FreeAddress(t, "127.0.0.1"))
	z := &zone{hosts: []string{"127.0.0.3", "127.0.0.2"}}
	conn := a.connectByName(z, port)
	for _, host := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.2"} {
		_, stop := a.serve("one", theName, net.JoinHostPort(host, port))
		ask(t, conn)
		stop()
	}
	_, stop := a.serve("one", theName, net.JoinHostPort("127.0.0.4", port))
	defer stop()
	z.set(nil, "127.0.0.2", "127.0.0.4")
	ask(t, conn)
}

// A process that is stopped takes connections and says nothing. The next address is
// tried before the attempt at it is given up.
func TestASilentAddressHoldsNobodyUp(t *testing.T) {
	a := newAggregators(t)
	_, port, _ := net.SplitHostPort(testkit.FreeAddress(t, "127.0.0.1"))
	silent, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", port))
	testkit.Must(t, err)
	defer silent.Close()
	_, stop := a.serve("one", theName, net.JoinHostPort("127.0.0.3", port))
	defer stop()
	ask(t, a.connectByName(&zone{hosts: []string{"127.0.0.2", "127.0.0.3"}}, port))
}

// While the DNS is away the known addresses are used; an unknown name is an error with the name in it.
func TestTheDNSIsAway(t *testing.T) {
	a := newAggregators(t)
	_, port, _ := net.SplitHostPort(testkit.FreeAddress(t, "127.0.0.1"))
	z := &zone{hosts: []string{"127.0.0.2"}}
	conn := a.connectByName(z, port)
	_, stop := a.serve("one", theName, net.JoinHostPort("127.0.0.2", port))
	ask(t, conn)
	z.set(errors.New("no answer"))
	stop()
	before := z.asked()
	for z.asked() == before { // until the break is noticed and the name was asked for in vain
		_, _ = healthpb.NewHealthClient(conn).Check(testkit.Within(t), &healthpb.HealthCheckRequest{})
		time.Sleep(10 * time.Millisecond)
	}
	_, stop = a.serve("one", theName, net.JoinHostPort("127.0.0.2", port))
	defer stop()
	ask(t, conn)
}

// told collects a resolver's updates.
type told struct {
	resolver.ClientConn // nil: nothing else is called
	states              chan []string
}

func (c *told) UpdateState(s resolver.State) error {
	var addresses []string
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses[0].Addr+" as "+e.Addresses[0].ServerName)
	}
	c.states <- addresses
	return nil
}

func TestWhatIsLookedUp(t *testing.T) {
	noProxy := func(string) bool { return false }
	known := &zone{hosts: []string{"10.0.0.2", "10.0.0.1", "fd00::1"}}
	for name, c := range map[string]struct {
		list, serverName string
		zone             *zone
		proxied          func(string) bool
		want             []string
		lookups          int
	}{
		"addresses are not looked up": {list: "127.0.0.1:1,[::1]:2", zone: &zone{}, proxied: noProxy,
			want: []string{"127.0.0.1:1 as 127.0.0.1", "[::1]:2 as ::1"}},
		"every address must prove the name": {list: theName + ":7443", zone: known, proxied: noProxy, lookups: 1,
			want: []string{"10.0.0.1:7443 as " + theName, "10.0.0.2:7443 as " + theName,
				"[fd00::1]:7443 as " + theName}},
		"or the one that is set": {list: theName + ":7443", serverName: "agg", zone: &zone{hosts: []string{"10.0.0.1"}},
			proxied: noProxy, lookups: 1,
			want: []string{"10.0.0.1:7443 as agg"}},
		"unknown names stay, and hold nobody up": {list: "other.example:7443," + theName + ":1",
			zone: &zone{hosts: []string{"10.0.0.1"}}, proxied: noProxy, lookups: 2,
			want: []string{"other.example:7443 as other.example", "10.0.0.1:1 as " + theName}},
		"a name without addresses stays": {list: theName + ":7443", zone: &zone{}, proxied: noProxy, lookups: 1,
			want: []string{theName + ":7443 as " + theName}},
		"one lookup for all ports of a name": {list: theName + ":1," + theName + ":2",
			zone: &zone{hosts: []string{"10.0.0.1", "10.0.0.1"}}, proxied: noProxy, lookups: 1,
			want: []string{"10.0.0.1:1 as " + theName, "10.0.0.1:2 as " + theName}},
		"a proxy looks up by itself": {list: theName + ":7443", zone: &zone{hosts: []string{"10.0.0.1"}},
			proxied: func(string) bool { return true },
			want:    []string{theName + ":7443 as " + theName}},
		"a name without proxy is not sent to one as an address": {list: theName + ":7443",
			zone: &zone{hosts: []string{"10.0.0.1"}}, lookups: 1,
			proxied: func(address string) bool { return address == "10.0.0.1:7443" },
			want:    []string{theName + ":7443 as " + theName}},
	} {
		t.Run(name, func(t *testing.T) {
			c.zone.lookups = 0
			target, err := Parse(c.list, c.serverName)
			testkit.Must(t, err)
			n := names{target: target, lookup: c.zone.lookup, proxied: c.proxied, every: time.Millisecond,
				attempt: testkit.Patience}
			cc := &told{states: make(chan []string, 2)}
			r, err := n.Build(resolver.Target{}, cc, resolver.BuildOptions{})
			testkit.Must(t, err)
			got := testkit.Receive(t, cc.states)
			r.Close()
			testkit.Same(t, "", c.want, got)
			if c.zone.lookups != c.lookups {
				t.Errorf("%d lookups, want %d", c.zone.lookups, c.lookups)
			}
		})
	}
}

// Unchanged addresses are not reported again, and too frequent lookups are delayed.
func TestAddressesAreToldOnce(t *testing.T) {
	target, err := Parse(theName+":1", "")
	testkit.Must(t, err)
	z := &zone{hosts: []string{"10.0.0.1", "10.0.0.2"}}
	noProxy := func(string) bool { return false }
	n := names{target: target, lookup: z.lookup, proxied: noProxy, every: 20 * time.Millisecond,
		attempt: testkit.Patience}
	cc := &told{states: make(chan []string, 9)}
	began := time.Now()
	r, err := n.Build(resolver.Target{}, cc, resolver.BuildOptions{})
	testkit.Must(t, err)
	testkit.Receive(t, cc.states)
	z.set(nil, "10.0.0.2", "10.0.0.1") // another order is nothing new
	testkit.Eventually(t, "two more lookups", func() bool {
		r.ResolveNow(resolver.ResolveNowOptions{})
		return z.asked() >= 3
	})
	r.Close()
	if most := 1 + int(time.Since(began)/n.every); z.asked() > most {
		t.Errorf("%d lookups, with %v between them at most %d", z.asked(), n.every, most)
	}
	if len(cc.states) > 0 {
		t.Errorf("told again: %v", testkit.Receive(t, cc.states))
	}
}
