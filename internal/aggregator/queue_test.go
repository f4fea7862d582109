package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// testQueue calls the aggregator as conclave run does.
type testQueue struct {
	rpc.RunServiceClient
}

func (c *cluster) queue(t testing.TB, name string) testQueue {
	t.Helper()
	return testQueue{rpc.NewRunServiceClient(c.dialAs(t, certs.RoleStudent, name))}
}

// operator calls with an operator's certificate.
func (c *cluster) operator(t testing.TB) testQueue {
	t.Helper()
	return testQueue{rpc.NewRunServiceClient(c.dialAs(t, certs.RoleOperator, "desk"))}
}

// dialAs dials with a certificate, which it issues if there is none.
func (c *cluster) dialAs(t testing.TB, role certs.Role, name string) *grpc.ClientConn {
	t.Helper()
	if err := authority.Issue(c.certs, role, name, nil, time.Hour); err != nil && !errors.Is(err, certs.ErrExists) {
		t.Fatal(err)
	}
	return c.dial(t, certs.IssuedFiles(c.certs, role, name))
}

func (q testQueue) submit(t testing.TB, dataset, name string) *conclavev1.SubmitRunResponse {
	t.Helper()
	r, err := q.SubmitRun(testkit.Within(t), roundtest.Submission(dataset, name))
	testkit.Must(t, err)
	return r
}

func (q testQueue) show(t testing.TB, name string) *conclavev1.RunStatus {
	t.Helper()
	r, err := q.ShowRun(testkit.Within(t), &conclavev1.ShowRunRequest{Run: name})
	testkit.Must(t, err)
	return r.GetRun()
}

func (q testQueue) await(t testing.TB, name string, state conclavev1.RunState) *conclavev1.RunStatus {
	t.Helper()
	var status *conclavev1.RunStatus
	testkit.Eventually(t, fmt.Sprintf("run %s %v", name, state), func() bool {
		status = q.show(t, name)
		return status.GetState() == state
	})
	return status
}

func (q testQueue) list(t testing.TB, dataset string) (names []string, budget *conclavev1.DatasetBudget) {
	t.Helper()
	stream, err := q.ListRuns(testkit.Within(t), &conclavev1.ListRunsRequest{Dataset: dataset})
	testkit.Must(t, err)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return names, budget
		}
		testkit.Must(t, err)
		for _, r := range m.GetRuns() {
			names = append(names, r.GetName()+" "+strings.TrimPrefix(r.GetState().String(), "RUN_STATE_"))
		}
		for _, b := range m.GetBudgets() {
			budget = b
		}
	}
}

// testWorker is a worker's stream.
type testWorker struct {
	t      testing.TB
	stream rpc.RunService_ClaimRunClient
	drop   context.CancelFunc // breaks the connection
}

func (q testQueue) worker(t testing.TB, w *conclavev1.Worker) *testWorker {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Within(t))
	stream, err := q.ClaimRun(ctx)
	testkit.Must(t, err)
	mustSend(t, stream, &conclavev1.ClaimRunRequest{Message: &conclavev1.ClaimRunRequest_Worker{Worker: w}})
	t.Cleanup(cancel)
	return &testWorker{t, stream, cancel}
}

func (w *testWorker) claimed() *conclavev1.ClaimedRun {
	w.t.Helper()
	m, err := w.stream.Recv()
	testkit.Must(w.t, err)
	if m.GetClaimed() == nil {
		w.t.Fatalf("got %v, want a run", m)
	}
	return m.GetClaimed()
}

func (w *testWorker) ended() *conclavev1.EndedRun {
	w.t.Helper()
	m, err := w.stream.Recv()
	testkit.Must(w.t, err)
	if m.GetEnded() == nil {
		w.t.Fatalf("got %v, want its end", m)
	}
	return m.GetEnded()
}

