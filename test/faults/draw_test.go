package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/test/clustertest"
)

// drawer draws faults and commits them.
type drawer struct {
	*rand.Rand
	c    *cluster
	etcd *clientv3.Client
	bag  []fault
	// short takes each kind once.
	short bool

	mu   sync.Mutex
	busy map[string]bool // processes and places that currently have a fault
}

// fault is a kind of fault.
type fault struct {
	name string
	// many is how often the kind is in the bag.
	many int
	// from and to bound its duration, in seconds.
	from, to float64
	// partition says that it needs namespaces.
	partition bool
	// begin injects the fault and returns whom it affects and how it ends, or nil if it applies to nobody now.
	begin func(d *drawer) *committed
}

// committed is an active fault.
type committed struct {
	on  []string
	end func() // nil if it is over at once
}

func newDrawer(ctx context.Context, c *cluster, seed uint64) (*drawer, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), DialTimeout: 5 * time.Second,
		Logger: zap.NewNop(), Context: ctx})
	if err != nil {
		return nil, err
	}
	return &drawer{Rand: rand.New(rand.NewPCG(seed, 0)), c: c, etcd: client, busy: map[string]bool{}}, nil
}

// next draws from a bag of all kinds, so that none is missing for long.
func (d *drawer) next() fault {
	if len(d.bag) == 0 {
		d.fill()
	}
	f := d.bag[0]
	d.bag = d.bag[1:]
	return f
}

// fill fills the bag, and returns how many faults are in it.
func (d *drawer) fill() int {
	for _, f := range kinds() {
		switch {
		case f.partition && d.c.net == nil:
		case d.short:
			d.bag = append(d.bag, f)
		default:
			d.bag = append(d.bag, slices.Repeat([]fault{f}, f.many)...)
		}
	}
	d.Shuffle(len(d.bag), func(i, j int) { d.bag[i], d.bag[j] = d.bag[j], d.bag[i] })
	return len(d.bag)
}

// take marks targets of a fault; it returns false if one of them already has a fault.
func (d *drawer) take(on []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(on, func(who string) bool { return d.busy[who] }) {
		return false
	}
	for _, who := range on {
		d.busy[who] = true
	}
	return true
}

func (d *drawer) free(on []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, who := range on {
		delete(d.busy, who)
	}
}

// leader is the leading aggregator according to etcd, or a random one if unknown.
func (d *drawer) leader() int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r, err := d.etcd.Get(ctx, "/conclave/leader")
	if err == nil && len(r.Kvs) > 0 {
		for i := range replicas {
			if strings.Contains(string(r.Kvs[0].Value), fmt.Sprintf(`"agg%d"`, i)) {
				return i
			}
		}
	}
	return d.IntN(replicas)
}

// etcdLeader is the member that leads etcd, or a random one.
func (d *drawer) etcdLeader() int {
	for i, endpoint := range d.c.endpoints() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		r, err := d.etcd.Status(ctx, endpoint)
		cancel()
		if err == nil && r.Leader == r.Header.GetMemberId() {
			return i
		}
	}
	return d.IntN(replicas)
}

// other is a random one of the other two.
func (d *drawer) other(i int) int { return (i + 1 + d.IntN(replicas-1)) % replicas }

// some is a random choice of one to most processes.
func (d *drawer) some(of []*process, most int) []*process {
	if len(of) == 0 {
		return nil
	}
	of = slices.Clone(of)
	d.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return of[:1+d.IntN(min(most, len(of)))]
}

func names(of []*process) (all []string) {
	for _, p := range of {
		all = append(all, p.name)
	}
	return all
}

// seconds draws a duration.
func (d *drawer) seconds(from, to float64) time.Duration {
	return time.Duration((from + (to-from)*d.Float64()) * float64(time.Second))
}

// kill and stop end processes, which their supervisors restart.
func (d *drawer) kill(of ...*process) *committed { return d.terminate(syscall.SIGKILL, of) }
func (d *drawer) stop(of ...*process) *committed { return d.terminate(syscall.SIGTERM, of) }

