package shape

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/ratio"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxFitWidth bounds the coefficients: the second derivatives of a node are a message.
const maxFitWidth = 400

// fit asks for the coefficients of a regularized logistic regression of real against
// synthetic records, with noise.
//
// Why this is private: however far a privacy unit moves the minimizer is bounded by public
// numbers (see [ratio.Sensitivity]), and so is how far what is found lies from the
// minimizer, and how far rounding to the lattice moves it. The release is one output of
// noise for that sensitivity on all coefficients together: Gaussian for the L2 norm, a
// norm-Gamma vector for the L2 norm, or Laplace for the L1 norm. Iterates, their number and
// what is left of the gradient stay here: the iterates go to the nodes, WITHOUT NOISE, which
// who runs the sites has to accept; see docs/weights.md for the way that does not.
//
// That nodes' records are cut to the norm is their part of the guarantee. So is that they
// all together have no more units than [ratio.MostUnits].
type fit struct {
	pb    *conclavev1.Fit
	want  *ratio.Wanted
	noise privacy.Planned
	sum   *gnmax.GaussianSum
	gamma *gnmax.NormGamma
}

func newFit(q *conclavev1.Fit, planned privacy.Planned, run *spec.Spec, allowCoin bool) (*fit, error) {
	if q.GetNothing() && !(allowCoin && run.PB.GetCoinVotes()) {
		return nil, fault.Refusedf("a fit of nothing is the baseline of local runs that were opened with coin_votes; " +
			"leave out fit.nothing")
	}
	rows, width, err := matrixShape("fit.synthetic", q.GetSynthetic())
	if err != nil {
		return nil, err
	}
	if rows == 0 || width > maxFitWidth {
		return nil, fault.Invalidf("a fit to %d synthetic records of %d features; use 1 record at least and %d "+
			"features at most", rows, width, maxFitWidth)
	}
	if n := q.GetRecords(); !(n >= 1 && n <= maxUnits) {
		return nil, fault.Invalidf("a fit counts on %v privacy units; say 1 to %d, a public number", n, maxUnits)
	}
	synthetic := make([]float64, 0, rows*width)
	for i := 0; i+4 <= len(q.GetSynthetic().GetData()); i += 4 {
		synthetic = append(synthetic, float64(float32At(q.GetSynthetic().GetData(), i)))
	}
	want, err := ratio.NewWanted(ratio.Problem{
		Synthetic: synthetic, Width: width, Clip: q.GetFeatures().GetClip(), Lambda: q.GetLambda(),
		Records: q.GetRecords(),
	})
	if err != nil {
		return nil, fault.Invalidf("%w", err)
	}
	f := &fit{pb: q, want: want, noise: planned}
	switch m := planned.Mechanism; {
	case m.Kind == privacy.Gaussian:
		f.sum, err = spec.GaussianSum(planned, want.L2)
	case m.Kind == privacy.Laplace && planned.Variant == privacy.NormGamma:
		f.gamma, err = gnmax.NewNormGamma(m.Epsilon, want.L2, width)
	case m.Kind == privacy.Laplace:
		err = spec.CheckLaplace(want.L1, m.Epsilon)
	default:
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(),
			spec.OtherMechanism(planned, privacy.Gaussian, privacy.Laplace))
	}
	if errors.Is(err, gnmax.ErrDimension) {
		return nil, fault.Invalidf("%w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("noise of the fit of run %q: %w; use a larger lambda", run.PB.GetName(), err)
	}
	return f, nil
}

func (q *fit) Length() int { return q.want.Problem.Width }

func (q *fit) Read(*conclavev1.WorkRequest, uint32) ([]int64, error) {
	return nil, errors.New("an answer where nothing was asked")
}

func (q *fit) Fits(uint32) error { return nil }

func (q *fit) Largest() int { return releaseFrame + q.Length()*signedBytes(math.MaxInt64/2) }

func (q *fit) Queries() int64 { return 1 }

// answer adds noise to the coefficients, which come in steps of the lattice.
func (q *fit) Answer(src *gnmax.Source, steps []int64, r *conclavev1.Release) (int64, error) {
	var noisy []int64
	var err error
	switch {
	case q.sum != nil:
		noisy, err = q.sum.Release(src, steps)
	case q.gamma != nil:
		noisy, err = q.gamma.Release(src, steps)
	default:
		noisy, err = gnmax.LaplaceCounts(src, steps, q.want.L1, q.noise.Mechanism.Epsilon)
	}
	if err != nil {
		return 0, fmt.Errorf("draw the noise of the fit: %w", err)
	}
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: noisy, Scale: 1}}
	return 1, nil
}

// leastPasses is how many passes a fit takes at least, which is more than most need.
const leastPasses = 12

// Reduce fits the coefficients: one pass over the nodes for each iterate.
func (q *fit) Reduce(ctx context.Context, pass round.Pass) ([]int64, error) {
	passes := 0
	at := func(beta []float64) ([]int64, error) {
		passes++
		return pass(&logisticSum{want: q.want}, &conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_Logistic{
			Logistic: &conclavev1.LogisticSum{
				Features: q.pb.GetFeatures(), Coefficients: beta, Bound: uint64(q.want.Steps.Bound),
				Nothing: q.pb.GetNothing(),
			},
		}})
	}
	fitted, err := ratio.Fit(ctx, q.want.Problem,
		func(_ context.Context, beta []float64) (gradient, hessian []float64, err error) {
			sums, err := at(beta)
			if err != nil {
				return nil, nil, err
			}
			width := q.want.Problem.Width
			g, h := q.want.Steps.Decode(sums[:width], sums[width:])
			return g, h, nil
		})
	if errors.Is(err, ratio.ErrNotConverged) {
		return nil, fault.Refusedf("%w", err)
	}
	if err != nil {
		return nil, err
	}
	// How many passes it took depends on the records, and the student can tell the time.
	for passes < leastPasses {
		if _, err := at(fitted.Beta); err != nil {
			return nil, err
		}
	}
	return q.want.Lattice.Round(fitted.Beta), nil
}

// logisticSum is one pass over the nodes.
type logisticSum struct {
	want *ratio.Wanted
}

func (q *logisticSum) Length() int {
	return q.want.Problem.Width + ratio.Triangle(q.want.Problem.Width)
}
func (q *logisticSum) Fits(uint32) error { return nil }
func (q *logisticSum) Largest() int      { return 0 }
func (q *logisticSum) Queries() int64    { return 0 }

func (q *logisticSum) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	return sumOfUnits(answer, q.Length(), ratio.MostUnits*q.want.Steps.Bound)
}

// answer is never asked for: such sums are not released.
func (q *logisticSum) Answer(*gnmax.Source, []int64, *conclavev1.Release) (int64, error) {
	return 0, errors.New("sums of an iterate are not released")
}