// holding is a context that carries a run's claim.
func holding(t testing.TB, run *conclavev1.ClaimedRun) context.Context {
	return metadata.AppendToOutgoingContext(testkit.Within(t), "conclave-claim", run.GetClaim())
}

func (q testQueue) finish(t testing.TB, run *conclavev1.ClaimedRun, state conclavev1.RunState, reason string) error {
	_, err := q.FinishRun(testkit.Within(t),
		&conclavev1.FinishRunRequest{Run: run.GetName(), Claim: run.GetClaim(), State: state, Reason: reason})
	return err
}

// A run passes from submission to its end while others wait.
func TestTheWayOfARunThroughTheQueue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d := c.dataset()
	lab, student := c.queue(t, "lab"), c.studentAs(t, "lab")
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	first := lab.submit(t, d, "first")
	if !first.GetFits() || first.GetRun().GetPlace() != 1 || first.GetRun().GetBy() != "lab" ||
		first.GetBudget().GetWorkers() != 0 || first.GetEpsilonLeft() <= 0 {
		t.Errorf("the answer is %v", first)
	}
	second := lab.submit(t, d, "second")
	if second.GetRun().GetPlace() != 2 || second.GetEpsilonLeft() >= first.GetEpsilonLeft() ||
		second.GetBudget().GetWaiting() != 2 {
		t.Errorf("the answer is %v", second)
	}
	if again := lab.submit(t, d, "first"); !again.GetExisting() || again.GetRun().GetPlace() != 1 {
		t.Errorf("submitted again: %v", again)
	}
	// A student without the claim is refused, whether the run waits or runs.
	open := &conclavev1.OpenRunRequest{Spec: roundtest.Submission(d, "first").Spec}
	_, err := student.OpenRun(testkit.Within(t), open)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "first", "is waiting in the queue")

	w := lab.worker(t, &conclavev1.Worker{Dataset: d, Name: "w1"})
	run := w.claimed()
	if run.GetName() != "first" || string(run.GetRunYaml()) != "name: first" || string(run.GetSchemaYaml()) != "test" ||
		!proto.Equal(run.GetSpec(), open.Spec) {
		t.Fatalf("the worker got %v", run)
	}
	_, err = student.OpenRun(testkit.Within(t), open)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "first", "w1")
	_, err = student.OpenRun(holding(t, run), open)
	testkit.Must(t, err)
	student.refused(t, roundtest.VoteRound("first", 0, 4), codes.FailedPrecondition, "claimed by worker")
	_, err = student.ask(holding(t, run), roundtest.VoteRound("first", 0, 4), nil)
	testkit.Must(t, err)
	_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: "first"})
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "claimed by worker")

	mustSend(
		t,
		w.stream,
		&conclavev1.ClaimRunRequest{
			Message: &conclavev1.ClaimRunRequest_Progress{
				Progress: &conclavev1.RunProgress{Round: 3, Rounds: 9, Waiting: "a\nb"},
			},
		},
	)
	watch, err := lab.WatchRun(testkit.Within(t), &conclavev1.WatchRunRequest{Run: "first"})
	testkit.Must(t, err)
	for {
		m, err := watch.Recv()
		testkit.Must(t, err)
		if m.GetProgress().GetRound() == 3 {
			if m.GetRun().GetRounds() != 1 || m.GetRun().GetEpsilonSpent() <= 0 ||
				m.GetProgress().GetWaiting() != "ab" {
				t.Errorf("watched %v", m)
			}
			break
		}
	}
	_, err = student.CloseRun(holding(t, run), &conclavev1.CloseRunRequest{Run: "first"})
	testkit.Must(t, err)
	finish := &conclavev1.FinishRunRequest{Run: "first", Claim: run.GetClaim(),
		State: conclavev1.RunState_RUN_STATE_DONE,
		Results: []*conclavev1.RunResult{{Name: "certificate", Path: "/out/first/certificate.json",
			Sha256: roundtest.Schema}}}
	_, err = lab.FinishRun(testkit.Within(t), finish)
	testkit.Must(t, err)
	_, err = lab.FinishRun(testkit.Within(t), finish) // its answer was lost
	testkit.Must(t, err)
	if end := w.ended(); end.GetState() != conclavev1.RunState_RUN_STATE_DONE {
		t.Errorf("the worker was told %v", end)
	}
	for { // the watch ends with the run
		m, err := watch.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		if m.GetRun().GetName() != "first" {
			t.Errorf("watched %v", m)
		}
	}
	status := lab.show(t, "first")
	if status.GetState() != conclavev1.RunState_RUN_STATE_DONE || !status.GetClosed() || status.GetLedgerHead() == "" ||
		len(status.GetResults()) != 1 || status.GetEnded() == "" {
		t.Errorf("at last %v", status)
	}
	// Releases are still available, as for any closed run.
	_, err = student.ask(testkit.Within(t), roundtest.VoteRound("first", 0, 4), nil)
	testkit.Must(t, err)
	names, budget := lab.list(t, d)
	if strings.Join(names, ", ") != "first DONE, second WAITING" || budget.GetWaiting() != 1 || budget.GetOpen() != 0 ||
		budget.GetEpsilonSpent() <= 0 ||
		budget.GetEpsilonReserved() <= budget.GetEpsilonSpent() || budget.GetEpsilonLeft() <= 0 {
		t.Errorf("the list is %v with %v", names, budget)
	}
}

