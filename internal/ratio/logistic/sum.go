// Package logistic asks for the derivatives of the logistic loss over all records. From them an aggregator fits the
// weights of package ratio, pass by pass.
package logistic

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Sum asks for one pass of a fit: the sum of the loss gradients of all privacy units, the number of these units,
// and the sum of the upper triangles of the Hessians.
var Sum = question.Kind{Name: "fit", Read: question.Typed(readSum), Passes: mostPasses}

// mostPasses bounds the different passes that serve one question. A fit takes at most [ratio.MostPasses], and may
// start again if nodes come or go. Repeated passes, as from an aggregator that took over, are not new ones.
// The bound does not depend on lambda: no site approves lambda, so an aggregator that wants more passes could name
// the smallest.
const mostPasses = 2 * ratio.MostPasses

func readSum(p *question.Public, q *conclavev1.LogisticSum) (*question.Checked, error) {
	f, err := features(p, q.Features)
	if err != nil {
		return nil, err
	}
	width := f.Width()
	if len(q.Coefficients) != width {
		return nil, fmt.Errorf("%d coefficients for %d features; use the same schema and version on both sides",
			len(q.Coefficients), width)
	}
	for i, b := range q.Coefficients {
		if math.IsNaN(b) || math.IsInf(b, 0) {
			return nil, fmt.Errorf("coefficient %d is not finite", i)
		}
	}
	if q.Bound > ratio.FinestBound {
		return nil, fmt.Errorf("the fixed-point bound of a fit is %d; use at most %d",
			q.Bound, int64(ratio.FinestBound))
	}
	steps := ratio.Steps{Width: width, Clip: f.Clip(), Bound: int64(q.Bound)}
	if err := steps.Validate(); err != nil {
		return nil, err
	}
	blocks := []int{width, 1, ratio.Triangle(width)}
	return &question.Checked{
		Shape: question.Shape{Sum: &question.Vector{
			Entries: steps.Entries(), Bound: steps.Bound, Norm: question.Each, Blocks: blocks, Rate: 1,
		}},
		Baseline: q.Nothing,
		Common:   question.Marshal(&conclavev1.LogisticSum{Features: q.Features, Bound: q.Bound, Nothing: q.Nothing}),
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			if q.Nothing {
				return make([]int64, steps.Entries()), nil
			}
			return sum(s, f, steps, q.Coefficients)
		},
	}, nil
}

func features(p *question.Public, d *conclavev1.RatioFeatures) (*ratio.Features, error) {
	if d == nil {
		return nil, errors.New("the question does not describe its features")
	}
	numbers := p.Features
	if p.Classes > 1 {
		numbers += p.Classes
	}
	if len(d.Mean) != numbers {
		return nil, fmt.Errorf("features in units of %d numbers; the schema has %d with its classes, use the same "+
			"schema on both sides", len(d.Mean), numbers)
	}
	return ratio.New(ratio.Spec{
		Mean: d.Mean, Scale: d.Scale, Classes: p.Classes, Squares: d.Squares, Clip: d.Clip,
		Indicators: encode.New(p.Schema).Indicators(),
	})
}

// sum adds up the gradients and Hessians of the site's privacy units in whole steps, and counts the units; see
// [ratio.Pass], which bounds a unit's contribution. It has no noise: the aggregator uses it to fit, and releases
// only noisy coefficients.
func sum(s *question.Site, f *ratio.Features, steps ratio.Steps, beta []float64) ([]int64, error) {
	pass, err := ratio.NewPass(steps, beta)
	if err != nil {
		return nil, err
	}
	width := f.Width()
	var records []float64
	for _, unit := range s.Units {
		if err := s.Wanted(); err != nil {
			return nil, err
		}
		if cap(records) < len(unit)*width {
			records = make([]float64, len(unit)*width)
		}
		records = records[:len(unit)*width]
		for i, r := range unit {
			f.At(records[i*width:(i+1)*width], s.Record(r), r.Class)
		}
		if err := pass.Add(records); err != nil {
			return nil, err
		}
	}
	return pass.Sums(), nil
}
