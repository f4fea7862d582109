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

const (
	// maxWeights bounds a discriminator: its release has to fit a request to etcd.
	maxWeights = 1 << 17
	// maxUnits is more than any node has: what is longer than so many vectors of units is
	// an error of the node, not a sum.
	maxUnits = 1 << 24
)

// discriminatorSum asks every node for the sum, over a Poisson sample of its privacy
// units, of the clipped gradients of a discriminator. The release is the sum over all
// nodes with discrete Gaussian noise, drawn once.
//
// Why this is private: a unit is at one node, in the sample with probability rate by a
// draw of its own, and moves the sum by an L2 norm of at most bound when it is in it. See
// [gnmax.GaussianSum.SampledCost]. The noise does not depend on the samples: it is drawn
// also for a sample without anybody in it, and nothing is divided by the sample's size. A
// node that answers for fewer units than it has costs no less.
//
// That nodes draw their samples as asked and clip is their part of the guarantee. Weights
// and whatever else is asked are public: they follow from earlier releases.
type discriminatorSum struct {
	entries int
	bound   int64
	sum     *gnmax.GaussianSum
}

func newDiscriminatorSum(q *conclavev1.DiscriminatorSum, planned privacy.Planned, run *spec.Spec,
	allowCoin bool) (*discriminatorSum, error) {
	if planned.Mechanism.Kind != privacy.SubsampledGaussian {
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(),
			spec.OtherMechanism(planned, privacy.SubsampledGaussian))
	}
	n := len(q.GetWeights()) / 4
	switch {
	case q.GetNothing() && !(allowCoin && run.PB.GetCoinVotes()):
		return nil, fault.Refusedf("sums of nothing are the baseline of local runs that were opened with coin_votes; " +
			"leave out discriminator.nothing")
	case q.GetRate() != planned.Mechanism.Rate:
		return nil, fault.Refusedf("the round samples at rate %v, and the plan of run %q pays for rate %v; ask at "+
			"that rate", q.GetRate(), run.PB.GetName(), planned.Mechanism.Rate)
	case n == 0 || n > maxWeights || 4*n != len(q.GetWeights()):
		return nil, fault.Invalidf("discriminator.weights holds %d bytes; send 4 for each of 1 to %d weights",
			len(q.GetWeights()), maxWeights)
	case firstNotFinite(q.GetWeights()) >= 0:
		return nil, fault.Invalidf("discriminator.weights: weight %d is not finite: the discriminator has diverged; "+
			"lower its learning rate", firstNotFinite(q.GetWeights()))
	case q.GetBound() < spec.MinBound || q.GetBound() > spec.MaxBound:
		return nil, fault.Invalidf("the fixed-point bound of gradients is %d; use %d to %d", q.GetBound(),
			spec.MinBound, spec.MaxBound)
	case !(q.GetClip() > 0) || math.IsInf(q.GetClip(), 0):
		return nil, fault.Invalidf("gradients are clipped at %v; use a number above 0", q.GetClip())
	}
	sum, err := spec.GaussianSum(planned, int64(q.GetBound()))
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", run.PB.GetName(), err)
	}
	return &discriminatorSum{entries: n, bound: int64(q.GetBound()), sum: sum}, nil
}

func (q *discriminatorSum) Length() int { return q.entries }

func (q *discriminatorSum) Fits(uint32) error { return nil }

func (q *discriminatorSum) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	return sumOfUnits(answer, q.entries, q.limit())
}

// sumOfUnits is sumOf where no entry is beyond what maxUnits units can make.
func sumOfUnits(answer *conclavev1.WorkRequest, length int, limit int64) ([]int64, error) {
	values, err := sumOf(answer, length)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if v > limit || v < -limit {
			return nil, fault.OutOfRangef("entry %d of the sum is out of range: larger than %d units can make it", i,
				maxUnits)
		}
	}
	return values, nil
}

func (q *discriminatorSum) Queries() int64 { return 1 }

// limit bounds what a node sends for an entry, and a released one on both sides, where
// holding it costs nothing.
func (q *discriminatorSum) limit() int64 { return maxUnits * q.bound }

func (q *discriminatorSum) Largest() int { return releaseFrame + q.entries*signedBytes(q.limit()) }

func (q *discriminatorSum) Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	return noisySum(src, q.sum, counts, q.bound, q.limit(), r)
}