// Open runs outside the queue are listed, and can be closed by force.
func TestRunsOfStudentsAreListedAndClosedByForce(t *testing.T) {
	c := shared(t)
	d := c.dataset()
	lab, student := c.operator(t), c.student(t)
	spec, _ := student.open(t, d, nil)
	status := lab.show(t, spec.Name)
	if status.GetQueued() || status.GetState() != conclavev1.RunState_RUN_STATE_RUNNING ||
		status.GetBy() != "student" || status.GetPipeline() != "pategan" || status.GetSubmitted() == "" {
		t.Errorf("a student's own run is %v", status)
	}
	_, err := c.queue(t, "lab").SubmitRun(testkit.Within(t), roundtest.Submission(d, spec.Name))
	roundtest.WantStatus(t, err, codes.AlreadyExists, spec.Name, "opened by a student")
	// A request waits for one of its rounds, which nobody can answer: there are no nodes.
	asked := make(chan error, 1)
	waiting, stop := context.WithCancel(testkit.Within(t))
	go func() {
		_, err := student.ask(waiting, roundtest.VoteRound(spec.Name, 0, 4), nil)
		asked <- err
	}()
	testkit.Eventually(t, "a round", func() bool { return c.server.rounds.Datasets[d].OpenRounds() == 1 })
	_, err = lab.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: spec.Name})
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "was opened without the queue", "\"student\"", "by force")
	r, err := lab.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: spec.Name, Force: true})
	testkit.Must(t, err)
	if !r.GetRun().GetClosed() || r.GetRun().GetState() != conclavev1.RunState_RUN_STATE_DONE {
		t.Errorf("closed by force it is %v", r.GetRun())
	}
	roundtest.WantStatus(t, testkit.Receive(t, asked), codes.Unavailable, "abandoned")
	stop()
	student.refused(t, roundtest.VoteRound(spec.Name, 0, 4), codes.FailedPrecondition, "closed")
	if names, budget := lab.list(t, d); strings.Join(names, ", ") != spec.Name+" DONE" || budget.GetOpen() != 0 ||
		budget.GetEpsilonReserved() != budget.GetEpsilonSpent() {
		t.Errorf("the list is %v with %v", names, budget)
	}
	_, err = lab.ShowRun(testkit.Within(t), &conclavev1.ShowRunRequest{Run: "none"})
	roundtest.WantStatus(t, err, codes.NotFound, "none")
	_, err = lab.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: "none", Force: true})
	roundtest.WantStatus(t, err, codes.NotFound, "none")
}

