package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// An aggregator that dies between charge and answer has charged a round whose
// answer nobody has. It must come back with that answer. Death right before the
// charge is the other side: nothing may be charged, and the round is asked anew.
func TestAggregatorDiesAroundCharge(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	file, marks := c.aggregatorFile(), filepath.Join(c.dir, "marks")
	testkit.Must(t, os.Mkdir(marks, 0o700))
	const plan = "after:0,before:2,after:3,before:4,after:4,after:6"
	deaths := []string{"after:0", "after:3", "after:4", "after:6", "before:2", "before:4"}
	startAggregator := func() *process {
		return startWith(t, "crashing aggregator", []string{helperVariable + "=crashing aggregator"}, os.Args[0], file,
			plan, marks)
	}
	aggregator := startAggregator()
	_, audited := audit(t, c.embeddedEndpoint())
	north, south := c.startSites()
	j := job{name: "around-charge", rounds: 6, quorum: 0.9}
	runFile, out := c.runFile(j), c.out(j.name)
	student := c.startStudent(c.studentFile(runFile, out))

	for restarts := 0; !student.ended(); {
		select {
		case <-student.done:
		case <-aggregator.done:
			if !aggregator.killed() {
				t.Fatalf("the aggregator ended otherwise than by its plan: %v", aggregator.cmd.ProcessState)
			}
			if restarts++; restarts > len(deaths) {
				t.Fatalf("the aggregator died %d times, planned were %v", restarts, deaths)
			}
			aggregator = startAggregator()
		case <-time.After(testkit.Patience):
			t.Fatal("the run stands still")
		}
	}
	var died []string
	entries, err := os.ReadDir(marks)
	testkit.Must(t, err)
	for _, e := range entries {
		died = append(died, e.Name())
	}
	if !slices.Equal(died, deaths) {
		t.Errorf("the aggregator died at %v, planned were %v", died, deaths)
	}
	finish(t, student, out, j)
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	stop(north, south, aggregator)
}

// The same with the program as it is shipped: when etcd has charged a round, and
// its outcome is still on the way to the aggregator, the aggregator is killed.
func TestAggregatorKilledBetweenChargeAndAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	etcd := newExternalEtcd(c, "60s")
	between := freeAddress(t)
	proxy := newChargeProxy(t, between, etcd.address)
	file := c.aggregatorFile(settings{"etcd": "{endpoints: ['http://" + between + "']}"})
	aggregator := c.startAggregator(file)
	aggregator.awaitLog("listening", nil)
	auditor, audited := audit(t, etcd.endpoint())
	north, south := c.startSites()
	c.slowDown()
	j := job{name: "between", rounds: 16, quorum: 0.9}
	runFile, out := c.runFile(j), c.out(j.name)

	var student *process
	for death := range 3 {
		held := proxy.arm()
		if death == 0 { // at the very first charge
			student = c.startStudent(c.studentFile(runFile, out))
		}
		var round uint64
		aggregator.await("a charge", func() bool {
			select {
			case round = <-held:
				return true
			default:
				return false
			}
		})
		aggregator.await("the charge in etcd", func() bool { return auditor.charged() == int(round)+1 })
		aggregator.kill()
		if slices.ContainsFunc(aggregator.logged("released"), func(l logLine) bool { return l.Round >= round }) {
			t.Errorf("the aggregator had heard of the charge of round %d", round)
		}
		proxy.reset()
		aggregator = c.startAggregator(file)
		awaitRound(aggregator, round+2)
	}
	finish(t, student, out, j)
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	stop(north, south, aggregator, etcd.process)
}

// The aggregator is killed at random moments, during its start as well as in
// the middle of rounds, and started again at once. Nobody else is touched: the
// nodes come back, and two students that ask the same run side by side finish by
// themselves with the same answers.
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
	auditor, audited := audit(t, c.embeddedEndpoint())
	north, south := c.startSites()
	c.slowDown()
	j := job{name: "random-kills", rounds: 2*kills + 4, quorum: 0.9}
	runFile, out, outBeside := c.runFile(j), c.out(j.name), c.out(j.name+"-beside")
	student := c.startStudent(c.studentFile(runFile, out))
	beside := c.startStudent(c.studentFile(runFile, outBeside))
	student.awaitLog("run open", nil)

	var early int
	for i := range kills {
		// Most lives last until the run has gone on, so that the kills cover
		// the whole run; some end while the aggregator still starts.
		if moments.IntN(4) > 0 {
			student.await("the run to go on", func() bool {
				return aggregator.ended() || auditor.charged() > 2*i
			})
		}
		time.Sleep(time.Duration(moments.IntN(250)) * time.Millisecond) // the random moment
		if aggregator.ended() {
			t.Fatalf("the aggregator ended before kill %d: %v", i+1, aggregator.cmd.ProcessState)
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
