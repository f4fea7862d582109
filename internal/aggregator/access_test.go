package aggregator

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Of a run of one student another one learns nothing, and can do nothing to it.
func TestARunIsWhoseItIs(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	lab, eve, spies := c.student(t), c.studentAs(t, "eve"), c.queue(t, "eve")
	spec, _ := lab.open(t, d, nil)
	released := lab.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4))

	ctx := testkit.Within(t)
	_, opened := eve.OpenRun(ctx, &conclavev1.OpenRunRequest{Spec: spec})
	_, again := eve.ask(ctx, roundtest.VoteRound(spec.Name, 0, 4), nil)
	_, next := eve.ask(ctx, roundtest.VoteRound(spec.Name, 1, 2), nil)
	_, closed := eve.CloseRun(ctx, &conclavev1.CloseRunRequest{Run: spec.Name})
	ledger, err := eve.ReadLedger(ctx, &conclavev1.ReadLedgerRequest{Run: spec.Name})
	testkit.Must(t, err)
	_, read := ledger.Recv()
	_, shown := spies.ShowRun(ctx, &conclavev1.ShowRunRequest{Run: spec.Name})
	_, cancelled := spies.CancelRun(ctx, &conclavev1.CancelRunRequest{Run: spec.Name, Force: true})
	_, removed := spies.RemoveRun(ctx, &conclavev1.RemoveRunRequest{Run: spec.Name})
	watch, err := spies.WatchRun(ctx, &conclavev1.WatchRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	_, watched := watch.Recv()
	for what, err := range map[string]error{
		"opened": opened, "asked again": again, "asked otherwise": next, "closed": closed, "its ledger read": read,
		"shown": shown, "cancelled": cancelled, "removed": removed, "watched": watched,
	} {
		if err == nil {
			t.Errorf("%s by another student", what)
			continue
		}
		roundtest.WantStatus(t, err, codes.PermissionDenied, spec.Name, `"eve"`)
	}
	if names, _ := spies.list(t, d); len(names) != 0 {
		t.Errorf("another student's list has %v", names)
	}
	if again := lab.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4)); again.GetLedgerSeq() != released.GetLedgerSeq() {
		t.Errorf("the student's own round is gone: %v", again)
	}
}

// An operator lists, watches, cancels and removes the runs of all, and opens, asks and takes none.
func TestOperators(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	lab, desk := c.student(t), c.operator(t)
	spec, _ := lab.open(t, d, nil)
	lab.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4))
	ctx := testkit.Within(t)

	asking := &testStudent{conclavev1.NewStudentServiceClient(c.dialAs(t, "operator", "desk"))}
	_, opened := asking.OpenRun(ctx, &conclavev1.OpenRunRequest{Spec: spec})
	_, asked := asking.ask(ctx, roundtest.VoteRound(spec.Name, 0, 4), nil)
	_, submitted := desk.SubmitRun(ctx, roundtest.Submission(d, "x"))
	_, finished := desk.FinishRun(ctx, &conclavev1.FinishRunRequest{Run: spec.Name})
	for what, err := range map[string]error{
		"opened": opened, "asked": asked, "submitted": submitted, "finished": finished,
	} {
		if err == nil {
			t.Errorf("%s by an operator", what)
			continue
		}
		roundtest.WantStatus(t, err, codes.PermissionDenied, "role student")
	}
	_, err := desk.RemoveRun(ctx, &conclavev1.RemoveRunRequest{Run: spec.Name})
	roundtest.WantStatus(t, err, codes.FailedPrecondition, spec.Name, "cancel it first")
	if names, _ := desk.list(t, d); strings.Join(names, ", ") != spec.Name+" RUNNING" {
		t.Errorf("the list has %v", names)
	}
	_, err = desk.CancelRun(ctx, &conclavev1.CancelRunRequest{Run: spec.Name, Force: true})
	testkit.Must(t, err)
	_, err = desk.RemoveRun(ctx, &conclavev1.RemoveRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	if names, _ := desk.list(t, d); len(names) != 0 {
		t.Errorf("after it was removed the list has %v", names)
	}
	// The answers are gone, the ledger is whole, and nobody gets the name again.
	_, err = lab.ask(ctx, roundtest.VoteRound(spec.Name, 0, 4), nil)
	roundtest.WantStatus(t, err, codes.NotFound, "removed")
	_, err = lab.OpenRun(ctx, &conclavev1.OpenRunRequest{Spec: spec})
	roundtest.WantStatus(t, err, codes.AlreadyExists, "removed")
	entries, err := c.server.store.Ledger(ctx, d)
	testkit.Must(t, err)
	if len(entries) != 4 { // dataset, run, release, close
		t.Errorf("the ledger has %d entries", len(entries))
	}
	if _, _, found, err := c.server.store.Release(ctx, spec.Name, 0); err != nil || found {
		t.Errorf("the release is still stored: %v, %v", found, err)
	}
}