// small is a dataset with room for one run of roundtest.Spec and a little more.
func small(c *Config) {
	c.WorkerGrace = time.Second
	c.Datasets = append(c.Datasets, DatasetConfig{
		Name: "small", SchemaSHA256: roundtest.Schema, Unit: "record", Budget: privacy.Budget{Epsilon: 11, Delta: 1e-5},
	})
}

// patient gives workers that are gone more time than a test takes.
func patient(c *Config) { c.WorkerGrace = testkit.Patience }

// hasty starts a leader that gives such workers a second. started is before its start.
func (c *cluster) hasty(t testing.TB, name string) (queue testQueue, started time.Time) {
	t.Helper()
	testkit.Must(t, c.stop())
	c.config.WorkerGrace = time.Second
	started = time.Now()
	c.start(Options{})
	return c.queue(t, name), started
}

// A run is cancelled while it waits, and another while it runs with an open round.
func TestCancel(t *testing.T) {
	t.Parallel()
	path, watched := observed(t)
	c := newCluster(t, Options{}, small, watched)
	lab, eve, student := c.queue(t, "lab"), c.queue(t, "eve"), c.studentAs(t, "lab")
	lab.submit(t, "small", "a")
	over := roundtest.Submission("small", "b")
	_, err := lab.SubmitRun(testkit.Within(t), over)
	roundtest.WantStatus(t, err, codes.ResourceExhausted, `"b"`, "1 waiting", "overcommit", "over budget")
	over.Overcommit = true
	r, err := lab.SubmitRun(testkit.Within(t), over)
	testkit.Must(t, err)
	if r.GetFits() || r.GetEpsilonLeft() != 0 {
		t.Errorf("the answer to a run too many is %v", r)
	}
	for _, force := range []bool{false, true} {
		_, err = eve.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: "a", Force: force})
		roundtest.WantStatus(t, err, codes.PermissionDenied, `"eve"`)
	}
	_, err = c.operator(t).CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: "a"})
	testkit.Must(t, err)
	if status := lab.show(t, "a"); status.GetState() != conclavev1.RunState_RUN_STATE_CANCELLED ||
		status.GetReason() != `by "desk"` || status.GetOpened() {
		t.Errorf("cancelled it is %v", status)
	}
	w := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"})
	run := w.claimed()
	if run.GetName() != "b" { // there is room now
		t.Fatalf("the worker got %v", run.GetName())
	}
	_, err = student.OpenRun(holding(t, run), &conclavev1.OpenRunRequest{Spec: over.Spec})
	testkit.Must(t, err)
	asked := make(chan error, 1)
	go func() {
		_, err := student.ask(holding(t, run), roundtest.VoteRound("b", 0, 4), nil) // there are no nodes
		asked <- err
	}()
	testkit.Eventually(t, "a round", func() bool { return c.server.rounds.Datasets["small"].OpenRounds() == 1 })
	_, err = lab.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: "b"})
	testkit.Must(t, err)
	roundtest.WantStatus(t, testkit.Receive(t, asked), codes.Unavailable, "abandoned")
	if end := w.ended(); end.GetState() != conclavev1.RunState_RUN_STATE_CANCELLED || end.GetReason() != `by "lab"` {
		t.Errorf("the worker was told %v", end)
	}
	if err := lab.finish(t, run, conclavev1.RunState_RUN_STATE_DONE, ""); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("finished after it was cancelled: %v", err)
	}
	_, err = student.ask(holding(t, run), roundtest.VoteRound("b", 0, 4), nil)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "closed")
	if status := lab.show(t, "b"); status.GetState() != conclavev1.RunState_RUN_STATE_CANCELLED || !status.GetClosed() {
		t.Errorf("cancelled it is %v", status)
	}
	if _, err := lab.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: "b"}); err != nil { // a second time
		t.Error(err)
	}
	student.lines(t, "b") // verifies the ledger
	lab.submit(t, "small", "c")
	metrics := scrape(t, c.server.MonitorAddr().String())
	for state, want := range map[string]float64{"waiting": 1, "running": 0, "cancelled": 2, "done": 0, "failed": 0,
		"out_of_budget": 0} {
		if got, ok := metrics[`conclave_queued_runs{dataset="small",state="`+state+`"}`]; !ok || got != want {
			t.Errorf("%v runs are %s, want %v", got, state, want)
		}
	}
	var lines []string
	for _, e := range auditEntries(t, path) {
		if strings.HasPrefix(e.Event, "run-") && e.Event != auditlog.RunOpened {
			lines = append(lines, strings.Join([]string{e.Event, e.Run, e.Peer, e.Code}, " "))
		}
	}
	want := []string{"run-submitted a student/lab ", "run-submitted b student/lab ",
		"run-cancelled a operator/desk cancelled", "run-claimed b student/lab ",
		"run-cancelled b student/lab cancelled",
		"run-submitted c student/lab "}
	if !slices.Equal(lines, want) {
		t.Errorf("the audit log has %q", lines)
	}
}

