package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// An aggregator that dies between charge and answer has charged a round whose answer nobody has. It must return with
// that answer. If it dies just before the charge, nothing may be charged, and the round is asked anew.
func TestAggregatorDiesAroundCharge(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	file, traps := c.aggregatorFile(), filepath.Join(c.dir, "traps")
	testkit.Must(t, os.Mkdir(traps, 0o700))
	startAggregator := func() *process { return startRole(t, clustertest.Trapped, file, traps) }
	deaths := []string{"after", "before", "after", "before", "after", "after"} // from the very first charge on
	testkit.Must(t, clustertest.Trap(traps, deaths[0], "kill"))
	aggregator := startAggregator()
	_, audited := c.audit(c.embeddedEndpoint())
	north, south := c.startSites()
	j := job{name: "around-charge", rounds: 6, quorum: 0.9}
	runFile, out := c.runFile(j), c.out(j.name)
	student := c.startStudent(c.studentFile(runFile, out))
	for i := range deaths {
		testkit.Receive(t, aggregator.Done)
		if !aggregator.killed() || student.ended() {
			t.Fatalf("before death %d the aggregator ended with %v, the run is over: %v", i+1,
				aggregator.Cmd.ProcessState, student.ended())
		}
		if i+1 < len(deaths) {
			testkit.Must(t, clustertest.Trap(traps, deaths[i+1], "kill"))
		}
		aggregator = startAggregator()
	}
	finish(t, student, out, j)
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	stop(north, south, aggregator)
}

// The aggregator is killed at random moments, during its start as well as during rounds, and restarted at once.
// Nothing else is touched: the nodes return, and two students that ask the same run concurrently finish by themselves
// with the same answers.
func TestAggregatorKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	kills := 3
	if *long {
		kills = 20
	}
	from := *seed
	if from == 0 {
		from = rand.Uint64()
	}
	t.Logf("random moments: -seed %d", from)
	moments := rand.New(rand.NewPCG(from, 0))

	c := newCluster(t)
	file := c.aggregatorFile()
	aggregator := c.startAggregator(file)
	auditor, audited := c.audit(c.embeddedEndpoint())
	north, south := c.startSites()
	c.slowDown()
	j := job{name: "random-kills", rounds: 2*kills + 8, quorum: 0.9} // some are left after the last kill
	runFile, out, outBeside := c.runFile(j), c.out(j.name), c.out(j.name+"-beside")
	student := c.startStudent(c.studentFile(runFile, out))
	beside := c.startStudent(c.studentFile(runFile, outBeside))
	student.awaitLog("run open", nil)

	var early int
	for i := range kills {
		// Most lives last until the run has progressed, so that the kills cover the whole run; some end during the
		// aggregator's start.
		if moments.IntN(4) > 0 {
			student.await("the run to go on", func() bool {
				return aggregator.ended() || auditor.Released() > 2*i
			})
		}
		time.Sleep(time.Duration(moments.IntN(250)) * time.Millisecond) // the random moment
		if aggregator.ended() {
			t.Fatalf("the aggregator ended before kill %d: %v", i+1, aggregator.Cmd.ProcessState)
		}
		if student.ended() {
			t.Fatalf("the run was over before kill %d", i+1)
		}
		aggregator.kill()
		if len(aggregator.logged("listening")) == 0 {
			early++
		}
		aggregator = c.startAggregator(file)
	}
	finish(t, student, out, j)
	finish(t, beside, outBeside, j)
	sameAnswers(t, out, outBeside)
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	t.Logf("killed %d times, %d of them during the start", kills, early)
	stop(north, south, aggregator)
}
