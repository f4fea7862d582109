package shape

import (
	"math"
	"testing"

	"google.golang.org/grpc/codes"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// selectors returns a question that asks for these sums and selects by them, and one that selects by them once they
// are cached.
func selectors(t *testing.T, epsilon float64, expected, sums []int64, complements bool) []round.Question {
	t.Helper()
	run := mustSpec(t, roundtest.SelectionsOf(epsilon, 2))
	entries := len(sums)
	first := roundtest.ScoreRound("r", 0, expected, func(r *conclavev1.Round) {
		r.GetSum().Entries, r.Selection.Complements = uint32(entries), complements
	})
	second := roundtest.SelectionRound("r", 1, expected,
		func(q *conclavev1.Selection) { q.Complements = complements })
	asks := testkit.Value(parse(first, run))
	cached, bound := asks.(round.Cacher).Sums(sums)
	selects, err := Parser(nil)(second, run, func(number uint64) (round.Sums, bool) {
		return round.Sums{Bound: bound, Sums: cached}, number == 0
	})
	testkit.Must(t, err)
	return []round.Question{asks, selects}
}

// Opposites negate the same sums and come after all discriminators. The best is not selected with a chance below
// exp(-60).
func TestSelectionsAmongOpposites(t *testing.T) {
	sums := roundtest.Units(-60, 20)
	for _, c := range []struct {
		expected []int64
		want     uint32
	}{
		{roundtest.Units(0, 0, 0, 0), 2},  // -60, 20, 60, -20
		{roundtest.Units(0, 0, 1, -1), 3}, // -60, 20, 60 - 80, -20 + 80
	} {
		for i, q := range selectors(t, 6, c.expected, sums, true) {
			r := &conclavev1.Release{Teachers: 8}
			_, err := q.Answer(gnmax.NewSource(), sums, r)
			testkit.Must(t, err)
			if got := r.GetSelected().GetIndex(); got != c.want {
				t.Errorf("question %d, %v expected: selected %d, want %d", i, c.expected, got, c.want)
			}
		}
	}
}

// Selections are drawn with probability proportional to exp(epsilon u/(2 bound)). Each of the eight counts must be
// within a 1 - 1e-10 range of its binomial distribution, so the test fails by chance in 8e-10 of all runs. It finds a
// probability that is off by 0.023.
func TestSelectionsHaveTheirProbabilities(t *testing.T) {
	const epsilon, n = 0.5, 20_000
	// u is 3, 1, 0, 2 bounds after the expectation of 80 units is subtracted.
	sums := roundtest.Units(3, 41, -40, 82)
	expected := []int64{0, roundtest.Unit / 2, -roundtest.Unit / 2, roundtest.Unit}
	score := []float64{3, 1, 0, 2}
	total := 0.
	for _, u := range score {
		total += math.Exp(epsilon * u / 2)
	}
	src := gnmax.NewSource()
	for _, q := range selectors(t, epsilon, expected, sums, false) {
		counts := make([]float64, len(score))
		for range n {
			r := &conclavev1.Release{Teachers: 8}
			_, err := q.Answer(src, sums, r)
			testkit.Must(t, err)
			counts[r.GetSelected().GetIndex()]++
		}
		for i, u := range score {
			b := distuv.Binomial{N: n, P: math.Exp(epsilon*u/2) / total}
			if b.CDF(counts[i]) < 5e-11 || 1-b.CDF(counts[i]-1) < 5e-11 {
				t.Errorf("%v of %v selections are %d, expected are %v", counts[i], n, i, n*b.P)
			}
		}
	}
}

// An invalid selection by cached sums is refused before it is charged.
func TestSelectionsByCachedSumsAreRefused(t *testing.T) {
	run := mustSpec(t, roundtest.SelectionsOf(1, 3))
	for want, change := range map[string]func(*conclavev1.Selection){
		"assumes 0 privacy units":              func(q *conclavev1.Selection) { q.Records = 0 },
		"a selection among 2 candidates has 1": func(q *conclavev1.Selection) { q.Expected = q.Expected[:1] },
		"a selection among 4 candidates has 2": func(q *conclavev1.Selection) { q.Complements = true },
		"outside -4096 to 4096":                func(q *conclavev1.Selection) { q.Expected[1] = -roundtest.Unit - 1 },
	} {
		_, err := Parser(nil)(roundtest.SelectionRound("r", 1, roundtest.Units(0, 0), change), run,
			func(uint64) (round.Sums, bool) {
				return round.Sums{Bound: roundtest.Unit, Sums: roundtest.Units(0, 0)}, true
			})
		roundtest.WantStatus(t, fault.Status(err), codes.InvalidArgument, want)
	}
}
