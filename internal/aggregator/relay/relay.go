// Package relay passes bundles of finished runs from workers to the students that submitted the runs. It stores
// nothing: a worker sends a chunk when the previous one was taken. It knows no gRPC and does not read bundles; the
// student verifies them.
package relay

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// mostOfOne bounds concurrent fetches of one certificate name. mostOfOffer bounds those from one worker stream,
	// whose worker continues its runs meanwhile.
	mostOfOne   = 2
	mostOfOffer = 4
	// mostOffers bounds the streams that workers of one name offer runs on.
	mostOffers = 256
	// mostLeft bounds the absent workers whose last time is remembered.
	mostLeft = 4096
	// busyFor is when a fetch that found no free place may retry.
	busyFor = 5 * time.Second
)

// Limits bound transfers.
type Limits struct {
	// MostBytes is the largest bundle, MostAtOnce the number of concurrent transfers.
	MostBytes  int64
	MostAtOnce int
	// Patience is how long a fetch waits for the worker's next message, and for the student to read chunks.
	Patience time.Duration
}

// Source names a worker's process: its dataset, the name in its certificate, and its own name.
type Source struct{ Dataset, Holder, Process string }

// Relay tracks which workers offer runs and who fetches them.
type Relay struct {
	Limits
	began time.Time

	mu        sync.Mutex
	offers    []*Offer // in order of arrival
	left      map[Source]time.Time
	transfers map[string]*Transfer
	fetching  map[string]int // by certificate name
	all       int            // sum of fetching
}

// New returns a relay without workers.
func New(l Limits) *Relay {
	return &Relay{Limits: l, began: time.Now(), left: map[Source]time.Time{}, transfers: map[string]*Transfer{},
		fetching: map[string]int{}}
}

// Offer is a stream on which a worker offers runs.
type Offer struct {
	source Source
	wanted chan *conclavev1.WantedRun // has room for all concurrent transfers
	// Guarded by the relay's lock: the number of transfers, and whether the stream ended.
	busy int
	gone bool
}

// Wanted delivers the runs that others want from the worker.
func (o *Offer) Wanted() <-chan *conclavev1.WantedRun { return o.wanted }

// Offer adds a stream of a worker until Withdraw.
func (r *Relay) Offer(s Source) (*Offer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := 0
	for _, o := range r.offers {
		if o.source.Holder == s.Holder {
			held++
		}
	}
	if held >= mostOffers {
		return nil, fault.TooManyf("the workers of student %q have %d streams to hand out runs, the maximum; stop "+
			"some", s.Holder, held)
	}
	o := &Offer{source: s, wanted: make(chan *conclavev1.WantedRun, mostOfOffer)}
	r.offers = append(r.offers, o)
	delete(r.left, s)
	return o, nil
}

// Withdraw removes a worker's stream. Transfers in progress on other streams continue.
func (r *Relay) Withdraw(o *Offer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.gone = true
	for _, t := range r.transfers {
		if t.from == o && !t.taken {
			t.Leave()
		}
	}
	r.offers = slices.DeleteFunc(r.offers, func(other *Offer) bool { return other == o })
	if slices.ContainsFunc(r.offers, func(other *Offer) bool { return other.source == o.source }) {
		return
	}
	if len(r.left) >= mostLeft {
		var oldest Source
		since := time.Now()
		for s, at := range r.left {
			if at.Before(since) {
				oldest, since = s, at
			}
		}
		delete(r.left, oldest)
	}
	r.left[o.source] = time.Now()
}

// Enter counts a peer's fetch until the returned function is called.
func (r *Relay) Enter(by string) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fetching[by] >= mostOfOne:
		return nil, fault.Refusedf("%s is fetching %d runs at the same time, the maximum; wait until one has ended",
			by, mostOfOne)
	case r.all >= r.MostAtOnce:
		return nil, fault.Laterf(busyFor, "%d runs are being fetched at the same time, the maximum "+
			"(fetch.max_at_once); try again in %v", r.all, busyFor)
	}
	r.fetching[by]++
	r.all++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all--
		if r.fetching[by]--; r.fetching[by] == 0 {
			delete(r.fetching, by)
		}
	}, nil
}

// of lists the streams that may have the files of a worker's run: first those of its process, newest first, then
// others of its certificate's name, which may share a volume.
func (r *Relay) of(s Source) (found []*Offer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range slices.Backward(r.offers) {
		if o.source == s {
			found = append(found, o)
		}
	}
	for _, o := range slices.Backward(r.offers) {
		if o.source != s && o.source.Dataset == s.Dataset && o.source.Holder == s.Holder {
			found = append(found, o)
		}
	}
	return found
}

// away is when a worker was last seen by this aggregator, to the minute.
func (r *Relay) away(s Source) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	minute := func(t time.Time) string { return t.UTC().Truncate(time.Minute).Format(time.RFC3339) }
	if at, known := r.left[s]; known {
		return "has been disconnected since " + minute(at)
	}
	return fmt.Sprintf("has not connected since this aggregator became the leader, at %s", minute(r.began))
}
