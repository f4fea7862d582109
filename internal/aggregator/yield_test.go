package aggregator

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A run that waits for teachers that never come keeps its worker until another run needs it. Then it goes to the end
// of the queue, and loses nothing.
func TestARunThatWaitsForAQuorumGivesItsWorkerAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small, func(config *Config) { config.QuorumPatience = time.Second })
	lab, student := c.queue(t, "lab"), c.studentAs(t, "lab")
	lab.cheap(t, "hog")
	w := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"})
	run := w.claimed()
	spec := roundtest.Submission("small", "hog").Spec
	spec.Epsilon = 0.5
	_, err := student.OpenRun(holding(t, run), &conclavev1.OpenRunRequest{Spec: spec})
	testkit.Must(t, err)
	asked := make(chan error, 1)
	go func() {
		_, err := student.ask(holding(t, run), roundtest.VoteRound("hog", 0, 1), nil)
		asked <- err
	}()
	testkit.Must(t, w.stream.Send(&conclavev1.ClaimRunRequest{Message: &conclavev1.ClaimRunRequest_Progress{
		Progress: &conclavev1.RunProgress{Halted: true}}}))
	testkit.Eventually(t, "it to wait for a quorum", func() bool {
		return len(asked) > 0 || c.server.rounds.Halted(t.Context(), "hog")
	})
	lab.cheap(t, "victim")
	if end := w.ended(); end.GetState() != conclavev1.RunState_RUN_STATE_WAITING {
		t.Errorf("the worker hears %v", end)
	}
	if r := lab.show(t, "hog"); r.GetPlace() != 2 || !strings.Contains(r.GetReason(), "for its quorum") ||
		r.GetClosed() {
		t.Errorf("the run that waited for a quorum is %v", r)
	}
	lab.cheap(t, "later")
	w = lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w", Folders: []string{"hog"}})
	for _, want := range []string{"victim", "hog", "later"} {
		run := w.claimed()
		if run.GetName() != want {
			t.Fatalf("the worker has %q, want %q", run.GetName(), want)
		}
		testkit.Must(t, lab.finish(t, run, conclavev1.RunState_RUN_STATE_FAILED, "over"))
		w = lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w", Folders: []string{"hog"}})
	}
	if err := testkit.Receive(t, asked); err == nil {
		t.Error("a round without nodes has a release")
	}
	if record, err := c.server.store.Submission(testkit.Within(t), "hog"); err != nil || record.LossesEver != 0 {
		t.Errorf("what it gave away counts as lost: %+v, %v", record, err)
	}
}