func (d *drawer) terminate(s syscall.Signal, of []*process) *committed {
	if len(of) == 0 || !d.take(names(of)) {
		return nil
	}
	for _, p := range of {
		p.end(s, d.seconds(0, 2))
	}
	return &committed{on: names(of)}
}

// pause suspends processes and resumes them later.
func (d *drawer) pause(of ...*process) *committed {
	if len(of) == 0 || !d.take(names(of)) {
		return nil
	}
	for _, p := range of {
		p.signal(syscall.SIGSTOP)
	}
	return &committed{names(of), func() {
		for _, p := range of {
			p.signal(syscall.SIGCONT)
		}
	}}
}

// trap makes a leader with hooks stop or kill itself before or after its next charge. The duration of a stop counts
// from there. It is nil if the leader makes no charge.
func (d *drawer) trap(when, how string) *committed {
	leader := d.leader()
	p := d.c.aggregators[leader]
	if leader == 0 && d.short { // it has no hooks, and may not end soon
		p.kill(2 * time.Second)
	}
	if leader == 0 || !d.take([]string{p.name}) {
		return nil
	}
	file := filepath.Join(d.c.traps(leader), when)
	p.expect()
	if err := clustertest.Trap(d.c.traps(leader), when, how); err != nil {
		d.c.told.blame("set a trap: %v", err)
	}
	succeeded := func() bool {
		leads := func(q *process) bool { return q.logged("listening") > 0 }
		return !leads(p) && slices.ContainsFunc(d.c.aggregators, leads)
	}
	patience := 10 * time.Second
	if d.short { // it is drawn again
		patience = time.Second
	}
	for end := time.Now().Add(patience); time.Now().Before(end) && !succeeded(); time.Sleep(10 * time.Millisecond) {
		p.expect() // again: another fault may have ended it meanwhile, and it finds the trap after its restart
		if _, err := os.Stat(file); err != nil {
			break
		}
	}
	if os.Remove(file) == nil { // the one that removes it decides
		d.free([]string{p.name})
		return nil
	}
	d.c.told.count("leaders trapped "+when+" a charge: "+how, 1)
	return &committed{[]string{p.name}, func() { p.signal(syscall.SIGCONT) }}
}

// lines are connections to disturb: those of one proxy, or of all between two roles.
func (d *drawer) lines() []*clustertest.Proxy {
	p := d.c.proxies[d.IntN(len(d.c.proxies))]
	if d.IntN(3) > 0 {
		return []*clustertest.Proxy{p}
	}
	from, to, _ := strings.Cut(p.Name, " to ")
	return d.c.proxiesWhere(func(f, t string) bool { return f == from || t == to && !strings.HasPrefix(to, "etcd") })
}

// disturb changes the behavior of some connections until it ends.
func (d *drawer) disturb(change func(*clustertest.Proxy)) *committed {
	return d.disturbAll(d.lines(), change)
}

func (d *drawer) disturbAll(of []*clustertest.Proxy, change func(*clustertest.Proxy)) *committed {
	var on []string
	for _, p := range of {
		on = append(on, p.Name)
	}
	if !d.take(on) {
		return nil
	}
	for _, p := range of {
		p.Set(change)
	}
	return &committed{on, func() {
		for _, p := range of {
			p.Heal()
		}
	}}
}

// part changes the network at places, and restores it.
func (d *drawer) part(on []string, apply, undo func() error) *committed {
	for i, place := range on {
		on[i] = "line of " + place
	}
	if !d.take(on) {
		return nil
	}
	if err := apply(); err != nil {
		d.c.told.blame("part %v: %v", on, err)
	}
	return &committed{on, func() {
		if err := undo(); err != nil {
			d.c.told.blame("join %v: %v", on, err)
		}
	}}
}

func (d *drawer) unplug(place string) *committed {
	apart, together := func() error { return d.c.net.unplug(place) }, func() error { return d.c.net.plug(place) }
	return d.part([]string{place}, apart, together)
}

