package attacks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// finished is a run of lab that eve's worker reports as done.
type finished struct {
	w       *world
	name    string
	lab     rpc.RunServiceClient
	eve     rpc.RunServiceClient
	offers  rpc.RunService_OfferRunsClient
	dataset string
}

func (w *world) runs(t testing.TB, name string) rpc.RunServiceClient {
	t.Helper()
	return rpc.NewRunServiceClient(w.dial(t, certs.RoleStudent, name))
}

func (w *world) finished(t testing.TB) *finished {
	t.Helper()
	f := &finished{w: w, dataset: w.dataset(false), lab: w.runs(t, "lab"), eve: w.runs(t, "eve")}
	f.name = "done-" + f.dataset
	f.finish(t, f.name)
	var err error
	f.offers, err = f.eve.OfferRuns(testkit.Within(t), &conclavev1.OfferRunsRequest{Dataset: f.dataset, Process: "w"})
	testkit.Must(t, err)
	_, err = f.offers.Header()
	testkit.Must(t, err)
	return f
}

func (f *finished) finish(t testing.TB, name string) {
	t.Helper()
	spec := specOf(f.dataset)
	spec.Name, spec.Epsilon = name, 1
	_, err := f.lab.SubmitRun(testkit.Within(t), &conclavev1.SubmitRunRequest{Spec: spec,
		RunYaml: []byte("name: " + name), SchemaYaml: []byte("test")})
	testkit.Must(t, err)
	claim, err := f.eve.ClaimRun(testkit.Within(t))
	testkit.Must(t, err)
	testkit.Must(t, claim.Send(&conclavev1.ClaimRunRequest{Message: &conclavev1.ClaimRunRequest_Worker{
		Worker: &conclavev1.Worker{Dataset: f.dataset, Name: "w", Process: "w"}}}))
	m, err := claim.Recv()
	testkit.Must(t, err)
	_, err = f.eve.FinishRun(testkit.Within(t), &conclavev1.FinishRunRequest{Run: name,
		Claim: m.GetClaimed().GetClaim(), State: conclavev1.RunState_RUN_STATE_DONE})
	testkit.Must(t, err)
}

// asks makes a student fetch the run, and returns what the worker is told, and a channel for the fetch's end.
func (f *finished) asks(t testing.TB) (fetch string, over chan error) {
	t.Helper()
	over = make(chan error, 1)
	stream, err := f.lab.FetchRun(testkit.Within(t), &conclavev1.FetchRunRequest{Run: f.name})
	testkit.Must(t, err)
	go func() {
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		over <- err
	}()
	m, err := f.offers.Recv()
	testkit.Must(t, err)
	return m.GetWanted().GetFetch(), over
}

func size(fetch string, bytes uint64) *conclavev1.SendRunRequest {
	return &conclavev1.SendRunRequest{Fetch: fetch, Message: &conclavev1.SendRunRequest_Size{
		Size: &conclavev1.BundleSize{Bytes: bytes}}}
}

func chunk(bytes int) *conclavev1.SendRunRequest {
	return &conclavev1.SendRunRequest{Message: &conclavev1.SendRunRequest_Chunk{Chunk: make([]byte, bytes)}}
}

// For all except its submitter the run does not exist, not even for its worker.
func TestOthersFetchNothing(t *testing.T) {
	w := attacked(t)
	f := w.finished(t)
	if err := authority.Issue(w.certs, certs.RoleOperator, "desk", nil, time.Hour); err != nil && !errors.Is(err,
		certs.ErrExists) {
		t.Fatal(err)
	}
	ask := func(c rpc.RunServiceClient, run string) *status.Status {
		stream, err := c.FetchRun(testkit.Within(t), &conclavev1.FetchRunRequest{Run: run})
		testkit.Must(t, err)
		_, err = stream.Recv()
		return status.Convert(err)
	}
	there, none := ask(f.eve, f.name), ask(f.eve, "none-"+f.name)
	if there.Code() != codes.NotFound || none.Code() != codes.NotFound ||
		strings.ReplaceAll(none.Message(), "none-", "") != there.Message() {
		t.Errorf("the worker is told %q, and of a run that there is not %q", there.Message(), none.Message())
	}
	if s := ask(rpc.NewRunServiceClient(w.dial(t, certs.RoleOperator, "desk")), f.name); s.Code() !=
		codes.PermissionDenied {
		t.Errorf("an operator is told %v", s)
	}
	// Nobody else can send in the worker's place.
	fetch, over := f.asks(t)
	for _, one := range []struct {
		by    rpc.RunServiceClient
		fetch string
	}{{f.lab, fetch}, {f.eve, "guessed"}, {f.eve, ""}} {
		stream, err := one.by.SendRun(testkit.Within(t))
		testkit.Must(t, err)
		testkit.Must(t, stream.Send(size(one.fetch, 1)))
		if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("fetch %q of another: %v", one.fetch, err)
		}
	}
	stream, err := f.eve.SendRun(testkit.Within(t))
	testkit.Must(t, err)
	testkit.Must(t, stream.Send(&conclavev1.SendRunRequest{Fetch: fetch, Message: &conclavev1.SendRunRequest_Nothing{
		Nothing: "it is gone"}}))
	if err := testkit.Receive(t, over); !strings.Contains(err.Error(), "it is gone") {
		t.Errorf("the worker itself: %v", err)
	}
}

