package relay

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// MaxChunk bounds a chunk in bytes. Chunks that a worker sends ahead fit its stream's window: a message stuck
	// half sent would end the worker's connection, and with it its runs.
	MaxChunk = 256 << 10
	ahead    = 2
	// Room is the memory that a fetch may take, in bytes: chunks on both sides, and the one in transit.
	Room = (2*ahead + 1) * MaxChunk
	// slowest is the minimum rate in bytes per second, measured over each patience: 1 Mbit/s.
	slowest = 128 << 10
	// mostTried bounds how many worker streams are asked for one run.
	mostTried = 4
)

// Transfer is a bundle in transit.
type Transfer struct {
	Bytes int64 // of the bundle

	id, run string
	mark    time.Time // start of the current patience
	marked  int64     // the value of got then
	from    *Offer
	relay   *Relay
	got     int64
	in      chan *conclavev1.SendRunRequest
	more    chan struct{}
	taken   bool // a worker stream took it; guarded by the relay's lock
	over    chan struct{}
	left    chan struct{}
	once    sync.Once
}

// Open asks the workers that may have a run's files for its bundle, one after the other, and waits for its size. The
// caller closes the transfer.
func (r *Relay) Open(ctx context.Context, s coordinator.Submission) (*Transfer, error) {
	source := Source{s.Dataset, s.Holder, s.Process}
	var problems []string
	busy := false
	for i, o := range r.of(source) {
		if i == mostTried {
			break
		}
		t, full := r.want(o, s.Name)
		busy = busy || full
		if t == nil {
			continue
		}
		problem, err := t.begin(ctx)
		if err == nil && problem == "" {
			return t, nil
		}
		t.Close()
		if err != nil {
			return nil, err
		}
		problems = append(problems, problem)
	}
	switch {
	case busy:
		return nil, fault.Laterf(busyFor, "worker %q is sending %d runs at the same time, the maximum; try again in "+
			"%v", s.Worker, mostOfOffer, busyFor)
	case len(problems) > 0:
		return nil, fault.Refusedf("run %q cannot be fetched from worker %q of student %q: %s", s.Name, s.Worker,
			s.Holder, strings.Join(problems, "; "))
	}
	return nil, fault.Refusedf("worker %q of student %q has the files of run %q, and %s; try again when the worker "+
		"is connected (earlier versions do not send files)", s.Worker, s.Holder, s.Name, r.away(source))
}

// want asks a worker's stream for a run. It returns nil if the stream is gone or full.
func (r *Relay) want(o *Offer, run string) (t *Transfer, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.gone || o.busy >= mostOfOffer {
		return nil, !o.gone
	}
	t = &Transfer{id: rand.Text(), run: run, from: o, relay: r, in: make(chan *conclavev1.SendRunRequest),
		more: make(chan struct{}, ahead), over: make(chan struct{}), left: make(chan struct{})}
	select {
	case o.wanted <- &conclavev1.WantedRun{Run: run, Fetch: t.id}:
	default: // the worker does not read requests
		return nil, true
	}
	o.busy++
	r.transfers[t.id] = t
	return t, false
}

// begin waits for the size of the bundle. problem is why the worker does not have it.
func (t *Transfer) begin(ctx context.Context) (problem string, err error) {
	m, err := t.receive(ctx)
	most := t.relay.MostBytes
	switch {
	case err != nil && ctx.Err() == nil:
		return err.Error(), nil
	case err != nil:
		return "", err
	case m.GetNothing() != "":
		return fault.Printable(m.GetNothing()), nil
	case m.GetSize() == nil:
		return "the worker sent neither a bundle nor a reason", nil
	case m.GetSize().GetBytes() > uint64(most):
		return "", fault.Refusedf("the bundle of run %q has %d bytes; the maximum is %d (fetch.max_bytes of the "+
			"aggregator); copy the run's folder from its worker, or have the operator raise it",
			t.run, m.GetSize().GetBytes(), most)
	}
	t.Bytes = int64(m.GetSize().GetBytes())
	t.mark = time.Now()
	for range ahead {
		t.more <- struct{}{}
	}
	return "", nil
}

// Next waits for the next chunk; io.EOF ends the bundle. It fails if the worker breaks off or sends something
// invalid, or if the recipient is too slow for a place.
func (t *Transfer) Next(ctx context.Context) ([]byte, error) {
	if t.got == t.Bytes {
		return nil, io.EOF
	}
	if took := time.Since(t.mark); took > t.relay.Patience {
		if n := t.got - t.marked; n < int64(slowest*took.Seconds()) {
			return nil, fault.Refusedf("only %d bytes of run %q were transferred in %v, less than 1 Mbit/s; fetch it "+
				"again over a faster connection", n, t.run, took.Round(time.Second))
		}
		t.mark, t.marked = time.Now(), t.got
	}
	m, err := t.receive(ctx)
	if err != nil {
		return nil, err
	}
	chunk := m.GetChunk()
	t.got += int64(len(chunk))
	if len(chunk) == 0 || len(chunk) > MaxChunk || t.got > t.Bytes {
		return nil, fault.Refusedf("the worker did not send the %d bytes of run %q that it announced; read its "+
			"log", t.Bytes, t.run)
	}
	return chunk, nil
}

// Passed reports that the last chunk was delivered: the worker may send another one.
func (t *Transfer) Passed() {
	select {
	case t.more <- struct{}{}:
	default: // it sends without being asked
	}
}

func (t *Transfer) receive(ctx context.Context) (*conclavev1.SendRunRequest, error) {
	patience := time.NewTimer(t.relay.Patience)
	defer patience.Stop()
	select {
	case m := <-t.in:
		return m, nil
	case <-t.left:
		return nil, fault.Refusedf("the worker stopped after %d bytes of run %q; fetch it again", t.got, t.run)
	case <-patience.C:
		return nil, fault.Refusedf("the worker sent nothing more of run %q within %v, after %d bytes; fetch it again",
			t.run, t.relay.Patience, t.got)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends the transfer, for its worker too.
func (t *Transfer) Close() {
	t.relay.mu.Lock()
	defer t.relay.mu.Unlock()
	delete(t.relay.transfers, t.id)
	t.from.busy--
	close(t.over)
}

// Take is called by the asked worker's stream, which sends what arrives to In, and calls Leave when it ends.
func (r *Relay) Take(id, holder string) (*Transfer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.transfers[id]
	if t == nil || t.taken || t.from.source.Holder != holder {
		return nil, fault.Refusedf("no caller waits for files from student %q (fetch %s)", holder, fault.Word(id))
	}
	t.taken = true
	return t, nil
}

// In takes the worker's messages.
func (t *Transfer) In() chan<- *conclavev1.SendRunRequest { return t.in }

// More has a value for each chunk that the worker may send.
func (t *Transfer) More() <-chan struct{} { return t.more }

// Over is closed when nobody waits for the bundle.
func (t *Transfer) Over() <-chan struct{} { return t.over }

// Leave reports that the worker's stream ended.
func (t *Transfer) Leave() { t.once.Do(func() { close(t.left) }) }
