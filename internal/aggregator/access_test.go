package aggregator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// A student learns nothing about another student's run, and cannot change it.
func TestARunIsWhoseItIs(t *testing.T) {
	c := shared(t)
	d := c.dataset()
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	lab, eve, spies := c.student(t), c.studentAs(t, "eve"), c.queue(t, "eve")
	spec, _ := lab.open(t, d, nil)
	released := lab.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4))

	ctx := testkit.Within(t)
	guess := func(change func(s *conclavev1.RunSpec)) error {
		other := proto.CloneOf(spec)
		change(other)
		_, err := eve.OpenRun(ctx, &conclavev1.OpenRunRequest{Spec: other})
		return err
	}
	opened := guess(func(*conclavev1.RunSpec) {})
	for what, change := range map[string]func(*conclavev1.RunSpec){
		"budget":  func(s *conclavev1.RunSpec) { s.Epsilon /= 2 },
		"purpose": func(s *conclavev1.RunSpec) { s.Purpose = "to guess" },
		"plan":    func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism.Sigma++ },
		"dataset": func(s *conclavev1.RunSpec) { s.Dataset = c.dataset() },
	} {
		if err := guess(change); fmt.Sprint(err) != fmt.Sprint(opened) {
			t.Errorf("opened with another %s: %v; with the same spec: %v", what, err, opened)
		}
	}
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

// An operator can list, watch, cancel and remove all runs, but cannot open one, ask in one or take one.
func TestOperators(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d := c.dataset()
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	lab, desk := c.student(t), c.operator(t)
	spec, _ := lab.open(t, d, nil)
	lab.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4))
	ctx := testkit.Within(t)

	asking := &testStudent{rpc.NewStudentServiceClient(c.dialAs(t, "operator", "desk"))}
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
	// The releases are gone, the ledger is complete, and the name stays reserved.
	_, err = lab.ask(ctx, roundtest.VoteRound(spec.Name, 0, 4), nil)
	roundtest.WantStatus(t, err, codes.NotFound, "removed")
	_, err = lab.OpenRun(ctx, &conclavev1.OpenRunRequest{Spec: spec})
	roundtest.WantStatus(t, err, codes.AlreadyExists, "removed")
	entries, err := c.server.store.Ledger(ctx, d)
	testkit.Must(t, err)
	if len(entries) != 5 { // dataset, run, roster, release, close
		t.Errorf("the ledger has %d entries", len(entries))
	}
	if _, _, found, err := c.server.store.Release(ctx, spec.Name, 0); err != nil || found {
		t.Errorf("the release is still stored: %v, %v", found, err)
	}
	testkit.Must(t, c.stop()) // the next leader audits the ledger
	c.start(Options{})
}

// A dataset's configuration lists the students that may open runs on it, and the workers that may take them.
func TestDatasetsListTheirStudents(t *testing.T) {
	t.Parallel()
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
	// Eve sees neither the run nor the dataset's spending; the others see the spending.
	for name, sees := range map[string]bool{"eve": false, "lab": true, "hired": true} {
		if _, budget := c.queue(t, name).list(t, "small"); (budget != nil) != sees {
			t.Errorf("%s sees the budget %v", name, budget)
		}
	}
	hired := c.studentAs(t, "hired")
	run := c.queue(t, "hired").worker(t, me).claimed()
	// Without a claim, a worker cannot open a run of its own.
	other := &conclavev1.OpenRunRequest{Spec: roundtest.Submission("small", "own").Spec}
	_, err = hired.OpenRun(holding(t, run), other)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "not in the queue")
	_, err = hired.OpenRun(holding(t, run), open)
	testkit.Must(t, err)
}

// Without a list of workers, the listed students may take runs, and nobody else.
func TestStudentsAreTheWorkersWhereNoneAreListed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, func(config *Config) {
		small(config)
		config.Datasets[len(config.Datasets)-1].Students = []string{"lab"}
	})
	me := &conclavev1.Worker{Dataset: "small", Name: "w"}
	_, err := c.queue(t, "eve").worker(t, me).stream.Recv()
	roundtest.WantStatus(t, err, codes.PermissionDenied, `"eve"`, "workers")
	c.queue(t, "lab").submit(t, "small", "a")
	if run := c.queue(t, "lab").worker(t, me).claimed(); run.GetName() != "a" {
		t.Errorf("lab was given %v", run)
	}
}

