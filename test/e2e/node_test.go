package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// teachersState is a node's state of a run.
type teachersState struct {
	rounds, last uint64 // answered rounds of votes; the number of the last
	steps        int    // optimizer steps of its teachers
}

func (c *cluster) teachersState(site string, j job) teachersState {
	c.t.Helper()
	set, err := safetensors.Load(filepath.Join(c.state(site), "run-"+j.name+".safetensors"))
	if err != nil {
		c.t.Fatal(err)
	}
	number := func(key string) uint64 {
		n, err := strconv.ParseUint(set.Metadata[key], 10, 64)
		if err != nil {
			c.t.Fatalf("the state of %s: %s: %v", site, key, err)
		}
		return n
	}
	return teachersState{rounds: number("rounds"), last: number("last_round"), steps: int(number("steps"))}
}

// checkRejoined checks during the run that a killed node continued with its teachers: the rounds and steps in its
// state are those before and those since.
func (c *cluster) checkRejoined(site string, j job, before teachersState, back *process) {
	c.t.Helper()
	back.awaitLog("answered", func(l clustertest.Line) bool { return l.Round > before.last+1 })
	after := c.teachersState(site, j)
	back.awaitLog("answered", func(l clustertest.Line) bool { return l.Round >= after.last })
	since := map[uint64]bool{}
	for _, l := range back.logged("answered") {
		if l.Round > before.last && l.Round <= after.last {
			since[l.Round] = true
		}
	}
	if len(since) == 0 || after.rounds != before.rounds+uint64(len(since)) {
		c.t.Errorf("the node's state counts %d rounds: %d before it was killed and %d answered since",
			after.rounds, before.rounds, len(since))
	}
	if each := before.steps / int(before.rounds); each < 1 || after.steps != each*int(after.rounds) {
		c.t.Errorf("the node's teachers took %d steps in %d rounds, and %d in %d rounds before it was killed",
			after.steps, after.rounds, before.steps, before.rounds)
	}
}

// With a quorum left, a run continues without a node. A node that hangs without losing its connection delays each
// round up to its deadline and no longer, and takes part again when it wakes. A killed one continues with its
// teachers when it is back.
func TestNodeStallsAndIsKilledWithQuorumLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile(settings{"least_deadline": "1s"}))
	aggregator.awaitLog("listening", nil)
	north, south := c.startSites()
	c.slowDown()
	j := job{name: "quorum-left", rounds: 20, quorum: 0.5, deadline: 2}
	runFile, out := c.runFile(j), c.out(j.name)
	student := c.startStudent(c.studentFile(runFile, out))

	awaitRound(aggregator, 2)
	south.signal(syscall.SIGSTOP)
	last := lastRound(south, "answered")
	// The release does not reveal who hangs: its teachers are counted.
	alone := aggregator.awaitLog("released", func(l clustertest.Line) bool { return l.Round > last+1 })
	if alone.Teachers != allTeachers {
		t.Errorf("round %d is said to have been answered by %d teachers while a node hung, want %d",
			alone.Round, alone.Teachers, allTeachers)
	}
	south.signal(syscall.SIGCONT)
	south.awaitLog("round continued without this node", nil)

	south.awaitLog("answered", func(l clustertest.Line) bool { return l.Round > alone.Round+1 })
	south.kill()
	before := c.teachersState("south", j)
	// The run continues without it: rounds asked after its death.
	awaitRound(aggregator, before.last+4)
	for _, l := range aggregator.logged("released") {
		if l.Round == before.last+3 && l.Teachers != siteTeachers {
			t.Errorf("round %d without the node was answered by %d teachers, want %d",
				l.Round, l.Teachers, siteTeachers)
		}
	}
	student.signal(syscall.SIGSTOP) // so that the run is not over before the node is back
	south = c.startNode("south")
	south.awaitLog("joined", nil)
	student.signal(syscall.SIGCONT)
	c.checkRejoined("south", j, before, south)
	r := finish(t, student, out, j)
	if r.TeachersLeast != siteTeachers {
		t.Errorf("the student says that at least %d teachers took part in each round, want %d",
			r.TeachersLeast, siteTeachers)
	}
	certificate, err := certificate.Read(r.Outputs["certificate"])
	if err != nil || certificate.Teachers != allTeachers || certificate.TeachersLeast != siteTeachers {
		t.Errorf("the certificate says %d teachers, at least %d (%v), want %d and %d",
			certificate.Teachers, certificate.TeachersLeast, err, allTeachers, siteTeachers)
	}
	released := aggregator.logged("released")
	if last := released[len(released)-1]; last.Teachers != allTeachers {
		t.Errorf("the last round was answered by %d teachers; the node that came back takes no part", last.Teachers)
	}
	stop(north, south, aggregator)
}

// A killed student continues from its checkpoint. Then a node dies in the middle of a round: the other one has
// answered, but alone it is no quorum. The result equals that of a student that was never killed, so not even a
// random number is lost.
func TestStudentAndNodeKilledWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	_, audited := c.audit(c.embeddedEndpoint())
	north, south := c.startSites()
	c.slowDown()
	j := job{name: "no-quorum", rounds: 24, quorum: 0.9}
	runFile, out := c.runFile(j), c.out(j.name)
	file := c.studentFile(runFile, out)
	student := c.startStudent(file)

	// Around its first checkpoint and later; each time right after a charge, while the answer is sent or learned
	// from.
	for i, round := range []uint64{0, 2, 5} {
		awaitRound(aggregator, round)
		student.kill()
		student = c.startStudent(file)
		if open := student.awaitLog("run open", nil); open.Released < round+1 {
			t.Errorf("start %d: the student found %d rounds released, want at least %d", i+2, open.Released, round+1)
		}
		if round > 0 {
			student.awaitLog("continuing from the checkpoint", nil)
		}
	}
	// When stopped, it says so and how to continue.
	student.signal(syscall.SIGTERM)
	if code := student.wait(); code != 1 || !student.said("stopped; start it again") {
		t.Errorf("exit code %d after SIGTERM, want 1 and what helps", code)
	}
	student = c.startStudent(file)
	student.awaitLog("continuing from the checkpoint", nil)

	awaitRound(aggregator, lastRound(aggregator, "released")+3)
	south.signal(syscall.SIGSTOP)
	stopped := time.Now()
	south.await("a round that only the other node has answered", func() bool {
		last := lastRound(north, "answered")
		// In rare cases the node was stopped between logging and sending.
		return last > lastRound(aggregator, "released") &&
			(last > lastRound(south, "answered") || time.Since(stopped) > 3*time.Second)
	})
	south.kill()
	before := c.teachersState("south", j)
	waits := fmt.Sprintf("waiting for a quorum: %d of %d teachers connected", siteTeachers, allTeachers*9/10)
	student.await("the student to say: "+waits, func() bool { return student.said(waits) })
	south = c.startNode("south")
	south.awaitLog("joined", nil)
	c.checkRejoined("south", j, before, south)
	finish(t, student, out, j)
	for _, l := range aggregator.logged("released") {
		if l.Teachers != allTeachers {
			t.Errorf("round %d was released with %d teachers, below the quorum", l.Round, l.Teachers)
		}
	}
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	stop(north, south, aggregator)
}

// lastRound is the highest round of the log lines with a message.
func lastRound(p *process, message string) (last uint64) {
	for _, l := range p.logged(message) {
		last = max(last, l.Round)
	}
	return last
}
