package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// A leader is suspended right before a charge, with noise drawn and the budget not yet checked, and resumes after
// another leader has written. Its charge must not happen. No other student asked that round meanwhile, so only the
// fence prevents it.
func TestFaultOfALeaderThatSleepsBeforeItsCharge(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, "3s", true, false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	auditor := c.audit()
	d, err := newDrawer(ctx, c, 1)
	testkit.Must(t, err)
	defer d.etcd.Close()
	c.paceStudents(100 * time.Millisecond) // so that the runs last long enough
	students := map[string]*process{}
	for i, who := range []string{"lab", "reader"} {
		name := fmt.Sprintf("run-%d", i)
		students[name] = c.student(kind{readers: true, dataset: wide}, name, who)
		students[name].supervise(ctx)
		defer students[name].close()
	}
	c.awaitReleases(auditor, 2)

	var leader *process
	var traps string
	var start int
	testkit.Eventually(t, "a leader with hooks to fall asleep", func() bool {
		if leader != nil && leader.state() == 'T' {
			return true
		}
		i := d.leader()
		if i == 0 {
			c.aggregators[0].kill(5 * time.Second)
		}
		if i == 0 || c.aggregators[i].logged("listening") == 0 ||
			c.aggregators[i] == leader && leader.started() == start {
			return false
		}
		if leader != nil { // it lost the lead before its next charge
			_ = os.Remove(filepath.Join(traps, "before"))
		}
		leader, traps, start = c.aggregators[i], c.traps(i), c.aggregators[i].started()
		leader.expect()
		testkit.Must(t, os.WriteFile(filepath.Join(traps, "before"), []byte("stop"), 0o600))
		return false
	})
	raw, err := os.ReadFile(filepath.Join(traps, "trapped"))
	var asleep clustertest.ReleaseKey
	if _, serr := fmt.Sscan(string(raw), &asleep.Run, &asleep.Round); err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	students[asleep.Run].signal(syscall.SIGSTOP)
	found := c.lose(leader)
	before := auditor.Released()
	testkit.Eventually(t, "rounds of the other run by the next leader", func() bool {
		return auditor.Released() >= before+2
	})

	found()
	leader.signal(syscall.SIGCONT)
	charged := func() (clustertest.Release, bool) {
		r, ok := auditor.Found().Releases[asleep]
		return r, ok
	}
	testkit.Eventually(t, "the old leader to end", func() bool {
		_, ok := charged()
		return ok || leader.started() > start
	})
	c.awaitReleases(auditor, 1)
	if r, ok := charged(); ok {
		t.Errorf("%v was charged by a leader that was over: entry %d with fence %d", asleep, r.Entry.Seq, r.Entry.Fence)
	}
	students[asleep.Run].signal(syscall.SIGCONT)
	c.paceStudents(0)
	for name, p := range students {
		select {
		case <-p.done:
		case <-time.After(testkit.Patience):
			t.Errorf("%s does not end", name)
		}
	}
	if err := c.check(ctx, auditor); err != nil {
		t.Error(err)
	}
	for _, wrong := range c.told.blamed() {
		t.Error(wrong)
	}
	if t.Failed() {
		c.showLogs()
	}
}