// A student that sets deadlines of milliseconds would learn which nodes are fast.
func TestDeadlinesHaveALeast(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, func(config *Config) { config.LeastDeadline = time.Second })
	student, d := c.student(t), c.dataset()
	open := func(deadline float64) error {
		return student.tryOpen(t, d, func(s *conclavev1.RunSpec) { s.Name, s.DeadlineSeconds = "hasty", deadline })
	}
	roundtest.WantStatus(t, open(0.999), codes.FailedPrecondition, "hasty", "least_deadline", "1s")
	testkit.Must(t, open(1))
}

// A student cannot fill the aggregator with runs, and runs that are closed leave its memory.
func TestOpenRunsOfAStudentAreBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, func(config *Config) { config.MaxOpenRuns = 3 })
	d := c.dataset()
	lab := c.student(t)
	open := func(student *testStudent, i int) error {
		return student.tryOpen(t, d, func(s *conclavev1.RunSpec) { s.Name, s.Epsilon = fmt.Sprint("r", i), 0.01 })
	}
	for i := range 3 {
		testkit.Must(t, open(lab, i))
	}
	roundtest.WantStatus(t, open(lab, 3), codes.ResourceExhausted, "3 open runs")
	testkit.Must(t, open(lab, 0)) // one too many
	testkit.Must(t, open(c.studentAs(t, "eve"), 4))
	testkit.Must(t, c.stop()) // the next leader knows what is open, too
	c.start(Options{})
	lab = c.student(t)
	roundtest.WantStatus(t, open(lab, 3), codes.ResourceExhausted, "3 open runs")
	for i := range 3 {
		lab.close(t, fmt.Sprintf("r%d", i))
	}
	testkit.Must(t, open(lab, 3))
	if n := c.server.rounds.InUse(); n != 1 {
		t.Errorf("%d runs are kept in memory, want the open one", n)
	}
}

// Closed and removed runs stay in the ledger, so they count towards a student's limit.
func TestRunsOfAStudentAreCountedForEver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, func(config *Config) { config.MaxRuns = 4 })
	d := c.dataset()
	open := func(student *testStudent, name string) error {
		return student.tryOpen(t, d, func(s *conclavev1.RunSpec) { s.Name, s.Epsilon = name, 0.01 })
	}
	lab := c.student(t)
	for i := range 4 {
		testkit.Must(t, open(lab, fmt.Sprint("r", i)))
		lab.close(t, fmt.Sprint("r", i))
	}
	_, err := c.operator(t).RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "r0"})
	testkit.Must(t, err)
	roundtest.WantStatus(t, open(lab, "r4"), codes.ResourceExhausted, "opened 4 runs", "operator raise max_runs")
	testkit.Must(t, c.stop()) // the next leader knows them, too
	c.start(Options{})
	lab = c.student(t)
	roundtest.WantStatus(t, open(lab, "r4"), codes.ResourceExhausted, "opened 4 runs")
	testkit.Must(t, open(lab, "r3")) // one too many
	testkit.Must(t, open(c.studentAs(t, "eve"), "r4"))
}

// Each plan entry can add a mechanism to a dataset's spending, which is one value in etcd. So the entries of all runs
// that a student opens or submits on a dataset are limited.
func TestPlansOfAStudentAreCountedForEver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small, func(config *Config) { config.MaxPlanEntries = 5 })
	open := func(student *testStudent, dataset, name string) error {
		return student.tryOpen(t, dataset, func(s *conclavev1.RunSpec) { s.Name, s.Epsilon = name, 0.01 })
	}
	const full = "have 4 entries, and 2 more exceed the maximum of 5"
	lab := c.student(t)
	for _, name := range []string{"r0", "r1"} {
		testkit.Must(t, open(lab, "small", name))
		lab.close(t, name)
	}
	_, err := c.operator(t).RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "r0"})
	testkit.Must(t, err)
	roundtest.WantStatus(t, open(lab, "small", "r2"), codes.ResourceExhausted, full, "raise max_plan_entries")
	testkit.Must(t, c.stop()) // the next leader knows them, too
	c.start(Options{})
	lab = c.student(t)
	roundtest.WantStatus(t, open(lab, "small", "r2"), codes.ResourceExhausted, full)
	testkit.Must(t, open(lab, "small", "r1")) // one too many
	testkit.Must(t, open(lab, c.dataset(), "r2"))

	// A queued run counts once, for the student that submitted it, also after a worker opens it.
	eve, hired := c.queue(t, "eve"), c.queue(t, "hired")
	eve.cheap(t, "a")
	eve.cheap(t, "b")
	spec := roundtest.Submission("small", "c").Spec
	submitted := func() error {
		_, err := eve.SubmitRun(testkit.Within(t), &conclavev1.SubmitRunRequest{Spec: spec, RunYaml: []byte("name: c"),
			SchemaYaml: []byte("test")})
		return err
	}
	roundtest.WantStatus(t, submitted(), codes.ResourceExhausted, full, "raise max_plan_entries")
	run := hired.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"}).claimed()
	cheap := roundtest.Submission("small", "a").Spec
	cheap.Epsilon = 0.5
	_, err = c.studentAs(t, "hired").OpenRun(holding(t, run), &conclavev1.OpenRunRequest{Spec: cheap})
	testkit.Must(t, err)
	roundtest.WantStatus(t, submitted(), codes.ResourceExhausted, full)
	spec.Plan = spec.Plan[:1]
	testkit.Must(t, submitted())
}

