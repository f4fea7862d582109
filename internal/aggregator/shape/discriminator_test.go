package shape

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The largest release, of any bound, is within what is set aside for it.
func TestNoDiscriminatorReleaseIsLargerThanItsBound(t *testing.T) {
	for _, bound := range []int64{spec.MinBound, 1 << 16, spec.MaxBound} {
		for _, entries := range []int{1, maxWeights} {
			q := &discriminatorSum{entries: entries, bound: bound}
			r := largestRelease()
			r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: slices.Repeat([]int64{-q.limit()},
				entries), Scale: uint64(bound)}}
			checkSize(t, q, r)
			r.GetSum().Values = slices.Repeat([]int64{q.limit()}, entries)
			checkSize(t, q, r)
		}
	}
}

// FuzzDiscriminator decodes a question for gradients of a discriminator and a node's answer
// from the wire: no input may panic, a question that is taken is of the run's rate and can
// be released and stored, and an answer that is taken is within its limit.
func FuzzDiscriminator(f *testing.F) {
	spec := mustSpec(f, roundtest.SamplesOf(1.5, 0.25, 3))
	raw := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		testkit.Must(f, err)
		return b
	}
	answer := func(values ...int64) []byte {
		return raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: values}}})
	}
	f.Add(raw(roundtest.DiscriminatorRound("r", 1, 2, nil)), answer(maxUnits<<16, -maxUnits<<16))
	f.Add(raw(roundtest.DiscriminatorRound("r", 1, 2, nil)), answer(maxUnits<<16+1, 0))
	f.Add(raw(roundtest.DiscriminatorRound("r", 1, 2,
		func(q *conclavev1.DiscriminatorSum) { q.Bound = math.MaxUint64 })), answer(1, 2))
	f.Add(raw(roundtest.DiscriminatorRound("r", 1, 2, func(q *conclavev1.DiscriminatorSum) { q.Rate = math.NaN() })),
		answer(1, 2))
	f.Add(raw(roundtest.GradientRound("r", 1, roundtest.Gradients(1))), answer(1, 2, 3))
	f.Add(raw(roundtest.EmbeddingRound("r", 1, 2, nil)), answer(1, 2))
	f.Add(raw(roundtest.VoteRound("r", 1, 1)),
		raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{Teachers: 3}}}))
	f.Fuzz(func(t *testing.T, question, answer []byte) {
		round, reply := new(conclavev1.Round), new(conclavev1.WorkRequest)
		if proto.Unmarshal(question, round) != nil || proto.Unmarshal(answer, reply) != nil {
			return
		}
		q, err := parse(round, spec, true)
		if err != nil {
			return
		}
		d, ok := q.(*discriminatorSum)
		if !ok {
			if _, counts := q.(*ClassCounts); !counts || round.GetPlanned() != 1 {
				t.Fatalf("a run of samples takes a question %+v for entry %d", q, round.GetPlanned())
			}
			return
		}
		asked := round.GetSum().GetDiscriminator()
		if 4*q.Length() != len(asked.GetWeights()) || asked.GetNothing() || q.Largest() > coordinator.MaxRelease ||
			q.Queries() != 1 || round.GetPlanned() != 0 || asked.GetRate() != 0.25 {
			t.Fatalf("a question for %d numbers, %d bytes, %d uses of entry %d", q.Length(), q.Largest(), q.Queries(),
				round.GetPlanned())
		}
		counts, err := q.Read(reply, 3)
		if err != nil {
			return
		}
		for _, v := range counts {
			if v > d.limit() || v < -d.limit() {
				t.Fatalf("%d of at most %d", v, d.limit())
			}
		}
		r := new(conclavev1.Release)
		answered, err := q.Answer(gnmax.NewSource(), counts, r)
		if err != nil || len(r.GetSum().GetValues()) != q.Length() || answered != 1 {
			t.Fatalf("released %v for %d answers, %v", r, answered, err)
		}
	})
}

// Noise is drawn also where nobody was drawn anywhere: sums of zeros are released with all
// of it. The mean square of 20,000 numbers of unit variance is within 6.5 standard deviations
// of 1 but for a chance of 2e-10.
func TestSumsOfNobodyHaveNoise(t *testing.T) {
	const weights, multiplier, bound = 20000, 1.5, 1 << 12
	spec := mustSpec(t, roundtest.SamplesOf(multiplier, 0.25, 3))
	q, err := newDiscriminatorSum(&conclavev1.DiscriminatorSum{Weights: make([]byte, 4*weights), Rate: 0.25, Clip: 1,
		Bound: bound}, spec.Plan[0], spec, false)
	if err != nil {
		t.Fatal(err)
	}
	r := new(conclavev1.Release)
	if _, err := q.Answer(gnmax.NewSource(), make([]int64, weights), r); err != nil {
		t.Fatal(err)
	}
	square := 0.0
	for _, v := range r.GetSum().GetValues() {
		square += math.Pow(float64(v)/(bound*multiplier), 2) / weights
	}
	if limit := 6.5 * math.Sqrt(2./weights); math.Abs(square-1) > limit {
		t.Errorf("mean square %v, want 1 +- %v", square, limit)
	}
}
