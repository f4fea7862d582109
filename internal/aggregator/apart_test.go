package aggregator

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// cheap queues a run so small that many fit the dataset "small".
func (q testQueue) cheap(t *testing.T, name string) {
	t.Helper()
	s := roundtest.Submission("small", name)
	s.Spec.Epsilon = 0.5
	_, err := q.SubmitRun(testkit.Within(t), s)
	testkit.Must(t, err)
}

// process is a process with two workers, whose runs come to claimed.
type process struct {
	workers []*testWorker
	claimed chan *conclavev1.ClaimedRun
}

func (q testQueue) process(t *testing.T, name string) process {
	p := process{claimed: make(chan *conclavev1.ClaimedRun, 2)}
	for i := range 2 {
		w := q.worker(t, &conclavev1.Worker{Dataset: "small", Name: fmt.Sprintf("%s.%d", name, i+1), Process: name})
		p.workers = append(p.workers, w)
		go func() {
			if m, err := w.stream.Recv(); err == nil {
				p.claimed <- m.GetClaimed()
			}
		}()
	}
	return p
}

func (p process) next(t *testing.T) string {
	t.Helper()
	return testkit.Receive(t, p.claimed).GetName()
}

// kill ends the process while it has these runs.
func (p process) kill(t *testing.T, q testQueue, runs ...string) {
	t.Helper()
	for _, w := range p.workers {
		w.drop()
	}
	for _, run := range runs {
		testkit.Eventually(t, "the stream to be gone", func() bool { return !q.show(t, run).GetConnected() })
	}
}

// A run that kills its worker's process takes other runs down once. From then on each of them has a process to
// itself.
func TestARunThatEndsItsProcessTakesNoOthersAlong(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	lab.cheap(t, "hostile")
	lab.cheap(t, "innocent")
	p := lab.process(t, "p")
	if first, second := p.next(t), p.next(t); first == second {
		t.Fatalf("%s was claimed twice", first)
	}
	p.kill(t, lab, "hostile", "innocent")
	for range 2 {
		p = lab.process(t, "p")
		if got := p.next(t); got != "hostile" {
			t.Fatalf("claimed %q", got)
		}
		if state := lab.show(t, "innocent").GetState(); state != conclavev1.RunState_RUN_STATE_WAITING {
			t.Fatalf("beside the run that ended the process the other one is %v", state)
		}
		p.kill(t, lab, "hostile")
	}
	p = lab.process(t, "p")
	if got := p.next(t); got != "innocent" {
		t.Fatalf("claimed %q", got)
	}
	status := lab.show(t, "hostile")
	if status.GetState() != conclavev1.RunState_RUN_STATE_FAILED ||
		!strings.Contains(status.GetReason(), "its worker process ended 3 times without a new release") {
		t.Errorf("the run that ends its process is %v", status)
	}
	if record, err := c.server.store.Submission(testkit.Within(t), "innocent"); err != nil || record.Losses != 1 {
		t.Errorf("the other one is %+v, %v", record, err)
	}
	// A run that was lost once runs alone, and delays no other process.
	lab.cheap(t, "new")
	v := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "v.1", Process: "v"})
	if got := v.claimed().GetName(); got != "new" {
		t.Errorf("another process got %q", got)
	}
}

// A process that lost runs may never return, and others may always be busy. So one of them takes nothing new until it
// has the lost runs, while the rest continue with newer runs.
func TestALostRunHasItsTurn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	lab.cheap(t, "hostile")
	lab.cheap(t, "innocent")
	p := lab.process(t, "p")
	p.next(t)
	p.next(t)
	worker := func(process string, i int) *testWorker {
		return lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: fmt.Sprint(process, ".", i), Process: process})
	}
	take := func(w *testWorker, want string) *conclavev1.ClaimedRun {
		t.Helper()
		run := w.claimed()
		if run.GetName() != want {
			t.Fatalf("claimed %q, want %q", run.GetName(), want)
		}
		return run
	}
	lab.cheap(t, "of-v")
	first := take(worker("v", 1), "of-v")
	lab.cheap(t, "of-u")
	take(worker("u", 1), "of-u")
	p.kill(t, lab, "hostile", "innocent")
	lab.await(t, "hostile", conclavev1.RunState_RUN_STATE_WAITING)
	lab.await(t, "innocent", conclavev1.RunState_RUN_STATE_WAITING)
	lab.cheap(t, "later")

	second := worker("v", 2)
	testkit.Eventually(t, "it to wait", func() bool { _, b := lab.list(t, "small"); return b.GetWorkers() == 3 })
	testkit.Must(t, lab.finish(t, first, conclavev1.RunState_RUN_STATE_FAILED, "over"))
	lost := take(second, "hostile")
	take(worker("u", 2), "later")
	third := worker("v", 3)
	testkit.Must(t, lab.finish(t, lost, conclavev1.RunState_RUN_STATE_FAILED, "over"))
	take(third, "innocent")
}

// A run that gets a release before it kills its worker cannot do so forever.
func TestARunMayLoseItsWorkersSoOftenInItsLife(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	lab.submit(t, "small", "a")
	me := &conclavev1.Worker{Dataset: "small", Name: "w"}
	const most = 20
	for round := range uint64(most) {
		w := lab.worker(t, me)
		run := w.claimed()
		if run.GetName() != "a" {
			t.Fatalf("claimed %q", run.GetName())
		}
		if round == 0 {
			raw, err := proto.Marshal(run.GetSpec())
			testkit.Must(t, err)
			plan, err := runspec.Plan(run.GetSpec())
			testkit.Must(t, err)
			_, err = c.server.store.OpenRun(t.Context(), c.server.lead, coordinator.Run{
				Name: "a", Dataset: "small", Spec: raw, Plan: plan,
				Budget: privacy.Budget{Epsilon: 10, Delta: 1e-5}, Claim: run.GetClaim(),
				Facts: anyFacts, Student: "student",
			})
			testkit.Must(t, err)
		}
		_, _, err := c.server.store.Charge(t.Context(), c.server.lead, coordinator.Charge{
			Question: coordinator.Question{Run: "a", Round: round, Use: privacy.Use{Queries: 1, Answered: 1}},
			Release:  []byte("x"),
		})
		testkit.Must(t, err)
		w.drop()
		testkit.Eventually(t, "the stream to be gone", func() bool { return !lab.show(t, "a").GetConnected() })
	}
	lab.cheap(t, "b")
	if got := lab.worker(t, me).claimed().GetName(); got != "b" {
		t.Errorf("after the run that ends its workers %q was claimed", got)
	}
	if r := lab.show(t, "a"); r.GetState() != conclavev1.RunState_RUN_STATE_FAILED ||
		!strings.Contains(r.GetReason(), fmt.Sprintf("its worker process ended %d times, most recently", most)) {
		t.Errorf("it is %v", r)
	}
}
