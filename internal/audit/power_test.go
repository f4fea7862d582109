package audit

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// simulated makes the trials of a case without a cluster: the mechanism with a
// share of the noise it is charged for, on the votes of both worlds.
func (s *scenario) simulated(t *testing.T, src *gnmax.Source, runs int, share float64) (trials [2][]float64) {
	t.Helper()
	if s.masked != nil {
		return s.simulatedColluders(t, src, runs, share)
	}
	m, whole := s.planned.Mechanism, s.planned.Variant == privacy.Histogram
	var answers gnmax.Mechanism
	var err error
	switch s.kind {
	case privacy.GNMax:
		answers, err = gnmax.NewGNMax(share*m.Sigma, whole)
	case privacy.ConfidentGNMax:
		answers, err = gnmax.NewConfident(m.Threshold, share*m.Sigma1, share*m.Sigma2, true)
	case privacy.LNMax:
		answers, err = gnmax.NewLNMax(m.Lambda/share, whole)
	}
	testkit.Must(t, err)
	for world := range trials {
		for range runs {
			var releases []*conclavev1.Release
			for range s.rounds {
				releases = append(releases, s.answered(t, src, answers, int64(world*max(1, s.overlap)), share))
			}
			x, err := s.statistic(releases)
			testkit.Must(t, err)
			trials[world] = append(trials[world], x)
		}
	}
	return trials
}

// simulatedColluders makes those of [ViewColluders]: what the shares of honest sites hide.
func (s *scenario) simulatedColluders(t *testing.T, src *gnmax.Source, runs int, share float64) (
	trials [2][]float64,
) {
	t.Helper()
	honest := len(s.masked.honest)
	sum := testkit.Value(gnmax.NewGaussianSum(countScale, share*s.planned.Mechanism.Sigma))
	drawn := testkit.Value(sum.Share(honest))
	noise := make([]int64, honest*s.rounds)
	for world := range trials {
		for range runs {
			testkit.Must(t, drawn.Draw(src, noise))
			x := 0.0
			for _, e := range noise {
				x += float64(e)
			}
			trials[world] = append(trials[world], x/countScale-float64(world*s.rounds))
		}
	}
	return trials
}

// answered is the release of one round, with as many votes moved as world says.
func (s *scenario) answered(t *testing.T, src *gnmax.Source, m gnmax.Mechanism, world int64,
	share float64) *conclavev1.Release {
	t.Helper()
	if s.kind == privacy.Laplace {
		counts := []int64{(s.units[0] - world) * countScale, s.units[1] * countScale}
		noisy, err := gnmax.LaplaceCounts(src, counts, countScale, s.planned.Mechanism.Epsilon/share)
		testkit.Must(t, err)
		return &conclavev1.Release{Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: noisy}}}
	}
	votes := &conclavev1.NoisyVotes{}
	for range s.queries {
		a, err := m.Answer(src, []int64{s.votes[0] - world, s.votes[1] + world})
		testkit.Must(t, err)
		votes.Labels = append(votes.Labels, int32(a.Winner))
		if s.planned.Variant == privacy.Histogram {
			if !a.Answered {
				a.Noisy = []int64{0, 0}
			}
			votes.Histogram = append(votes.Histogram, a.Noisy...)
		}
	}
	return &conclavev1.Release{Answer: &conclavev1.Release_Votes{Votes: votes}}
}

// What docs/audit-method.md says of the test's power, without the cluster: the mechanisms
// as they are never come near their claim, and half of their noise is found.
func TestPower(t *testing.T) {
	const repeats = 5
	runs := 1000
	if testing.Short() {
		t.Skip("a hundred thousand simulated runs")
	}
	o := DefaultOptions()
	cases, err := scenarios(Cases(), o.budget())
	testkit.Must(t, err)
	src := gnmax.NewSourceFrom(rand.NewChaCha8([32]byte{1})) // no failures by chance
	for _, s := range cases {
		claim, err := privacy.Account(s.events(), o.Delta)
		testkit.Must(t, err)
		found := func(share float64) (n int) {
			for range repeats {
				b, err := LowerBound(s.simulated(t, src, runs, share), o.Delta, o.Confidence)
				testkit.Must(t, err)
				if b.Epsilon > claim.Epsilon {
					n++
				}
			}
			return n
		}
		if n := found(1); n > 0 {
			t.Errorf("%s: %d of %d audits of the mechanism as it is found a violation", s.name, n, repeats)
		}
		// Winners show less than the histograms that the claim covers.
		if n := found(0.5); n < repeats-1 && !strings.HasSuffix(s.name, "-winner") {
			t.Errorf("%s: %d of %d audits found that half of the noise was missing", s.name, n, repeats)
		}
	}
}

// events is what a run of the case should be charged.
func (s *scenario) events() []privacy.Event { return s.planned.Worst(s.planned.Count) }
