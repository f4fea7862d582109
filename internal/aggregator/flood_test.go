package aggregator

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// mostCalls exceeds the burst of run-changing calls that a student may make; see package transport.
const mostCalls = 5000

// floods repeats calls until the aggregator says that there were too many, or mostCalls times. It returns the number
// of calls and the last error.
func floods(call func() error) (calls int, err error) {
	for calls < mostCalls {
		calls++
		if err = call(); status.Code(err) == codes.ResourceExhausted {
			return calls, err
		}
	}
	return calls, err
}

// Endless submissions and removals, and endless refused calls, fill neither etcd nor the audit log. The log has a
// line for each action, and counts omitted lines. Other peers are not delayed.
func TestFloodsOfCallsAreBounded(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	c := newCluster(t, Options{}, small, change)
	eve, lab := c.queue(t, "eve"), c.queue(t, "lab")
	submit := roundtest.Submission("small", "loop")
	submit.Overcommit = true
	done := 0
	for range 20 {
		_, err := eve.SubmitRun(testkit.Within(t), submit)
		testkit.Must(t, err)
		_, err = eve.CancelRun(testkit.Within(t), &conclavev1.CancelRunRequest{Run: "loop"})
		testkit.Must(t, err)
		_, err = eve.RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "loop"})
		testkit.Must(t, err)
		done++
	}
	refused, err := floods(func() error {
		_, err := eve.RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "loop"})
		return err
	})
	roundtest.WantStatus(t, err, codes.ResourceExhausted, `student "eve" made too many calls`, "try again in")
	if dial.Again(err) <= 0 {
		t.Errorf("%v does not say when to try again", err)
	}
	lab.submit(t, "small", "other")

	count := func() (lines, submitted, removed int, left uint64) {
		for _, e := range auditEntries(t, path) {
			switch e.Event {
			case auditlog.Refused:
				lines++
			case auditlog.LeftOut:
				left += e.Suppressed
			case auditlog.RunSubmitted:
				submitted++
			case auditlog.RunRemoved:
				removed++
			}
		}
		return lines, submitted, removed, left
	}
	const few = 400
	if lines, submitted, removed, _ := count(); lines > few || submitted != done+1 || removed != done {
		t.Errorf("%d refusals, %d submitted and %d removed runs have a line, of %d, %d and %d", lines, submitted,
			removed, refused, done+1, done)
	}
	if n := scrape(t, c.server.MonitorAddr().String())[`conclave_auditlog_left_out_total{reason="refusal"}`]; int(n) <
		refused-few {
		t.Errorf("%v lines are said to be left out, of %d", n, refused)
	}
	testkit.Must(t, c.stop())
	if lines, _, _, left := count(); lines+int(left) != refused {
		t.Errorf("%d refusals have a line, and %d are said to have none, of %d", lines, left, refused)
	}
}

// A student that repeatedly asks for a released round is finally told to wait.
func TestRepeatedRoundsAreBounded(t *testing.T) {
	t.Parallel()
	const burst = 100
	c := newCluster(t, Options{repeats: burst}, func(config *Config) { config.HTTP.Listen = "127.0.0.1:0" })
	d := c.dataset()
	lab := c.student(t)
	run, _ := lab.open(t, d, nil)
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	round := roundtest.VoteRound(run.Name, 0, 5)
	_, err := lab.ask(testkit.Within(t), round, nil)
	testkit.Must(t, err)
	const mostRepeats = 20_000 // a slow machine repeats no faster than it may, for a while
	repeated := 0
	for err == nil && repeated < mostRepeats {
		if _, err = lab.ask(testkit.Within(t), round, nil); err == nil {
			repeated++
		}
	}
	roundtest.WantStatus(t, err, codes.ResourceExhausted, `student "student" asked for too many released rounds`,
		"try again in")
	if repeated < burst {
		t.Errorf("%d rounds are repeated, and %d may be", repeated, burst)
	}
	if dial.Again(err) <= 0 {
		t.Errorf("%v does not say when to try again", err)
	}
	if n := scrape(t, c.server.MonitorAddr().String())["conclave_rounds_repeated_total"]; int(n) != repeated {
		t.Errorf("%v rounds are said to be repeated, of %d", n, repeated)
	}
}

// A worker that repeatedly takes and returns a run is finally told to wait; a worker that resumes its run is not.
func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, small)
	lab := c.queue(t, "lab")
	lab.submit(t, "small", "a")
	held := lab.worker(t, &conclavev1.Worker{Dataset: "small", Name: "w"}).claimed()
	claim := func(w *conclavev1.Worker) error {
		ctx, leave := context.WithCancel(testkit.Within(t))
		defer leave()
		stream, err := lab.ClaimRun(ctx)
		testkit.Must(t, err)
		first := &conclavev1.ClaimRunRequest{Message: &conclavev1.ClaimRunRequest_Worker{Worker: w}}
		testkit.Must(t, stream.Send(first))
		testkit.Must(t, stream.CloseSend())
		for {
			if _, err := stream.Recv(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	_, err := floods(func() error { return claim(&conclavev1.Worker{Dataset: "small", Name: "idle"}) })
	roundtest.WantStatus(t, err, codes.ResourceExhausted, `student "lab" asked for too many runs`, "try again in")
	testkit.Must(t, claim(&conclavev1.Worker{Dataset: "small", Name: "w", Run: held.GetName(), Claim: held.GetClaim()}))
}
