package logistic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/reducer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Fit asks for the coefficients of a regularized logistic regression of real against synthetic records. The
// aggregator computes them with one pass over the nodes for each iterate.
//
// Why this is private: public numbers bound how far a privacy unit moves the minimizer (see [ratio.Sensitivity]),
// how far the computed coefficients lie from the minimizer, and how far rounding to the lattice moves them. The
// release adds noise for that sensitivity once, to all coefficients together: Gaussian for the L2 norm, a
// norm-Gamma vector for the L2 norm, or Laplace for the L1 norm. The number of passes, and whether a question is
// refused, follow from public numbers: see [ratio.Problem.Passes].
//
// The iterates go to the nodes WITHOUT NOISE. Sites have to accept that; docs/weights.md describes the
// alternative.
//
// The guarantee relies on nodes that clip their records to the norm, and on at most [ratio.MostUnits] units at all
// nodes together.
var Fit = reducer.Reducer{Kind: Sum.Name, Read: readFit}

// maxWidth bounds the number of coefficients: the Hessian of a node must fit into a message.
const maxWidth = 400

// errChanged says that the sums of a pass come from other nodes than those of earlier passes.
var errChanged = errors.New("nodes joined or left between the passes of a fit")

func readFit(params []byte) (*reducer.Reduction, error) {
	q := new(conclavev1.Fit)
	if err := question.Unmarshal(params, q); err != nil {
		return nil, err
	}
	synthetic, width, err := matrix(q.GetSynthetic())
	if err != nil {
		return nil, err
	}
	if len(synthetic) == 0 || width > maxWidth {
		return nil, fmt.Errorf("a fit to %d synthetic records of %d features; use at least 1 record and at most %d "+
			"features", len(synthetic)/max(width, 1), width, maxWidth)
	}
	if n := q.GetRecords(); !(n >= 1 && n <= ratio.MostUnits) {
		return nil, fmt.Errorf("a fit assumes %v privacy units; use a public number from 1 to %d", n,
			int64(ratio.MostUnits))
	}
	want, err := ratio.NewWanted(ratio.Problem{
		Synthetic: synthetic, Width: width, Clip: q.GetFeatures().GetClip(), Lambda: q.GetLambda(),
		Records: q.GetRecords(),
	})
	if err != nil {
		return nil, err
	}
	return &reducer.Reduction{
		Entries: width, L1: want.L1, L2: want.L2,
		Run: func(ctx context.Context, pass reducer.Pass) ([]int64, error) { return fit(ctx, q, want, pass) },
	}, nil
}

// Shape is the shape of the coefficients, with the bound in the norm that fits the noise.
func Shape(want *ratio.Wanted, norm question.Norm) question.Shape {
	bound := want.L2
	if norm == question.L1 {
		bound = want.L1
	}
	return question.Shape{Sum: &question.Vector{Entries: want.Problem.Width, Bound: bound, Norm: norm, Rate: 1}}
}

// matrix reads a tensor of finite numbers, shape [rows, columns].
func matrix(t *conclavev1.Tensor) (values []float64, columns int, err error) {
	if len(t.GetShape()) != 2 || t.GetShape()[1] == 0 ||
		uint64(t.GetShape()[0])*uint64(t.GetShape()[1])*4 != uint64(len(t.GetData())) {
		return nil, 0, fmt.Errorf("the fit's synthetic records have shape %v and %d bytes; "+
			"send [records, features], 4 bytes for each value", t.GetShape(), len(t.GetData()))
	}
	for at := 0; at < len(t.GetData()); at += 4 {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(t.GetData()[at:])))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, 0, fmt.Errorf("value %d of the fit's synthetic records is not finite", at/4)
		}
		values = append(values, v)
	}
	return values, int(t.GetShape()[1]), nil
}

// fit finds the coefficients in steps of the lattice, with one pass over the nodes for each iterate. All passes
// must come from the same nodes, since the convergence proof is for one set of records. If nodes come or go, fit
// starts again: that depends on nodes, and on no record.
func fit(ctx context.Context, q *conclavev1.Fit, want *ratio.Wanted, pass reducer.Pass) ([]int64, error) {
	shape := &conclavev1.Vector{
		Entries: uint32(want.Steps.Entries()), Bound: uint64(want.Steps.Bound),
		Norm: conclavev1.Vector_NORM_EACH, Per: conclavev1.Vector_PER_UNIT, Rate: 1,
	}
	for {
		first := true
		beta, err := ratio.Fit(ctx, want.Problem, func(_ context.Context, beta []float64) (ratio.Sums, error) {
			sums, changed, err := pass(question.Marshal(&conclavev1.LogisticSum{
				Features: q.GetFeatures(), Coefficients: beta, Bound: uint64(want.Steps.Bound), Nothing: q.GetNothing(),
			}), shape)
			if err == nil && changed && !first {
				err = errChanged
			}
			first = false
			if err != nil {
				return ratio.Sums{}, err
			}
			return want.Steps.Decode(sums)
		})
		switch {
		case err == nil:
			return want.Lattice.Round(beta), nil
		case !errors.Is(err, errChanged):
			return nil, err
		}
	}
}
