package shape

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxParts bounds the groups of features of an embedding.
const maxParts = 64

// embeddingSum asks every node for the sum of public features of its records, in a block
// for each class. The release is the sum over all nodes with discrete Gaussian noise.
//
// Why this is private: a unit is at one node and adds the mean over its records of vectors
// of L2 norm at most bound, each in the block of its class; by the triangle inequality no
// more than bound. So the sum moves by at most bound when the unit comes or goes, however
// many features and classes there are: one Gaussian release of that sensitivity. Which
// features are asked for is public. That nodes keep to the norm is their part of the
// guarantee; see package embedding for the proof.
type embeddingSum struct {
	entries int
	bound   int64
	sum     *gnmax.GaussianSum
}

func newEmbeddingSum(q *conclavev1.EmbeddingSum, planned privacy.Planned, run *spec.Spec,
	allowCoin bool) (*embeddingSum, error) {
	parts := q.GetEmbedding().GetParts()
	switch {
	case planned.Mechanism.Kind != privacy.Gaussian:
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), spec.OtherMechanism(planned, privacy.Gaussian))
	case q.GetNothing() && !(allowCoin && run.PB.GetCoinVotes()):
		return nil, fault.Refusedf("sums of nothing are the baseline of local runs that were opened with coin_votes; " +
			"leave out embedding.nothing")
	case q.GetEntries() == 0 || q.GetEntries() > maxHistogram:
		return nil, fault.Invalidf("an embedding of %d entries; ask for 1 to %d", q.GetEntries(), maxHistogram)
	case len(parts) == 0 || len(parts) > maxParts:
		return nil, fault.Invalidf("an embedding of %d parts; use 1 to %d", len(parts), maxParts)
	case q.GetBound() < spec.MinBound || q.GetBound() > spec.MaxBound:
		return nil, fault.Invalidf("the fixed-point bound of embeddings is %d; use %d to %d", q.GetBound(),
			spec.MinBound, spec.MaxBound)
	}
	for i, p := range parts {
		if !(p.GetWeight() > 0) || math.IsInf(p.GetWeight(), 0) {
			return nil, fault.Invalidf("part %d of the embedding has weight %v; use a number above 0", i+1,
				p.GetWeight())
		}
	}
	sum, err := spec.GaussianSum(planned, int64(q.GetBound()))
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", run.PB.GetName(), err)
	}
	return &embeddingSum{entries: int(q.GetEntries()), bound: int64(q.GetBound()), sum: sum}, nil
}

func (q *embeddingSum) Length() int { return q.entries }

func (q *embeddingSum) Fits(uint32) error { return nil }

func (q *embeddingSum) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	return sumOfUnits(answer, q.entries, q.limit())
}

func (q *embeddingSum) Queries() int64 { return 1 }

// limit is that of what maxUnits units can make.
func (q *embeddingSum) limit() int64 { return maxUnits * q.bound }

func (q *embeddingSum) Largest() int { return releaseFrame + q.entries*signedBytes(q.limit()) }

func (q *embeddingSum) Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	return noisySum(src, q.sum, counts, q.bound, q.limit(), r)
}
