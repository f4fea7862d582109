package relay

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

var source = Source{Dataset: "d", Holder: "hired", Process: "w"}

func submission() coordinator.Submission {
	return coordinator.Submission{Name: "a", Dataset: "d",
		Progress: coordinator.Progress{Worker: "w.1", Holder: "hired", Process: "w"}}
}

func relay() *Relay {
	return New(Limits{MostBytes: 100, MostAtOnce: 3, Patience: 10 * time.Millisecond})
}

func refused(t *testing.T, err error, code codes.Code, want string) {
	t.Helper()
	if err == nil || fault.Code(err) != code || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %v with %q", err, code, want)
	}
}

// One name has two places and all names together three. Places are freed again.
func TestFetchesHavePlaces(t *testing.T) {
	r := relay()
	leave := testkit.Value(r.Enter("a"))
	testkit.Value(r.Enter("a"))
	_, err := r.Enter("a")
	refused(t, err, codes.FailedPrecondition, "2 runs at the same time")
	testkit.Value(r.Enter("b"))
	_, err = r.Enter("c")
	refused(t, err, codes.ResourceExhausted, "fetch.max_at_once")
	leave()
	testkit.Value(r.Enter("a"))
}

// A worker that does not read requests delays nobody, and is full once enough requests wait for it. A fetch learns at
// once when the worker's stream ends.
func TestAWorkerThatDoesNotRead(t *testing.T) {
	r := relay()
	o := testkit.Value(r.Offer(source))
	for range mostOfOffer {
		_, err := r.Open(t.Context(), submission())
		refused(t, err, codes.FailedPrecondition, "sent nothing more")
	}
	_, err := r.Open(t.Context(), submission())
	refused(t, err, codes.ResourceExhausted, "try again")
	r.Withdraw(o)
	_, err = r.Open(t.Context(), submission())
	refused(t, err, codes.FailedPrecondition, "has been disconnected since "+time.Now().UTC().Format("2006-01-02T"))
	r.Patience = time.Hour
	o = testkit.Value(r.Offer(source))
	asked := make(chan error, 1)
	go func() { _, err := r.Open(t.Context(), submission()); asked <- err }()
	testkit.Receive(t, o.Wanted())
	r.Withdraw(o)
	refused(t, testkit.Receive(t, asked), codes.FailedPrecondition, "stopped after 0 bytes")
	testkit.Value(r.Offer(source))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Open(ctx, submission())
	refused(t, err, codes.Canceled, "canceled")
	if len(r.transfers) != 0 {
		t.Errorf("%d transfers are left", len(r.transfers))
	}
}

// A recipient that reads below the minimum rate frees the worker's place after the patience, not after the whole
// bundle.
func TestASlowReaderHoldsAPlaceForAShortWhile(t *testing.T) {
	const bundle = 64 * MaxChunk // two minutes at the minimum rate
	for _, c := range []struct {
		fast        int // chunks before each one takes the pause
		pause, most time.Duration
		want        string
	}{
		{0, 1900 * time.Millisecond, 3 * time.Minute, ""},
		{0, 20 * time.Second, 90 * time.Second, "less than 1 Mbit/s"},
		{40, 20 * time.Second, 4 * time.Minute, "less than 1 Mbit/s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Limits{MostBytes: bundle, MostAtOnce: 1, Patience: time.Minute})
			o := testkit.Value(r.Offer(source))
			go func() {
				w := testkit.Value(r.Take((<-o.Wanted()).GetFetch(), source.Holder))
				w.In() <- &conclavev1.SendRunRequest{Message: &conclavev1.SendRunRequest_Size{
					Size: &conclavev1.BundleSize{Bytes: bundle}}}
				chunk := &conclavev1.SendRunRequest{Message: &conclavev1.SendRunRequest_Chunk{
					Chunk: make([]byte, MaxChunk)}}
				for {
					select {
					case <-w.More():
					case <-w.Over():
						return
					}
					select {
					case w.In() <- chunk:
					case <-w.Over():
						return
					}
				}
			}()
			x := testkit.Value(r.Open(t.Context(), submission()))
			defer x.Close()
			began := time.Now()
			var err error
			for err == nil {
				if _, err = x.Next(t.Context()); err == nil {
					if x.got > int64(c.fast)*MaxChunk {
						time.Sleep(c.pause)
					}
					x.Passed()
				}
			}
			took := time.Since(began)
			if c.want == "" && (err != io.EOF || x.got != bundle) || !strings.Contains(err.Error(), c.want) ||
				took > c.most {
				t.Errorf("%+v: %v after %v", c, err, took)
			}
		})
	}
}

// The names and streams that workers invent are bounded.
func TestWorkersAreBounded(t *testing.T) {
	r := relay()
	var offers []*Offer
	for i := range mostOffers {
		offers = append(offers, testkit.Value(r.Offer(Source{"d", "hired", fmt.Sprint(i)})))
	}
	_, err := r.Offer(source)
	refused(t, err, codes.ResourceExhausted, "256 streams")
	testkit.Value(r.Offer(Source{"d", "another", "w"}))
	for _, o := range offers {
		r.Withdraw(o)
	}
	for i := range mostLeft + 100 {
		r.Withdraw(testkit.Value(r.Offer(Source{"d", "hired", fmt.Sprint("again-", i)})))
	}
	if len(r.left) != mostLeft || len(r.offers) != 1 {
		t.Errorf("%d are remembered, and %d connected", len(r.left), len(r.offers))
	}
}
