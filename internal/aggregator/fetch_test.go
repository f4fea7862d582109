package aggregator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// done is a run that lab submitted and another worker finished.
func (c *cluster) done(t testing.TB, dataset, name string) {
	t.Helper()
	c.queue(t, "lab").submit(t, dataset, name)
	hired := c.queue(t, "hired")
	w := hired.worker(t, &conclavev1.Worker{Dataset: dataset, Name: "w.1", Process: "w"})
	testkit.Must(t, hired.finish(t, w.claimed(), conclavev1.RunState_RUN_STATE_DONE, ""))
	w.ended()
}

// offers opens a worker's stream that serves bundles. The returned function ends it.
func (q testQueue) offers(t testing.TB, dataset, process string) (rpc.RunService_OfferRunsClient, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Within(t))
	t.Cleanup(cancel)
	stream, err := q.OfferRuns(ctx, &conclavev1.OfferRunsRequest{Dataset: dataset, Process: process})
	testkit.Must(t, err)
	_, err = stream.Header()
	testkit.Must(t, err)
	return stream, cancel
}

// fetch returns the fetched files of a run.
func (q testQueue) fetch(t testing.TB, name string) ([]byte, error) {
	t.Helper()
	stream, err := q.FetchRun(testkit.Within(t), &conclavev1.FetchRunRequest{Run: name})
	testkit.Must(t, err)
	var came []byte
	size := uint64(0)
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && uint64(len(came)) != size:
			t.Errorf("%d bytes came of %d", len(came), size)
			return came, nil
		case errors.Is(err, io.EOF):
			return came, nil
		case err != nil:
			return nil, err
		case m.GetSize() != nil:
			size = m.GetSize().GetBytes()
		}
		came = append(came, m.GetChunk()...)
	}
}

func sized(fetch string, bytes int) *conclavev1.SendRunRequest {
	return &conclavev1.SendRunRequest{Fetch: fetch, Message: &conclavev1.SendRunRequest_Size{
		Size: &conclavev1.BundleSize{Bytes: uint64(bytes)}}}
}

func chunkOf(raw []byte) *conclavev1.SendRunRequest {
	return &conclavev1.SendRunRequest{Message: &conclavev1.SendRunRequest_Chunk{Chunk: raw}}
}

// hand answers the next request with a bundle, in chunks of this size, each when it is requested.
func (q testQueue) hand(t testing.TB, offers rpc.RunService_OfferRunsClient, bundle []byte, chunk int) {
	t.Helper()
	m, err := offers.Recv()
	testkit.Must(t, err)
	stream, err := q.SendRun(testkit.Within(t))
	testkit.Must(t, err)
	mustSend(t, stream, sized(m.GetWanted().GetFetch(), len(bundle)))
	for len(bundle) > 0 {
		_, err := stream.Recv()
		testkit.Must(t, err)
		n := min(chunk, len(bundle))
		mustSend(t, stream, chunkOf(bundle[:n]))
		bundle = bundle[n:]
	}
	testkit.Must(t, stream.CloseSend())
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the worker's stream ended with %v", err)
	}
}

// A finished run comes from its worker to its submitter. While the worker is away, the submitter is told where it is.
func TestABundleComesFromItsWorker(t *testing.T) {
	t.Parallel()
	path, watched := observed(t)
	c := newCluster(t, Options{}, watched)
	d := c.dataset()
	lab, hired := c.queue(t, "lab"), c.queue(t, "hired")
	c.done(t, d, "a")
	lab.submit(t, d, "waits")
	_, err := lab.fetch(t, "waits")
	roundtest.WantStatus(t, err, codes.FailedPrecondition, `"waits" is waiting`, "after it is done")
	_, err = lab.fetch(t, "a")
	roundtest.WantStatus(t, err, codes.FailedPrecondition, `worker "w.1" of student "hired" has the files of run "a"`,
		"has not connected since this aggregator became the leader, at 20")
	bundle := bytes.Repeat([]byte("bundle "), 200_000)
	other, leaveToo := hired.offers(t, d, "another")
	own, leave := hired.offers(t, d, "w")
	for _, chunk := range []int{256 << 10, 100_000} {
		over := make(chan struct{})
		go func() {
			defer close(over)
			if came, err := lab.fetch(t, "a"); err != nil || !bytes.Equal(came, bundle) {
				t.Errorf("%d bytes came, %v", len(came), err)
			}
		}()
		hired.hand(t, own, bundle, chunk)
		testkit.Receive(t, over)
	}
	leave()
	// Another process with the same name may share the volume.
	over := make(chan error, 1)
	go func() { _, err := lab.fetch(t, "a"); over <- err }()
	m, err := other.Recv()
	testkit.Must(t, err)
	stream, err := hired.SendRun(testkit.Within(t))
	testkit.Must(t, err)
	mustSend(t, stream, &conclavev1.SendRunRequest{Fetch: m.GetWanted().GetFetch(),
		Message: &conclavev1.SendRunRequest_Nothing{Nothing: "its folder is\x1b[2K gone"}})
	roundtest.WantStatus(t, testkit.Receive(t, over), codes.FailedPrecondition, `from worker "w.1"`,
		"its folder is[2K gone")
	leaveToo()
	testkit.Eventually(t, "both to be away", func() bool {
		_, err := lab.fetch(t, "a")
		return strings.Contains(status.Convert(err).Message(), "and has been disconnected since 20")
	})
	fetched := 0
	for _, e := range auditEntries(t, path) {
		if e.Event == auditlog.RunFetched && e.Run == "a" && e.Peer == "student/lab" &&
			strings.Contains(e.Reason, "1400000 bytes of worker w.1") {
			fetched++
		}
	}
	if fetched != 2 {
		t.Errorf("the audit log has %d lines of runs that were fetched", fetched)
	}
}

// submit reports how many of the teachers that a run needs are connected now.
func TestSubmitTellsOfTheQuorum(t *testing.T) {
	c := shared(t)
	d := c.dataset()
	lab := c.queue(t, "lab")
	if q := lab.submit(t, d, d+"-none").GetQuorum(); q.GetTeachersNeeded() != 4 || q.GetTeachersLive() != 0 {
		t.Errorf("without nodes: %v", q)
	}
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	if q := lab.submit(t, d, d+"-one").GetQuorum(); q.GetTeachersNeeded() != 4 || q.GetTeachersLive() != 8 {
		t.Errorf("with a node: %v", q)
	}
}

func TestFetchLimitsAreChecked(t *testing.T) {
	for want, c := range map[string]FetchConfig{
		"fetch.max_bytes":   {MaxAtOnce: 1, Patience: time.Minute},
		"fetch.max_at_once": {MaxBytes: 1, Patience: time.Minute},
		"fetch.patience":    {MaxBytes: 1, MaxAtOnce: 1},
	} {
		err := c.validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
