package dial

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
)

// askAgain is the least time between two DNS lookups: waiting for an absent aggregator fails more often than that.
const askAgain = time.Second

// names turn the addresses of a target into what gRPC connects to. A host name that
// stands for several addresses, such as that of a headless Service, gives all of them:
// the one that leads is found also where another takes connections and says nothing,
// because the next is tried a moment later and not when the first has failed.
type names struct {
	target Target
	// lookup asks the DNS for the addresses of a host.
	lookup func(ctx context.Context, host string) ([]string, error)
	// proxied says whether an address is dialled through a proxy. That is decided by
	// names, and the proxy finds their addresses by itself.
	proxied func(address string) bool
	// every is the least time between two lookups.
	every time.Duration
	// attempt bounds the time for one address, or one lookup, that does not answer at all.
	attempt time.Duration
}

func newNames(t Target) names {
	return names{target: t, lookup: net.DefaultResolver.LookupHost, proxied: byProxy, every: askAgain,
		attempt: attempt}
}

// byProxy asks the environment, as gRPC does.
func byProxy(address string) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	return err == nil && proxy != nil
}

// Scheme implements resolver.Builder.
func (n names) Scheme() string { return "conclave" }

// Build implements resolver.Builder. It returns at once; names are looked up when the
// connection is first wanted, and again whenever no address could be connected.
func (n names) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	w := &watch{names: n, cc: cc, again: make(chan struct{}, 1), known: map[string][]string{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if !n.anyName() {
		w.tell()
		return w, nil
	}
	w.looking.Go(w.look)
	return w, nil
}

// anyName says whether there is anything to look up.
func (n names) anyName() bool { return slices.ContainsFunc(n.target.addresses, n.isName) }

func (n names) isName(address string) bool {
	host, _, _ := net.SplitHostPort(address) // Parse has seen that it splits
	_, err := netip.ParseAddr(host)
	return err != nil && !n.proxied(address)
}

type watch struct {
	names
	cc      resolver.ClientConn
	again   chan struct{}
	looking sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc

	known map[string][]string // host -> its addresses at the last lookup that worked
	told  []resolver.Endpoint
}

// ResolveNow implements resolver.Resolver.
func (w *watch) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case w.again <- struct{}{}:
	default: // one is waiting
	}
}

// Close implements resolver.Resolver.
func (w *watch) Close() {
	w.stop()
	w.looking.Wait()
}

func (w *watch) look() {
	for {
		w.lookAll()
		if w.ctx.Err() != nil {
			return
		}
		w.tell()
		select {
		case <-time.After(w.every):
		case <-w.ctx.Done():
			return
		}
		select {
		case <-w.again:
		case <-w.ctx.Done():
			return
		}
	}
}

// lookAll looks up every name at the same time, so that one whose servers are silent
// holds the others up no longer than an attempt.
func (w *watch) lookAll() {
	ctx, cancel := context.WithTimeout(w.ctx, w.attempt)
	defer cancel()
	var mu sync.Mutex
	var lookups sync.WaitGroup
	asked := map[string]bool{}
	for _, address := range w.target.addresses {
		host, _, _ := net.SplitHostPort(address)
		if !w.isName(address) || asked[host] {
			continue
		}
		asked[host] = true
		lookups.Go(func() {
			found, err := w.lookup(ctx, host)
			if err != nil || len(found) == 0 {
				return // what was known stays: a DNS that is away is no reason to forget
			}
			slices.Sort(found)
			mu.Lock()
			w.known[host] = slices.Compact(found)
			mu.Unlock()
		})
	}
	lookups.Wait()
}

// tell gives gRPC the addresses, unless it has them. An unknown name is passed on unchanged, so that dialling it
// reports the fault.
func (w *watch) tell() {
	var endpoints []resolver.Endpoint
	for _, address := range w.target.addresses {
		host, port, _ := net.SplitHostPort(address)
		dialled := []string{address}
		if w.isName(address) && len(w.known[host]) > 0 {
			dialled = nil
			for _, ip := range w.known[host] {
				dialled = append(dialled, net.JoinHostPort(ip, port))
			}
			if slices.ContainsFunc(dialled, w.proxied) {
				// The name is excepted from the proxy, its addresses are not.
				dialled = []string{address}
			}
		}
		for _, d := range dialled {
			endpoints = append(endpoints,
				resolver.Endpoint{Addresses: []resolver.Address{{Addr: d, ServerName: w.target.nameOf(address)}}})
		}
	}
	same := func(a, b resolver.Endpoint) bool { return a.Addresses[0].Equal(b.Addresses[0]) }
	if slices.EqualFunc(endpoints, w.told, same) {
		return
	}
	w.told = endpoints
	// An error is that the connection does not want the addresses, and it asks again.
	_ = w.cc.UpdateState(resolver.State{Endpoints: endpoints})
}