// Each charged question is an entry of the ledger, released or not, so a student has a limit over all its runs.
func TestQuestionsOfAStudentAreCountedForEver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, func(config *Config) { config.MaxQuestions = 3 })
	d := c.dataset()
	lab := c.student(t)
	named := func(name string) func(*conclavev1.RunSpec) {
		return func(s *conclavev1.RunSpec) { s.Name = name }
	}
	first, _ := lab.open(t, d, named("first"))
	second, _ := lab.open(t, d, named("second"))
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	// Abandoned questions: each replaces the one before, which is then charged.
	for i := range 3 {
		for asked := false; !asked; {
			ctx, leave := context.WithCancel(testkit.Within(t))
			left := make(chan error, 1)
			go func() {
				_, err := lab.ask(ctx, roundtest.VoteRound(first.Name, 0, 5+i), nil)
				left <- err
			}()
			select {
			case <-node.rounds:
				asked = true
				leave()
				testkit.Receive(t, left)
			case err := <-left: // the previous question still waits
				if status.Code(err) != codes.FailedPrecondition {
					t.Fatal(err)
				}
			}
			leave()
		}
	}
	node.leave()
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	// A question in progress counts for the next one.
	var err error
	released := uint64(0)
	for ; err == nil && released < 10; released++ {
		_, err = lab.ask(testkit.Within(t), roundtest.VoteRound(second.Name, released, 5), nil)
	}
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "been charged for", "operator raise max_questions")
	if released > 4 {
		t.Errorf("refused after %d releases", released)
	}
	testkit.Must(t, c.stop()) // the next leader knows them, too
	c.start(Options{})
	lab = c.student(t)
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	lab.refused(t, roundtest.VoteRound(first.Name, 1, 5), codes.ResourceExhausted, "been charged for")
	lab.mustAsk(t, roundtest.VoteRound(second.Name, 0, 5)) // a stored release is returned again
	eve := c.studentAs(t, "eve")
	third, _ := eve.open(t, d, named("third"))
	eve.mustAsk(t, roundtest.VoteRound(third.Name, 0, 5))
}

// Queued runs count for the student that submitted them, not for the one whose worker opened them.
func TestSubmittedRunsOfAStudentAreCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small, func(config *Config) { config.MaxRuns = 2 })
	lab, hired, desk := c.queue(t, "lab"), c.queue(t, "hired"), c.operator(t)
	submit := func(q testQueue, name string) error {
		s := roundtest.Submission("small", name)
		s.Overcommit = true
		_, err := q.SubmitRun(testkit.Within(t), s)
		return err
	}
	lab.submit(t, "small", "a")
	run := hired.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"}).claimed()
	spec := roundtest.Submission("small", "a").Spec
	_, err := c.studentAs(t, "hired").OpenRun(holding(t, run), &conclavev1.OpenRunRequest{Spec: spec})
	testkit.Must(t, err)
	testkit.Must(t, hired.finish(t, run, conclavev1.RunState_RUN_STATE_DONE, ""))
	_, err = hired.RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "a"}) // it only took the run
	roundtest.WantStatus(t, err, codes.PermissionDenied, "submitted it")
	_, err = desk.RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "a"})
	testkit.Must(t, err)
	lab.submit(t, "small", "b")
	_, err = lab.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: "b"})
	testkit.Must(t, err)
	roundtest.WantStatus(t, submit(lab, "c"), codes.ResourceExhausted, "2 runs", "raise max_runs")
	testkit.Must(t, c.stop())
	c.start(Options{})
	lab, hired, desk = c.queue(t, "lab"), c.queue(t, "hired"), c.operator(t)
	roundtest.WantStatus(t, submit(lab, "c"), codes.ResourceExhausted, "2 runs", "raise max_runs")
	// Removing an unopened run frees its place. Each student has its own limit.
	_, err = desk.RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "b"})
	testkit.Must(t, err)
	testkit.Must(t, submit(lab, "c"))
	testkit.Must(t, submit(hired, "d"))
	testkit.Must(t, submit(hired, "e"))
}
