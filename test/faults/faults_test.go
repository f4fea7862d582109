package faults

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

const (
	// atOnce is the maximum number of concurrent faults.
	atOnce = 3
	// rest is after how many faults the cluster is left alone until it releases again.
	rest = 20
)

// Random faults of all kinds are injected while runs continue. See the package's comment for the long variant,
// docs/faults.md for what is checked.
func TestFaults(t *testing.T) {
	t.Parallel()
	faults, nodes := *faultCount, *nodeCount
	if nodes == 0 {
		nodes = 4
		if faults >= 100 {
			nodes = 20
		}
	}
	c := newCluster(t, nodes, "3s", true, true)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.startMembers(ctx)
	auditor := c.audit()
	from := drawFrom(t)
	d, err := newDrawer(ctx, c, from)
	testkit.Must(t, err)
	defer d.etcd.Close()
	if d.short = faults == 0; d.short {
		faults = d.fill()
		c.paceStudents(250 * time.Millisecond) // the duration of faults is fixed, so slower students need fewer rounds
	}

	stop := make(chan struct{})
	var work sync.WaitGroup
	side := append(slices.Clone(rows), []kind{overdrawn}, []kind{masked})
	if d.short { // each kind in its own row, so that all meet the faults
		side = nil
		for _, k := range append(slices.Concat(rows...), overdrawn, masked) {
			side = append(side, []kind{k})
		}
	}
	for _, row := range side {
		work.Go(func() { c.work(ctx, row, time.Duration(faults)*100*time.Millisecond, stop) })
	}
	ended := make(chan struct{})
	go func() { work.Wait(); close(ended) }()
	c.awaitReleases(auditor, 3)

	began := time.Now()
	counts := d.commit(faults, auditor)
	t.Logf("%d faults in %v; the runs go on to their ends", faults, time.Since(began).Round(time.Second))
	close(stop)
	c.paceStudents(0)
	select {
	case <-ended:
	case <-time.After(2 * testkit.Patience):
		c.told.blame("runs do not end")
		c.showLogs()
	}
	if len(c.told.blamed()) == 0 || !t.Failed() {
		if err := c.check(ctx, auditor); err != nil {
			t.Error(err)
		}
	}
	for _, wrong := range c.told.blamed() {
		t.Error(wrong)
	}
	if t.Failed() {
		c.showLogs()
	}
	o := c.outcome(counts, auditor.Found(), nodes)
	o.Seed, o.Seconds = from, time.Since(began).Round(time.Second/10).Seconds()
	if o.Failed == "" && t.Failed() {
		o.Failed = "see what the test says"
	}
	testkit.Must(t, o.AppendTo(*results))
	t.Logf("%d aggregators, %d members of etcd. What happened and came of it:\n%s", replicas, replicas,
		listed(o.Figures))
	if faults < 200 {
		t.Log("the long variant: go test ./test/faults -run Faults -faults=200 -timeout 60m -v")
	}
}

// commit draws and injects faults, some at the same time, and counts them by kind.
func (d *drawer) commit(faults int, a *clustertest.Auditor) map[string]int {
	counts := map[string]int{}
	began := time.Now()
	var under sync.WaitGroup
	defer under.Wait()
	places := make(chan struct{}, atOnce)
	for n := 0; n < faults; {
		if len(d.c.told.blamed()) > 0 {
			return counts // a failure is closest to its cause now
		}
		f := d.next()
		places <- struct{}{}
		lasts, alone, gap := d.seconds(f.from, f.to), d.IntN(5) > 1, d.seconds(0, 0.7)
		if d.short {
			lasts, alone, gap = d.seconds(f.from, f.from+(f.to-f.from)/5), false, gap/5
		}
		m := f.begin(d)
		if m == nil {
			<-places
			if d.short { // later, then
				d.bag = append(d.bag, f)
				time.Sleep(50 * time.Millisecond)
			}
			continue
		}
		n++
		counts[f.name]++
		d.c.t.Logf("%6.1fs  %3d releases  %3d: %s: %s, %v", time.Since(began).Seconds(), a.Released(), n, f.name,
			strings.Join(m.on, ", "), lasts.Round(time.Millisecond))
		over := make(chan struct{})
		under.Go(func() {
			time.Sleep(lasts)
			if m.end != nil {
				m.end()
			}
			d.free(m.on)
			<-places
			close(over)
		})
		if alone {
			<-over
		}
		time.Sleep(gap)
		if n%rest == 0 && !d.short { // otherwise at the end
			under.Wait()
			healed := time.Now()
			d.c.awaitReleases(a, 2)
			d.c.t.Logf("%6.1fs  the cluster releases again %v after its faults ended",
				time.Since(began).Seconds(), time.Since(healed).Round(time.Second/10))
		}
	}
	return counts
}

// awaitReleases waits for this many more releases.
func (c *cluster) awaitReleases(a *clustertest.Auditor, more int) {
	c.t.Helper()
	want := a.Released() + more
	for end := time.Now().Add(testkit.Patience); a.Released() < want; time.Sleep(50 * time.Millisecond) {
		if len(c.told.blamed()) > 0 || len(c.running()) == 0 && a.Released() > 0 {
			return
		}
		if time.Now().After(end) {
			c.told.blame("nothing is released within %v though nothing fails", testkit.Patience)
			return
		}
	}
}

// showLogs prints the end of every process's log.
func (c *cluster) showLogs() {
	all := slices.Concat(c.aggregators, c.etcds, c.nodes, c.running())
	for _, p := range all {
		raw, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		lines = lines[max(0, len(lines)-6):]
		for i, l := range lines {
			lines[i] = l[:min(len(l), 400)]
		}
		c.t.Logf("%s (start %d) said at last:\n    %s", p.name, p.started(), strings.Join(lines, "\n    "))
	}
}