// In an overcommitted queue, a run that does not fit when its turn comes ends at no cost. A run that would not fit
// beside an open run waits for that run.
func TestAQueueOverTheBudget(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab, student := c.queue(t, "lab"), c.studentAs(t, "lab")
	for i, epsilon := range []float64{9, 9, 10} {
		q := roundtest.Submission("small", fmt.Sprintf("r%d", i))
		q.Spec.Epsilon, q.Overcommit = epsilon, true
		_, err := lab.SubmitRun(testkit.Within(t), q)
		testkit.Must(t, err)
	}
	c.node(t, hello("small", "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	w0 := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w0"})
	r0 := w0.claimed()
	// A second worker gets nothing yet: r1 could not finish if r0 spends its whole budget.
	w1 := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w1"})
	testkit.Eventually(t, "r1 to say what it waits for", func() bool {
		return strings.Contains(lab.show(t, "r1").GetReason(), "open runs r0")
	})
	spec := roundtest.Submission("small", "r0").Spec
	spec.Epsilon = 9
	_, err := student.OpenRun(holding(t, r0), &conclavev1.OpenRunRequest{Spec: spec})
	testkit.Must(t, err)
	_, err = student.ask(holding(t, r0), roundtest.VoteRound("r0", 0, 40), nil)
	testkit.Must(t, err)
	testkit.Must(t, lab.finish(t, r0, conclavev1.RunState_RUN_STATE_FAILED, "the disk\x1b[31m is full"))
	if status := lab.show(t, "r0"); status.GetReason() != "the disk [31m is full" || !status.GetClosed() {
		t.Errorf("at last %v", status)
	}
	r1 := w1.claimed()
	if r1.GetName() != "r1" {
		t.Fatalf("w1 got %s", r1.GetName())
	}
	spec.Name = "r1"
	_, err = student.OpenRun(holding(t, r1), &conclavev1.OpenRunRequest{Spec: spec})
	testkit.Must(t, err)
	for round := range uint64(3) {
		_, err = student.ask(holding(t, r1), roundtest.VoteRound("r1", round, 100), nil)
		testkit.Must(t, err)
	}
	testkit.Must(t, lab.finish(t, r1, conclavev1.RunState_RUN_STATE_DONE, ""))
	spent := lab.show(t, "r1").GetEpsilonSpent() + lab.show(t, "r0").GetEpsilonSpent()
	lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w2"})
	status := lab.await(t, "r2", conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET)
	if !strings.Contains(status.GetReason(), "nothing was spent") || status.GetOpened() || status.GetClaims() != 0 {
		t.Errorf("after %v were spent r2 is %v", spent, status)
	}
	late := roundtest.Submission("small", "late")
	late.Overcommit = true
	_, err = lab.SubmitRun(testkit.Within(t), late)
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "exceeds what is left of the budget of dataset \"small\"")
}

