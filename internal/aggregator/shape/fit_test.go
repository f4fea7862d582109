package shape

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The largest coefficients with their noise are within what is set aside for them.
func TestNoFitIsLargerThanItsBound(t *testing.T) {
	for _, width := range []int{1, maxFitWidth} {
		r := largestRelease()
		r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: slices.Repeat([]int64{-1 << 61}, width),
			Scale: 1}}
		checkSize(t, &fit{want: &ratio.Wanted{Problem: ratio.Problem{Width: width}}}, r)
	}
}

// FuzzFit decodes a question for a fit from the wire: no input may panic, and a question that
// is taken is charged by the run's noise and can be answered.
func FuzzFit(f *testing.F) {
	specs := []*spec.Spec{
		mustSpec(f, roundtest.FitOf(roundtest.Gaussian(2))), mustSpec(f, roundtest.FitOf(roundtest.Laplace(2))),
		mustSpec(f, roundtest.GammaOf(2)),
	}
	add := func(r *conclavev1.Round) {
		raw, err := proto.Marshal(r)
		testkit.Must(f, err)
		f.Add(raw)
	}
	add(roundtest.FitRound("r", 1, nil))
	add(roundtest.FitRound("r", 1, func(q *conclavev1.Fit) { q.Nothing = true }))
	add(roundtest.FitRound("r", 1, func(q *conclavev1.Fit) { q.Lambda = 1e-300 }))
	add(roundtest.FitRound("r", 1, func(q *conclavev1.Fit) { q.Lambda = 1e300 }))
	for _, bad := range roundtest.BadFits() {
		add(roundtest.FitRound("r", 1, bad.Change))
	}
	f.Fuzz(func(t *testing.T, question []byte) {
		round := new(conclavev1.Round)
		if proto.Unmarshal(question, round) != nil {
			return
		}
		for _, spec := range specs {
			q, err := parse(round, spec, true)
			if err != nil {
				continue
			}
			if _, ok := q.(*fit); !ok {
				return
			}
			r := new(conclavev1.Release)
			answered, err := q.Answer(gnmax.NewSource(), make([]int64, q.Length()), r)
			if err != nil || len(r.GetSum().GetValues()) != q.Length() || answered != 1 || q.Queries() != 1 ||
				round.GetPlanned() != 0 {
				t.Fatalf("released %v for %d answers, %v", r, answered, err)
			}
		}
	})
}
