package node

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// logisticAsked is a question for the derivatives of the logistic loss that was checked.
type logisticAsked struct {
	features *ratio.Features
	steps    ratio.Steps
	beta     []float64
	nothing  bool
}

func (n *Node) checkLogisticSum(q *conclavev1.LogisticSum) (*logisticAsked, error) {
	features, err := n.ratioFeatures(q.Features)
	if err != nil {
		return nil, err
	}
	a := &logisticAsked{features: features, beta: q.Coefficients, nothing: q.Nothing}
	if len(a.beta) != features.Width() {
		return nil, fmt.Errorf("%d coefficients for %d features; use the same schema and version at both sides", len(a.beta), features.Width())
	}
	for i, b := range a.beta {
		if math.IsNaN(b) || math.IsInf(b, 0) {
			return nil, fmt.Errorf("coefficient %d is not finite", i)
		}
	}
	if q.Bound > ratio.FinestBound {
		return nil, fmt.Errorf("the fixed-point bound of a fit is %d; use %d at most", q.Bound, int64(ratio.FinestBound))
	}
	a.steps = ratio.Steps{Width: features.Width(), Clip: features.Clip(), Bound: int64(q.Bound)}
	return a, a.steps.Validate()
}

// ratioFeatures makes the features that a description names.
func (n *Node) ratioFeatures(d *conclavev1.RatioFeatures) (*ratio.Features, error) {
	if d == nil {
		return nil, errors.New("the question does not describe its features")
	}
	numbers := n.features
	if n.classes > 1 {
		numbers += n.classes
	}
	if len(d.Mean) != numbers {
		return nil, fmt.Errorf("features in units of %d numbers; the schema has %d with its classes, so use the same schema at both sides", len(d.Mean), numbers)
	}
	return ratio.New(ratio.Spec{
		Mean: d.Mean, Scale: d.Scale, Classes: n.classes, Squares: d.Squares, Clip: d.Clip, Indicators: partition.NewEncoder(n.schema).Indicators(),
	})
}

// logisticSum returns the sum over the node's privacy units of the gradients of their
// losses, and of the upper triangles of their second derivatives, in whole steps; see
// [ratio.Pass], which bounds what a unit adds. It has no noise: the aggregator fits
// with it, and releases noisy coefficients alone.
func (n *Node) logisticSum(a *logisticAsked) ([]int64, error) {
	width := a.features.Width()
	if a.nothing {
		return make([]int64, width+ratio.Triangle(width)), nil
	}
	pass, err := ratio.NewPass(a.steps, a.beta)
	if err != nil {
		return nil, err
	}
	var records []float64
	for _, unit := range n.units {
		if cap(records) < len(unit)*width {
			records = make([]float64, len(unit)*width)
		}
		records = records[:len(unit)*width]
		for i, r := range unit {
			x := n.examples[r.teacher].ByClass[r.class][r.at*n.features : (r.at+1)*n.features]
			a.features.At(records[i*width:(i+1)*width], x, r.class)
		}
		if err := pass.Add(records); err != nil {
			return nil, err
		}
	}
	gradient, hessian := pass.Sums()
	return append(gradient, hessian...), nil
}
