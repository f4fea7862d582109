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
func TestNoEmbeddingReleaseIsLargerThanItsBound(t *testing.T) {
	for _, bound := range []int64{spec.MinBound, 1 << 16, spec.MaxBound} {
		for _, entries := range []int{1, maxHistogram} {
			q := &embeddingSum{entries: entries, bound: bound}
			r := largestRelease()
			r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: slices.Repeat([]int64{-q.limit()},
				entries), Scale: uint64(bound)}}
			checkSize(t, q, r)
			r.GetSum().Values = slices.Repeat([]int64{q.limit()}, entries)
			checkSize(t, q, r)
		}
	}
}

// Noise is drawn also where there is no record anywhere. The mean square of 20,000 numbers
// of unit variance is within 6.5 standard deviations of 1 but for a chance of 2e-10.
func TestEmbeddingsOfNobodyHaveNoise(t *testing.T) {
	const entries, sigma, bound = 20000, 1.5, 1 << 12
	q, err := newEmbeddingSum(roundtest.EmbeddingRound("r", 0, entries,
		func(q *conclavev1.EmbeddingSum) { q.Bound = bound }).GetSum().GetEmbedding(),
		roundtest.Embedding(sigma), mustSpec(t, roundtest.EmbeddingOf(sigma)), false)
	testkit.Must(t, err)
	r := new(conclavev1.Release)
	if _, err := q.Answer(gnmax.NewSource(), make([]int64, entries), r); err != nil {
		t.Fatal(err)
	}
	square := 0.0
	for _, v := range r.GetSum().GetValues() {
		square += math.Pow(float64(v)/(bound*sigma), 2) / entries
	}
	if limit := 6.5 * math.Sqrt(2./entries); math.Abs(square-1) > limit {
		t.Errorf("mean square %v, want 1 +- %v", square, limit)
	}
}

// FuzzEmbedding decodes a question for an embedding and a node's answer from the wire: no
// input may panic, a question that is taken is charged by the run's noise and can be
// released and stored, and an answer that is taken is within its limit.
func FuzzEmbedding(f *testing.F) {
	spec := mustSpec(f, roundtest.EmbeddingOf(1.5))
	raw := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		testkit.Must(f, err)
		return b
	}
	answer := func(values ...int64) []byte {
		return raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: values}}})
	}
	f.Add(raw(roundtest.EmbeddingRound("r", 1, 2, nil)), answer(maxUnits<<16, -maxUnits<<16))
	f.Add(raw(roundtest.EmbeddingRound("r", 1, 2, nil)), answer(maxUnits<<16+1, 0))
	f.Add(raw(roundtest.EmbeddingRound("r", 1, 2, nil)), answer(1))
	f.Add(raw(roundtest.EmbeddingRound("r", 1, 2, func(q *conclavev1.EmbeddingSum) { q.Nothing = true })), answer(0, 0))
	for _, bad := range roundtest.BadEmbeddings() {
		f.Add(raw(roundtest.EmbeddingRound("r", 1, 2, bad.Change)), answer(1, 2))
	}
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
		e, ok := q.(*embeddingSum)
		if !ok {
			return
		}
		asked := round.GetSum().GetEmbedding()
		if q.Length() != int(asked.GetEntries()) || q.Length() < 1 || asked.GetNothing() ||
			q.Largest() > coordinator.MaxRelease ||
			q.Queries() != 1 || round.GetPlanned() != 0 {
			t.Fatalf("a question for %d numbers, %d bytes, %d uses of entry %d", q.Length(), q.Largest(), q.Queries(),
				round.GetPlanned())
		}
		counts, err := q.Read(reply, 3)
		if err != nil {
			return
		}
		for _, v := range counts {
			if v > e.limit() || v < -e.limit() {
				t.Fatalf("%d of at most %d", v, e.limit())
			}
		}
		r := new(conclavev1.Release)
		answered, err := q.Answer(gnmax.NewSource(), counts, r)
		if err != nil || len(r.GetSum().GetValues()) != q.Length() || answered != 1 {
			t.Fatalf("released %v for %d answers, %v", r, answered, err)
		}
	})
}
