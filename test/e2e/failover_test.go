package e2e

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

var (
	long          = flag.Bool("long", false, "kill aggregators at 20 random moments, not 3")
	failovers     = flag.Int("failovers", 2, "how many leaders TestFailover kills")
	failoverLimit = flag.Duration("failoverlimit", 0,
		"the longest time from a kill to the next released round; 0 sets none")
	failoverResults = flag.String("failoverresults", "",
		"full path of a file to which TestFailover adds its result, a line of JSON")
)

// Leaders are killed one after the other, with the default pauses and keepalives. Each time the other aggregator, at
// its own address, continues the run, because it sees that nothing listens at the leader's address. The test prints
// the times from the kill to the next release. Finally etcd is away for longer than the lease: the leader ends with an
// error, and the run continues once both are back.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	// A takeover that waits for such a lease fails the test: the standby does not log that it need not wait.
	const longLease, lease = "2m", "10s"
	etcd := newExternalEtcd(c, lease)
	_, audited := c.audit(etcd.endpoint())
	addresses := [2]string{testkit.FreeAddress(t, "127.0.0.1"), testkit.FreeAddress(t, "127.0.0.1")}
	type member struct {
		*process
		as      string // its name in etcd
		address string
	}
	started := 0
	// A server with the last leader's name would take over at once; here each has its own name, as pods have.
	begin := func(address string) member {
		started++
		name := fmt.Sprintf("aggregator-%d", started)
		file := settings{"name": name, "listen": address}
		if started <= *failovers { // these are killed
			file["etcd"] = etcd.settings(longLease)
		}
		return member{c.startAggregator(c.aggregatorFile(file)), name, address}
	}
	leader := begin(addresses[0])
	leader.awaitLog("listening", nil)
	standby := begin(addresses[1])
	c.address = fmt.Sprintf("'%s, %s'", addresses[0], addresses[1])
	defaults := settings{"reconnect": "", "retry": ""}
	north, south := c.startNode("north", defaults), c.startNode("south", defaults)
	north.awaitLog("joined", nil)
	south.awaitLog("joined", nil)
	c.slowDown()
	j := job{name: "failover", rounds: 8 + 3**failovers, quorum: 1}
	runFile, out := c.runFile(j), c.out(j.name)
	student := c.startStudent(c.studentFile(runFile, out, defaults))

	leader.awaitLog("released", nil)
	if n := len(standby.logged("listening")); n != 0 {
		t.Error("the standby listens beside the leader")
	}
	var took []time.Duration
	var slowest string
	for len(took) < *failovers {
		leader.awaitLog("released", nil)
		dying := leader.as
		// A standby that has not yet met the leader would wait for the lease. Meanwhile no round is asked.
		student.signal(syscall.SIGSTOP)
		isLeader := func(l clustertest.Line) bool { return l.Leader == dying }
		standby.awaitLog("the leader answers; once nothing listens there, its lease is not waited for", isLeader)
		student.signal(syscall.SIGCONT)
		killed := time.Now()
		leader.kill()
		standby.awaitLog("nothing listens where the leader did; its lease is not waited for", isLeader)
		// A supervisor restarts it. Either of the two may be faster.
		leader, standby = standby, begin(leader.address)
		testkit.Eventually(t, "the next leader to release a round", func() bool {
			if len(standby.logged("released")) > 0 {
				leader, standby = standby, leader
			}
			return len(leader.logged("released")) > 0
		})
		if d := time.Since(killed); len(took) == 0 || d > slices.Max(took) {
			slowest = timeline(leader.process, killed)
		}
		took = append(took, time.Since(killed))
	}
	slices.Sort(took)
	longest := took[len(took)-1]
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	t.Logf("leaders killed: %d; from kill -9 to the next released round: shortest %v, median %v, nine of ten within "+
		"%v, longest %v",
		len(took), round(took[0]), round(took[len(took)/2]), round(took[(len(took)*9+9)/10-1]), round(longest))
	t.Logf("the longest, from the kill: %s", slowest)
	o := clustertest.Outcome{Group: "failover", Case: fmt.Sprintf("%d kills", len(took)), Figures: map[string]float64{
		"shortest": took[0].Seconds(), "median": took[len(took)/2].Seconds(),
		"nine of ten within": took[(len(took)*9+9)/10-1].Seconds(), "longest": longest.Seconds()}}
	for _, d := range took {
		o.Seconds += d.Seconds()
	}
	if *failoverLimit > 0 && longest > *failoverLimit {
		o.Failed = fmt.Sprintf("%v, want at most %v: %v", longest, *failoverLimit, took)
		t.Error(o.Failed)
	}
	testkit.Must(t, o.AppendTo(*failoverResults))
	student.signal(syscall.SIGSTOP)                 // so that the run is not over before etcd is away
	standby.awaitLog("waiting for leadership", nil) // it handles signals from then on
	standby.stop()
	etcd.process.kill()
	student.signal(syscall.SIGCONT)
	refused(t, leader.process, "aggregator: ", "leadership lost", "etcd")
	etcd.start()
	leader = begin(leader.address)
	select { // the rest of many rounds may take longer than other waits
	case <-student.Done:
	case <-time.After(testkit.Patience + time.Duration(*failovers)*10*time.Second):
	}
	finish(t, student, out, j)
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	stop(north, south, leader.process, etcd.process)
}

// timeline says when a leader did what, counted from a moment, up to its first release.
func timeline(leader *process, from time.Time) string {
	var steps []string
	for _, l := range leader.Stderr.All() {
		switch l.Message {
		case "listening", "node joined", "run opened", "released":
			steps = append(steps, fmt.Sprintf("%s %v", l.Message, l.Time.Sub(from).Round(time.Millisecond)))
		}
		if l.Message == "released" {
			break
		}
	}
	return strings.Join(steps[:min(len(steps), 6)], ", ")
}
