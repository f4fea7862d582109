package masking

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Masks are the same however many processors make them, and whatever the length of a vector.
func TestMasksAreTheSameOnAllProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	masks := []mask{{seed: [seedBytes]byte(fixed("a"))}, {[seedBytes]byte(fixed("b")), true}}
	for _, entries := range []int{1, 2, maskChunk - 1, maskChunk + 1, 2*leastPart - 1, 2 * leastPart, 2*leastPart + 1,
		3*leastPart + 5, 7*leastPart + maskChunk} {
		want := slices.Repeat([]int64{-7}, entries)
		for _, m := range masks {
			addMask(want, m.seed, m.subtract)
		}
		for _, processors := range []int{1, 2, 3, 8} {
			runtime.GOMAXPROCS(processors)
			got := slices.Repeat([]int64{-7}, entries)
			if addMasks(got, masks); !slices.Equal(got, want) {
				t.Errorf("%d entries on %d processors are others", entries, processors)
			}
		}
	}
}

// While an answer is made, its party answers other requests. The answer is made once for all that ask, and is neither
// agreed to nor opened before it exists.
func TestAPartyDoesNotWaitForItsMasks(t *testing.T) {
	const entries = 1 << 18
	r := newRun(t, 2, 2, 0)
	p := r.parties[0]
	terms := r.terms(0, entries, 0, 1)
	a := testkit.Value(p.Begin(terms, free))
	testkit.Must(t, a.claim(entries)) // as Mask does first
	_, err := p.Agree("r", 0, sites(0, 1))
	wants(t, "an answer that is being made", "is not the one", err)
	_, err = p.Reveal("r", 0, nil)
	wants(t, "an answer that is being made", "is not the one", err)
	_, err = a.Mask(make([]int64, entries))
	wants(t, "the answer again", "already answered", err)
	if _, err := p.Key("q", r.spec, r.group); err != nil || !p.Takes("r") {
		t.Errorf("a key of another run: %v", err)
	}
	p.Over("q")
	testkit.Value(p.Begin(r.terms(1, 4, 0, 1), free)) // the next attempt

	b := testkit.Value(p.Begin(r.terms(2, entries, 0, 1), free))
	var made sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		made.Go(func() {
			_, err := b.Mask(make([]int64, entries))
			errs <- err
		})
	}
	made.Wait()
	close(errs)
	good := 0
	for err := range errs {
		if err == nil {
			good++
		}
	}
	if good != 1 {
		t.Errorf("%d answers to one attempt", good)
	}
}