// mute drops what a place sends to others, but still lets it receive from them.
func (d *drawer) mute(place string, to ...string) *committed {
	each := func(do func(from, address string) error) func() error {
		return func() error {
			for _, address := range to {
				if err := do(place, address); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return d.part([]string{place}, each(d.c.net.block), each(d.c.net.unblock))
}

// kinds are all kinds of faults.
func kinds() []fault {
	agg := func(i int) string { return fmt.Sprintf("agg%d", i) }
	member := func(i int) string { return fmt.Sprintf("etcd%d", i) }
	return []fault{
		{"kill -9 of the leading aggregator", 2, 0, 2, false, func(d *drawer) *committed {
			return d.kill(d.c.aggregators[d.leader()])
		}},
		{"kill -9 of a standby", 1, 0, 1, false, func(d *drawer) *committed {
			return d.kill(d.c.aggregators[d.other(d.leader())])
		}},
		{"kill -9 of two aggregators", 1, 0, 2, false, func(d *drawer) *committed {
			l := d.leader()
			return d.kill(d.c.aggregators[l], d.c.aggregators[d.other(l)])
		}},
		{"SIGTERM of the leading aggregator", 1, 0, 2, false, func(d *drawer) *committed {
			return d.stop(d.c.aggregators[d.leader()])
		}},
		{"SIGSTOP of the leading aggregator, shorter than its lease", 1, 0.2, 2, false, func(d *drawer) *committed {
			return d.pause(d.c.aggregators[d.leader()])
		}},
		{"SIGSTOP of the leading aggregator, longer than its lease", 1, 4, 6, false, func(d *drawer) *committed {
			return d.pause(d.c.aggregators[d.leader()])
		}},
		{"SIGSTOP of a standby", 1, 1, 5, false, func(d *drawer) *committed {
			return d.pause(d.c.aggregators[d.other(d.leader())])
		}},
		{"kill -9 right before a charge", 1, 0, 0.5, false, func(d *drawer) *committed {
			return d.trap("before", "kill")
		}},
		{"kill -9 right after a charge", 1, 0, 0.5, false, func(d *drawer) *committed {
			return d.trap("after", "kill")
		}},
		{"SIGSTOP right before a charge, longer than the lease", 2, 4, 6, false, func(d *drawer) *committed {
			return d.trap("before", "stop")
		}},

		{"kill -9 of etcd's leader", 2, 0, 2, false, func(d *drawer) *committed {
			return d.kill(d.c.etcds[d.etcdLeader()])
		}},
		{"kill -9 of a member of etcd", 1, 0, 1, false, func(d *drawer) *committed {
			return d.kill(d.c.etcds[d.IntN(replicas)])
		}},
		{"kill -9 of two members of etcd", 1, 0, 2, false, func(d *drawer) *committed {
			i := d.IntN(replicas)
			return d.kill(d.c.etcds[i], d.c.etcds[d.other(i)])
		}},
		{"SIGSTOP of etcd's leader", 1, 0.5, 4, false, func(d *drawer) *committed {
			return d.pause(d.c.etcds[d.etcdLeader()])
		}},
		{"etcd's leadership moved", 1, 0, 0.5, false, func(d *drawer) *committed {
			return d.moveEtcd()
		}},

		{"kill -9 of nodes", 2, 0, 2, false, func(d *drawer) *committed {
			return d.kill(d.some(d.c.nodes, len(d.c.nodes)/2)...)
		}},
		{"SIGTERM of nodes", 1, 0, 2, false, func(d *drawer) *committed {
			return d.stop(d.some(d.c.nodes, len(d.c.nodes)/4)...)
		}},
		{"SIGSTOP of nodes", 2, 0.2, 5, false, func(d *drawer) *committed {
			return d.pause(d.some(d.c.nodes, len(d.c.nodes)/2)...)
		}},
		{"kill -9 of students", 2, 0, 1, false, func(d *drawer) *committed {
			return d.kill(d.some(d.c.running(), 2)...)
		}},
		{"SIGSTOP of a student", 1, 0.5, 4, false, func(d *drawer) *committed {
			return d.pause(d.some(d.c.running(), 1)...)
		}},

		{"connections cut", 2, 0, 0.2, false, func(d *drawer) *committed {
			m := d.disturb(func(*clustertest.Proxy) {})
			if m != nil {
				for _, p := range d.c.proxies {
					if slices.Contains(m.on, p.Name) {
						p.Cut()
					}
				}
			}
			return m
		}},
		{"connections cut in the middle of a message", 2, 0.5, 2, false, func(d *drawer) *committed {
			return d.disturb(func(p *clustertest.Proxy) { p.Tear = true })
		}},
		{"connections refused", 1, 0.5, 3, false, func(d *drawer) *committed {
			return d.disturb(func(p *clustertest.Proxy) { p.Refuse = true })
		}},
		{"connections that fall silent", 2, 0.5, 6, false, func(d *drawer) *committed {
			return d.disturb(func(p *clustertest.Proxy) { p.Stalled = [2]bool{true, true} })
		}},
		{"connections that fall silent in one direction", 2, 0.5, 6, false, func(d *drawer) *committed {
			side := d.IntN(2)
			return d.disturb(func(p *clustertest.Proxy) { p.Stalled[side] = true })
		}},
		{"connections that fall silent for longer than anybody waits", 1, 12, 25, false, func(d *drawer) *committed {
			of := d.lines()
			if site := sites[d.IntN(len(sites))]; d.short { // so that the others continue meanwhile
				of = d.c.proxiesWhere(func(from, _ string) bool { return from == site })
			}
			return d.disturbAll(of, func(p *clustertest.Proxy) { p.Stalled = [2]bool{true, true} })
		}},
		{"connections delayed", 2, 1, 4, false, func(d *drawer) *committed {
			delay := d.seconds(0.01, 0.3)
			return d.disturb(func(p *clustertest.Proxy) { p.Delay = delay })
		}},

		{"the leading aggregator parted from all", 1, 0.5, 6, true, func(d *drawer) *committed {
			return d.unplug(agg(d.leader()))
		}},
		{"an aggregator parted from all", 1, 0.5, 4, true, func(d *drawer) *committed {
			return d.unplug(agg(d.IntN(replicas)))
		}},
		{"the leading aggregator reaches nobody", 1, 0.5, 6, true, func(d *drawer) *committed {
			return d.mute(agg(d.leader()), network0)
		}},
		{"etcd's leader parted from all", 1, 0.5, 5, true, func(d *drawer) *committed {
			return d.unplug(member(d.etcdLeader()))
		}},
		{"a member of etcd parted from all", 1, 0.5, 4, true, func(d *drawer) *committed {
			return d.unplug(member(d.IntN(replicas)))
		}},
		{"a member of etcd reaches no other", 1, 0.5, 5, true, func(d *drawer) *committed {
			i := d.etcdLeader()
			return d.mute(member(i), d.c.net.host(member((i+1)%replicas)), d.c.net.host(member((i+2)%replicas)))
		}},
		{"two members of etcd parted from each other", 1, 0.5, 5, true, func(d *drawer) *committed {
			i := d.IntN(replicas)
			return d.mute(member(i), d.c.net.host(member(d.other(i))))
		}},
		{"a site parted from all", 2, 0.5, 6, true, func(d *drawer) *committed {
			return d.unplug(sites[d.IntN(len(sites))])
		}},
		{"a site reaches nobody", 1, 0.5, 6, true, func(d *drawer) *committed {
			return d.mute(sites[d.IntN(len(sites))], network0)
		}},
	}
}

// moveEtcd transfers etcd's leadership to another member regularly.
func (d *drawer) moveEtcd() *committed {
	i := d.etcdLeader()
	on := []string{fmt.Sprintf("etcd%d", i)}
	if !d.take(on) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	at, err := clientv3.New(clientv3.Config{Endpoints: d.c.endpoints()[i : i+1], DialTimeout: time.Second,
		Logger: zap.NewNop()})
	if err != nil {
		return &committed{on: on}
	}
	defer at.Close()
	if to, err := at.Status(ctx, d.c.endpoints()[d.other(i)]); err == nil {
		_, _ = at.MoveLeader(ctx, to.Header.GetMemberId())
	}
	return &committed{on: on}
}
