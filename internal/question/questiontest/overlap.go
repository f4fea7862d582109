package questiontest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
)

// mostTogether bounds the questions asked for each number of sites.
const mostTogether = 12

// overlap checks that a unit at m sites moves the sum of their answers by no more than events with that overlap
// state, for all of its records at each site and all other units. Some units at two sites must move it further
// than events for one site state.
func (r *runner) overlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for m := 2; m <= 3; m++ {
		farthest := 0.0
		for _, j := range rng.Perm(len(r.c.Bounds))[:min(mostTogether, len(r.c.Bounds))] {
			var without, with []Answer
			for range m {
				others := r.c.Units(t, UnitColumn, units, func(int) bool { return rng.IntN(3) > 0 })
				table, by := others.Subset(Rows(others.Len())), r.c.Adversaries[rng.IntN(len(r.c.Adversaries))]
				for i := range by.Records {
					Append(t, table, "adversary", by.Record(i))
				}
				for answers, table := range map[*[]Answer]*partition.Table{&without: others, &with: table} {
					s := Site(t, table, teachers)
					SampleByRecords(s)
					*answers = append(*answers, MustAsk(t, s, r.kind, r.c.Bounds[j], fmt.Sprint("m", m, "-", j), 1))
				}
			}
			farthest = max(farthest, movedTogether(t, without, with))
		}
		if m == 2 && len(r.c.Bounds) > 0 && farthest <= 1 {
			t.Errorf("units at two sites move answers by %v of what one site's can: this shows nothing", farthest)
		}
	}
}

// movedTogether checks how far a unit moves the answers of all its sites together, and returns it as a multiple of
// the largest possible move at one site.
func movedTogether(t *testing.T, without, with []Answer) float64 {
	shape, stated := with[0].Shape, privacy.Budget{}.WithOverlap(len(with))
	if shape.Votes != nil {
		farthest := int64(0)
		for q := range shape.Votes.Queries {
			a, b := histogram(t, without, *shape.Votes, q), histogram(t, with, *shape.Votes, q)
			falls, rises := int64(0), int64(0)
			for c := range a {
				falls, rises = falls+max(0, a[c]-b[c]), rises+max(0, b[c]-a[c])
			}
			farthest = max(farthest, falls, rises, slices.Max(b)-slices.Max(a), slices.Max(a)-slices.Max(b))
		}
		for _, kind := range []privacy.Kind{privacy.GNMax, privacy.ConfidentGNMax, privacy.LNMax} {
			if most := stated.Event(privacy.Event{Kind: kind}).Sensitivity; float64(farthest) > most {
				t.Fatalf("a unit at %d sites moves a count by %d, %s events state %v", len(with), farthest, kind, most)
			}
		}
		return float64(farthest)
	}
	v, kind, times := shape.Sum, privacy.Gaussian, int64(1)
	switch {
	case v.Rate < 1:
		kind = privacy.SubsampledGaussian
	case v.Norm == question.L1:
		kind = privacy.Laplace
	case v.Norm == question.Each:
		kind = privacy.Exponential
	}
	if v.Per == question.PerTeacher {
		times = 2
	}
	difference := make([]int64, v.Entries)
	for i := range with {
		for j := range difference {
			difference[j] += with[i].Sum[j] - without[i].Sum[j]
		}
	}
	most := int64(stated.Event(privacy.Event{Kind: kind}).Sensitivity)
	distance, within := norm(v, difference, times*most)
	if !within {
		t.Fatalf("a unit at %d sites moves the sum by %v, %s events state %d x %d x the bound %d", len(with), distance,
			kind, most, times, v.Bound)
	}
	return distance / float64(times*v.Bound)
}

// histogram adds up the votes of all answers on a query.
func histogram(t *testing.T, answers []Answer, h question.Histogram, query int) []int64 {
	counts := make([]int64, h.Classes)
	for _, a := range answers {
		votes := Unpack(t, a.Votes, teachers, h.Queries, h.Classes)
		for i := query; i < len(votes); i += h.Queries {
			counts[votes[i]]++
		}
	}
	return counts
}
