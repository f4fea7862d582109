package aggregator

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// An invalid submission is refused with its problem, and leaves nothing in the queue.
func TestSubmissionsThatCannotBe(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	for what, c := range map[string]struct {
		change func(*conclavev1.SubmitRunRequest)
		code   codes.Code
		want   string
	}{
		"no spec": {func(q *conclavev1.SubmitRunRequest) { q.Spec = nil }, codes.InvalidArgument, "no run spec"},
		"a large spec": {func(q *conclavev1.SubmitRunRequest) { q.Spec.Pipeline = strings.Repeat("x", 16<<10) },
			codes.InvalidArgument, "its spec has"},
		"no file": {func(q *conclavev1.SubmitRunRequest) { q.RunYaml = nil }, codes.InvalidArgument,
			"run.yaml has 0 bytes"},
		"a large file": {func(q *conclavev1.SubmitRunRequest) {
			q.RunYaml = bytes.Repeat([]byte{'a'},
				coordinator.MaxRunFile+1)
		}, codes.InvalidArgument, "65537 bytes"},
		"no text": {func(q *conclavev1.SubmitRunRequest) { q.RunYaml = []byte{0xff} }, codes.InvalidArgument,
			"UTF-8"},
		"no schema": {func(q *conclavev1.SubmitRunRequest) { q.SchemaYaml = nil }, codes.InvalidArgument,
			"schema has 0 bytes"},
		"a large schema": {func(q *conclavev1.SubmitRunRequest) {
			q.SchemaYaml = make([]byte,
				coordinator.MaxSchemaFile+1)
		}, codes.InvalidArgument, "its schema has"},
		"another schema": {func(q *conclavev1.SubmitRunRequest) { q.SchemaYaml = []byte("tested") },
			codes.InvalidArgument, "does not match the hash in its spec"},
		"a foreign schema": {func(q *conclavev1.SubmitRunRequest) {
			q.Spec.SchemaSha256, q.SchemaYaml = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
				[]byte("x")
		}, codes.FailedPrecondition, "same schema file everywhere"},
		"a bad name": {func(q *conclavev1.SubmitRunRequest) { q.Spec.Name = "../x" }, codes.InvalidArgument,
			"../x"},
		"another unit": {func(q *conclavev1.SubmitRunRequest) { q.Spec.Unit = "patient" }, codes.FailedPrecondition,
			"patient"},
		"no dataset": {func(q *conclavev1.SubmitRunRequest) { q.Spec.Dataset = "none" }, codes.FailedPrecondition,
			"not served here"},
		"coin votes": {func(q *conclavev1.SubmitRunRequest) { q.Spec.CoinVotes = true }, codes.FailedPrecondition,
			"coin votes"},
		"too much epsilon": {func(q *conclavev1.SubmitRunRequest) { q.Spec.Epsilon = 11.5 }, codes.FailedPrecondition,
			"is 11"},
	} {
		q := roundtest.Submission("small", "bad")
		c.change(q)
		_, err := lab.SubmitRun(testkit.Within(t), q)
		if err == nil {
			t.Errorf("%s was queued", what)
			continue
		}
		roundtest.WantStatus(t, err, c.code, c.want)
	}
	if names, _ := lab.list(t, "small"); len(names) != 0 {
		t.Errorf("the queue has %v", names)
	}
}

// Submitting the same run again while it waits or runs finds that run. A run that has ended is not run again, and the
// error says so. The error for another student's run does not say whose it is.
func TestSubmittedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab, eve := c.queue(t, "lab"), c.queue(t, "eve")
	lab.submit(t, "small", "a")
	_, err := eve.SubmitRun(testkit.Within(t), roundtest.Submission("small", "a"))
	roundtest.WantStatus(t, err, codes.AlreadyExists, `not submitted by "eve"`, "another name")
	if strings.Contains(err.Error(), "lab") {
		t.Errorf("another student learns whose it is: %v", err)
	}
	w := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"})
	run := w.claimed()
	if again := lab.submit(t, "small", "a"); !again.GetExisting() ||
		again.GetRun().GetState() != conclavev1.RunState_RUN_STATE_RUNNING {
		t.Errorf("submitted again while it runs: %v", again)
	}
	testkit.Must(t, lab.finish(t, run, conclavev1.RunState_RUN_STATE_FAILED, "the disk is full"))
	_, err = lab.SubmitRun(testkit.Within(t), roundtest.Submission("small", "a"))
	roundtest.WantStatus(t, err, codes.AlreadyExists, `"a"`, "has ended (failed)", "another name")
	if names, _ := lab.list(t, "small"); len(names) != 1 || names[0] != "a FAILED" {
		t.Errorf("the queue has %v", names)
	}
}

// Only students can use runs; nodes cannot. A worker must give its name.
func TestTheQueueIsForStudents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	node := testQueue{rpc.NewRunServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north")))}
	_, err := node.SubmitRun(testkit.Within(t), roundtest.Submission("small", "a"))
	roundtest.WantStatus(t, err, codes.PermissionDenied, "north")
	_, err = node.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"}).stream.Recv()
	roundtest.WantStatus(t, err, codes.PermissionDenied, "north")

	lab, eve := c.queue(t, "lab"), c.queue(t, "eve")
	lab.submit(t, "small", "a")
	for what, w := range map[string]*conclavev1.Worker{
		"a name":            {Dataset: "small"},
		"not served here":   {Dataset: "none", Name: "w"},
		"without a claim":   {Dataset: "small", Name: "w", Run: "a"},
		"it has started":    {Dataset: "small", Name: "w", Folders: make([]string, 1001)},
		"without a run":     {Dataset: "small", Name: "w", Claim: "a"},
		"worker \"a b\": a": {Dataset: "small", Name: "a b"},
	} {
		_, err := lab.worker(t, w).stream.Recv()
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v: %v", w, err)
		}
	}
	mute, err := lab.ClaimRun(testkit.Within(t))
	testkit.Must(t, err)
	mustSend(t, mute, &conclavev1.ClaimRunRequest{Message: &conclavev1.ClaimRunRequest_Progress{}})
	_, err = mute.Recv()
	roundtest.WantStatus(t, err, codes.InvalidArgument, "must contain its name")
	run := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"}).claimed()
	// A claim is useless with another certificate.
	if end := eve.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w", Run: "a",
		Claim: run.GetClaim()}).ended(); end.GetReason() == "" {
		t.Error("eve has lab's run")
	}
	roundtest.WantStatus(t, eve.finish(t, run, conclavev1.RunState_RUN_STATE_DONE, ""), codes.PermissionDenied, "a",
		"eve")
	for what, change := range map[string]func(*conclavev1.FinishRunRequest){
		"without a claim": func(q *conclavev1.FinishRunRequest) { q.Claim = "" },
		"use done, out of " +
			"budget": func(q *conclavev1.FinishRunRequest) { q.State = conclavev1.RunState_RUN_STATE_CANCELLED },
		"without a name": func(q *conclavev1.FinishRunRequest) {
			q.Results = []*conclavev1.RunResult{{Name: "x",
				Sha256: "ab"}}
		},
		"claimed by worker": func(q *conclavev1.FinishRunRequest) { q.Claim = "old" },
	} {
		q := &conclavev1.FinishRunRequest{Run: "a", Claim: run.GetClaim(), State: conclavev1.RunState_RUN_STATE_DONE}
		change(q)
		if _, err := lab.FinishRun(testkit.Within(t), q); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	lab.await(t, "a", conclavev1.RunState_RUN_STATE_RUNNING)
}