// A worker that is gone longer than its grace period loses its run. One that returns in time keeps it, by claim or by
// name.
func TestWorkersThatVanish(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small, patient)
	lab := c.queue(t, "lab")
	lab.submit(t, "small", "a")
	me := &conclavev1.Worker{Dataset: "small", Name: "w"}
	w := lab.worker(t, me)
	run := w.claimed()

	w.drop()
	back := &conclavev1.Worker{Dataset: "small", Name: "w", Run: "a", Claim: run.GetClaim()}
	w = lab.worker(t, back)
	if again := w.claimed(); again.GetClaim() != run.GetClaim() {
		t.Errorf("back with its claim it got %v", again)
	}
	// A restarted process no longer has the claim.
	w.drop()
	testkit.Eventually(t, "the stream to be gone", func() bool { return !lab.show(t, "a").GetConnected() })
	w = lab.worker(t, me)
	taken := w.claimed()
	if taken.GetName() != "a" || taken.GetClaim() == run.GetClaim() {
		t.Errorf("back under its name it got %v", taken)
	}
	if end := lab.worker(t, back).ended(); !strings.Contains(end.GetReason(), "this worker no longer has its claim") {
		t.Errorf("with an old claim it got %v", end)
	}
	// A worker with another name waits until the grace period ends. A new leader begins it anew.
	w.drop()
	lab, dropped := c.hasty(t, "lab")
	other := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "v"})
	if third := other.claimed(); third.GetName() != "a" || time.Since(dropped) < c.config.WorkerGrace {
		t.Errorf("another worker got %v after %v", third, time.Since(dropped))
	}
	if status := lab.show(t, "a"); status.GetWorker() != "v" || status.GetClaims() != 3 {
		t.Errorf("it is %v", status)
	}
	// A worker that leaves in order returns its run at once.
	testkit.Must(t, other.stream.CloseSend())
	if status := lab.await(t, "a", conclavev1.RunState_RUN_STATE_WAITING); !strings.Contains(status.GetReason(),
		`"v" returned it`) || status.GetPlace() != 1 {
		t.Errorf("given back it is %v", status)
	}
}

// The leader that saw a worker go waits for it, too.
func TestAWorkerThatIsGoneLosesItsRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	lab.submit(t, "small", "a")
	w := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"})
	w.claimed()
	dropped := time.Now()
	w.drop()
	next := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "v"}).claimed()
	if took := time.Since(dropped); next.GetName() != "a" || took < c.config.WorkerGrace {
		t.Errorf("another worker got %v after %v", next, took)
	}
}

// A run that kills every worker that takes it does not delay the runs behind it.
func TestARunThatEndsItsWorkersFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	lab.submit(t, "small", "a")
	me := &conclavev1.Worker{Dataset: "small", Name: "w"}
	for range 3 {
		w := lab.worker(t, me)
		if got := w.claimed().GetName(); got != "a" {
			t.Fatalf("claimed %q", got)
		}
		w.drop()
		testkit.Eventually(t, "the stream to be gone", func() bool { return !lab.show(t, "a").GetConnected() })
	}
	behind := roundtest.Submission("small", "b")
	behind.Overcommit = true
	_, err := lab.SubmitRun(testkit.Within(t), behind)
	testkit.Must(t, err)
	if got := lab.worker(t, me).claimed().GetName(); got != "b" {
		t.Errorf("after the run that ends its workers %q was claimed", got)
	}
	status := lab.show(t, "a")
	if status.GetState() != conclavev1.RunState_RUN_STATE_FAILED ||
		!strings.Contains(status.GetReason(), `its worker process ended 3 times without a new release`) {
		t.Errorf("it is %v", status)
	}
}