// Anything that a worker sends besides a bundle of the announced size ends the fetch, with a reason.
func TestWorkersThatSendOtherThings(t *testing.T) {
	f := attacked(t).finished(t)
	for name, c := range map[string]struct {
		send []*conclavev1.SendRunRequest
		want string
	}{
		"more than may be":   {[]*conclavev1.SendRunRequest{size("", 8<<20+1)}, "the maximum is 8388608"},
		"more than a number": {[]*conclavev1.SendRunRequest{size("", 1<<63+1)}, "the maximum is 8388608"},
		"no size": {[]*conclavev1.SendRunRequest{{Message: chunk(1).Message}}, "neither a bundle nor a " +
			"reason"},
		"more than it said":    {[]*conclavev1.SendRunRequest{size("", 10), chunk(11)}, "did not send the 10 bytes"},
		"chunks that are long": {[]*conclavev1.SendRunRequest{size("", 1<<20), chunk(256<<10 + 1)}, "did not send the"},
		"empty chunks":         {[]*conclavev1.SendRunRequest{size("", 10), chunk(0)}, "did not send the"},
		"a size again":         {[]*conclavev1.SendRunRequest{size("", 10), size("", 10)}, "did not send the"},
		"half of it":           {[]*conclavev1.SendRunRequest{size("", 10), chunk(5)}, "stopped after 5 bytes"},
		"a reason of lines": {[]*conclavev1.SendRunRequest{{Message: &conclavev1.SendRunRequest_Nothing{
			Nothing: "a\nb" + strings.Repeat("x", 1<<20)}}}, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			fetch, over := f.asks(t)
			stream, err := f.eve.SendRun(testkit.Within(t))
			testkit.Must(t, err)
			c.send[0].Fetch = fetch
			for _, m := range c.send {
				if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			testkit.Must(t, stream.CloseSend())
			err = testkit.Receive(t, over)
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), c.want) ||
				len(err.Error()) > 2048 {
				t.Errorf("%.300v, want %q", err, c.want)
			}
		})
	}
	f.w.healthy(t)
}

// A worker that sends without being asked is blocked, and its waiting data is bounded. A recipient that reads nothing
// is disconnected, and makes room for others.
func TestFetchesThatNobodyReads(t *testing.T) {
	w := apart(t, func(c *aggregator.Config) { c.Fetch.Patience = time.Second })
	f := w.finished(t)
	idle, _ := settled()
	for i := range 3 { // one more than may be under way
		reader := w.dial(t, certs.RoleStudent, "lab")
		ctx, cancel := context.WithCancel(testkit.Within(t))
		defer cancel()
		unread, err := rpc.NewRunServiceClient(reader).FetchRun(ctx, &conclavev1.FetchRunRequest{Run: f.name})
		testkit.Must(t, err)
		m, err := f.offers.Recv()
		testkit.Must(t, err)
		sending, stop := context.WithCancel(testkit.Within(t))
		stream, err := f.eve.SendRun(sending)
		testkit.Must(t, err)
		testkit.Must(t, stream.Send(size(m.GetWanted().GetFetch(), 8<<20)))
		go func() {
			for range 32 {
				if stream.Send(chunk(256<<10)) != nil {
					return
				}
			}
		}()
		asked := 0
		for { // until the aggregator disconnects the reader
			if _, err := stream.Recv(); err != nil {
				break
			}
			asked++
		}
		stop()
		if asked > 6 {
			t.Errorf("fetch %d: %d chunks were asked for, and nobody reads", i, asked)
		}
		var last error
		for last == nil { // data in flight still arrives
			_, last = unread.Recv()
		}
		if !slices.Contains([]codes.Code{codes.Unavailable, codes.FailedPrecondition}, status.Code(last)) {
			t.Errorf("who reads nothing is told %v", last)
		}
	}
	testkit.Eventually(t, "what was sent is let go of", func() bool { // gRPC ends a broken stream in its own time
		now, _ := settled()
		return now-idle < 3<<20
	})
	w.healthy(t)
}

// A certificate fetches two runs at a time, and a number in a row; after that the rate is limited.
func TestManyFetches(t *testing.T) {
	w := apart(t)
	f := w.finished(t)
	first, one := f.asks(t)
	second, two := f.asks(t)
	if err := fetchOnce(t, f.lab, f.name); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "2 runs at the same time") {
		t.Errorf("a third fetch: %v", err)
	}
	for fetch, over := range map[string]chan error{first: one, second: two} {
		stream, err := f.eve.SendRun(testkit.Within(t))
		testkit.Must(t, err)
		testkit.Must(t, stream.Send(&conclavev1.SendRunRequest{Fetch: fetch,
			Message: &conclavev1.SendRunRequest_Nothing{Nothing: "gone"}}))
		if err := testkit.Receive(t, over); status.Code(err) != codes.FailedPrecondition {
			t.Error(err)
		}
	}
	for i := range 100 {
		err := fetchOnce(t, f.lab, fmt.Sprint("none-", i))
		if status.Code(err) == codes.ResourceExhausted {
			if i < 20 || !strings.Contains(err.Error(), "fetched too many runs") {
				t.Errorf("fetch %d: %v", i, err)
			}
			return
		}
	}
	t.Error("a hundred fetches in a row are let through")
}

func fetchOnce(t testing.TB, c rpc.RunServiceClient, run string) error {
	t.Helper()
	stream, err := c.FetchRun(testkit.Within(t), &conclavev1.FetchRunRequest{Run: run})
	testkit.Must(t, err)
	_, err = stream.Recv()
	return err
}
