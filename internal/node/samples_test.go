package node

import (
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// An aggregator that makes many attempts learns the sizes of their samples from the timing, and could open the one
// that it likes. So there is one sample until an opening is charged, whatever the round, question or spec, and then a
// new one.
func TestASampleIsDrawnOnceForAnOpening(t *testing.T) {
	h := newHostile(t, 2, 1, "east", "north")
	const at = "north"
	spec := func(purpose string) *conclavev1.RoundTerms {
		return h.spec(func(s *conclavev1.RunSpec) {
			s.Purpose, s.Pipeline = purpose, "dpgan"
			s.Plan = []*conclavev1.Planned{{Kind: "discriminator", Count: 40, Mechanism: &conclavev1.PrivacyEvent{
				Kind: "subsampled-gaussian", NoiseMultiplier: 20, Rate: 0.5}}}
		})
	}
	var samples [][]int
	site := h.nodes[at].site
	draw := site.Sample
	site.Sample = func(r gnmax.Rate) ([]int, error) {
		sample, err := draw(r)
		samples = append(samples, sample)
		return sample, err
	}
	number := uint64(0)
	attempts := func() []int {
		t.Helper()
		for _, purpose := range []string{"one", "another", "one"} {
			h.terms = spec(purpose)
			h.keys = h.keysUnder(h.terms)
			for range 3 {
				number++
				h.answers(discriminatorRound("r", number, nil), h.attempt(h.keys...), h.sites...)
			}
		}
		for _, s := range samples {
			if !slices.Equal(s, samples[0]) {
				t.Fatalf("%d samples that nobody was charged for, not all of them one: %v", len(samples), samples)
			}
		}
		return samples[0]
	}
	first := attempts()
	h.refused("an opening without tags", h.agreement(at, "r", number), "has not agreed")
	if !slices.Equal(attempts(), first) {
		t.Error("another sample, and nothing was charged")
	}
	if h.opens(number, h.sites...).GetRevealed() == nil || h.charges(at) != 1 {
		t.Fatalf("charged %d times", h.charges(at))
	}
	// 40 units at one half each are the same by chance once in 2^40.
	h.answers(discriminatorRound("r", number, nil), h.attempt(h.keys...), h.sites...)
	if next := samples[len(samples)-1]; slices.Equal(next, first) {
		t.Error("a sample that was opened is used again")
	}
}