// If answers were dropped, only a student with the checkpoint can continue.
func TestAFolderIsNeededWhereAnswersWereDropped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	lab.submit(t, "small", "a")
	spec := roundtest.Submission("small", "b")
	spec.Spec.Epsilon = 0.5
	_, err := lab.SubmitRun(testkit.Within(t), spec)
	testkit.Must(t, err)
	w := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"})
	run := w.claimed()
	raw, err := proto.Marshal(run.GetSpec())
	testkit.Must(t, err)
	plan, err := runspec.Plan(run.GetSpec())
	testkit.Must(t, err)
	_, err = c.server.store.OpenRun(t.Context(), c.server.lead,
		coordinator.Run{Name: "a", Dataset: "small", Spec: raw, Plan: plan,
			Budget: privacy.Budget{Epsilon: 10, Delta: 1e-5}, Claim: run.GetClaim(),
			Facts: anyFacts, Student: "student"})
	testkit.Must(t, err)
	for round := range uint64(2) {
		_, _, err = c.server.store.Charge(t.Context(), c.server.lead,
			coordinator.Charge{
				Question: coordinator.Question{Run: "a", Round: round, Use: privacy.Use{Queries: 1, Answered: 1}},
				Forget:   round, Release: []byte("x"),
			})
		testkit.Must(t, err)
	}
	testkit.Must(t, w.stream.CloseSend())
	lab.await(t, "a", conclavev1.RunState_RUN_STATE_WAITING)
	stranger := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "v"})
	if got := stranger.claimed().GetName(); got != "b" { // other runs are not delayed
		t.Errorf("a worker without its folder got %s", got)
	}
	if reason := lab.show(t, "a").GetReason(); !strings.Contains(reason, "waiting for a worker with the checkpoint") {
		t.Errorf("it says %q", reason)
	}
	if got := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "u",
		Folders: []string{"a"}}).claimed().GetName(); got != "a" {
		t.Errorf("a worker with its folder got %s", got)
	}
}

// The next leader has the same queue, and workers continue with it.
func TestTheQueueSurvivesALeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small, patient)
	lab := c.queue(t, "lab")
	for i := range 3 {
		q := roundtest.Submission("small", fmt.Sprintf("r%d", i))
		q.Spec.Epsilon = 1
		_, err := lab.SubmitRun(testkit.Within(t), q)
		testkit.Must(t, err)
	}
	w := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"})
	run := w.claimed()
	gone := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "gone"})
	lost := gone.claimed()
	watch, err := lab.WatchRun(testkit.Within(t), &conclavev1.WatchRunRequest{Run: "r2"})
	testkit.Must(t, err)
	testkit.Must(t, c.stop())
	for err == nil {
		_, err = watch.Recv()
	}
	roundtest.WantStatus(t, err, codes.Unavailable)
	for _, w := range []*testWorker{w, gone} {
		if _, err := w.stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("when the leader stopped the worker was told %v", err)
		}
	}
	c.start(Options{})
	lab = c.queue(t, "lab")
	if names, _ := lab.list(t, "small"); strings.Join(names, ", ") != "r0 RUNNING, r1 RUNNING, r2 WAITING" {
		t.Errorf("the queue is %v", names)
	}
	w = lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w", Run: run.GetName(), Claim: run.GetClaim()})
	if again := w.claimed(); again.GetClaim() != run.GetClaim() {
		t.Errorf("back with its claim it got %v", again)
	}
	testkit.Must(t, lab.finish(t, run, conclavev1.RunState_RUN_STATE_DONE, ""))
	lab, _ = c.hasty(t, "lab")
	lab.await(t, lost.GetName(), conclavev1.RunState_RUN_STATE_WAITING) // after its grace period
	if next := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"}).claimed(); next.GetName() != "r1" {
		t.Errorf("the next run is %v", next.GetName())
	}
}