// A dataset's configuration lists who may open runs on it, and who may take them.
func TestDatasetsListTheirStudents(t *testing.T) {
	c := newCluster(t, Options{}, func(config *Config) {
		small(config)
		d := &config.Datasets[len(config.Datasets)-1]
		d.Students, d.Workers = []string{"lab"}, []string{"hired"}
	})
	ctx := testkit.Within(t)
	open := &conclavev1.OpenRunRequest{Spec: roundtest.Submission("small", "a").Spec}
	_, err := c.studentAs(t, "eve").OpenRun(ctx, open)
	roundtest.WantStatus(t, err, codes.PermissionDenied, `"eve"`, "students")
	_, err = c.queue(t, "eve").SubmitRun(ctx, roundtest.Submission("small", "a"))
	roundtest.WantStatus(t, err, codes.PermissionDenied, `"eve"`, "students")
	c.queue(t, "lab").submit(t, "small", "a")
	me := &conclavev1.Worker{Dataset: "small", Name: "w"}
	_, err = c.queue(t, "lab").worker(t, me).stream.Recv()
	roundtest.WantStatus(t, err, codes.PermissionDenied, `"lab"`, "workers")
	hired := c.studentAs(t, "hired")
	run := c.queue(t, "hired").worker(t, me).claimed()
	// With a claim of nothing a worker opens no run of its own.
	other := &conclavev1.OpenRunRequest{Spec: roundtest.Submission("small", "own").Spec}
	_, err = hired.OpenRun(holding(t, run), other)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "not in the queue")
	_, err = hired.OpenRun(holding(t, run), open)
	testkit.Must(t, err)
}

// A student cannot fill the aggregator with runs, and runs that are closed leave its memory.
func TestOpenRunsOfAStudentAreBounded(t *testing.T) {
	c := newCluster(t, Options{}, func(config *Config) { config.MaxOpenRuns = 3 })
	d := c.dataset()
	lab := c.student(t)
	open := func(student *testStudent, i int) error {
		spec := roundtest.Spec()
		spec.Dataset, spec.Name, spec.Epsilon = d, fmt.Sprintf("r%d", i), 0.01
		_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
		return err
	}
	for i := range 3 {
		testkit.Must(t, open(lab, i))
	}
	roundtest.WantStatus(t, open(lab, 3), codes.ResourceExhausted, "3 runs open")
	testkit.Must(t, open(lab, 0)) // once more
	testkit.Must(t, open(c.studentAs(t, "eve"), 4))
	testkit.Must(t, c.stop()) // what is open is known to the next leader too
	c.start(Options{})
	lab = c.student(t)
	roundtest.WantStatus(t, open(lab, 3), codes.ResourceExhausted, "3 runs open")
	for i := range 3 {
		_, err := lab.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: fmt.Sprintf("r%d", i)})
		testkit.Must(t, err)
	}
	testkit.Must(t, open(lab, 3))
	if n := c.server.rounds.InUse(); n != 1 {
		t.Errorf("%d runs are kept in memory, want the open one", n)
	}
}
