package labels

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Sum asks for the sum over all records of the gradient of the log-likelihood of their labels, with respect to the
// weights of a [Rule].
//
// The gradient of a record of class y with the unit vector z is (e_y - p) z, where p are the rule's probabilities. Its
// norm is that of e_y - p, which is below sqrt(2).
var Sum = question.Kind{Name: "labels", Read: question.Typed(readSum), Streams: true}

// MostEntries bounds the numbers of a sum.
const MostEntries = 1 << 17

func readSum(p *question.Public, q *conclavev1.LabelSum) (*question.Checked, error) {
	if p.Classes < 2 {
		return nil, fmt.Errorf("labels of %d classes; use a schema with a label of 2 classes at least", p.Classes)
	}
	if err := question.CheckClip(q.Clip); err != nil {
		return nil, err
	}
	if err := question.CheckBound("labels", q.Bound); err != nil {
		return nil, err
	}
	rule, err := read(p, q)
	if err != nil {
		return nil, err
	}
	entries := len(rule.Weights)
	return &question.Checked{
		Shape:    question.Shape{Sum: &question.Vector{Entries: entries, Bound: int64(q.Bound), Rate: 1}},
		Baseline: q.Nothing,
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			if q.Nothing {
				return make([]int64, entries), nil
			}
			return rule.sum(s, q.Clip, int64(q.Bound))
		},
	}, nil
}

// read reads the rule of a question.
func read(p *question.Public, q *conclavev1.LabelSum) (*Rule, error) {
	var all [4][]float32
	for i, raw := range [4][]byte{q.Mean, q.Scale, q.Weights, q.Offsets} {
		var err error
		if all[i], err = safetensors.Floats(raw); err != nil {
			return nil, err
		}
	}
	scaling, err := NewScaling(p.Features, p.Numbers, all[0], all[1])
	if err != nil {
		return nil, err
	}
	r := &Rule{scaling, all[2], all[3]}
	switch {
	case r.Classes() != p.Classes || len(r.Weights) != r.Classes()*r.Width():
		return nil, fmt.Errorf("%d weights and %d offsets, and the schema has %d classes and records of %d entries; "+
			"use the same schema and version on both sides", len(r.Weights), len(r.Offsets), p.Classes, r.Width())
	case len(r.Weights) > MostEntries:
		return nil, fmt.Errorf("%d weights, and %d is the most", len(r.Weights), MostEntries)
	}
	for _, of := range [][]float32{r.Weights, r.Offsets} {
		for i, v := range of {
			if v-v != 0 {
				return nil, fmt.Errorf("weight or offset %d is not finite", i+1)
			}
		}
	}
	return r, nil
}

// Round is the question about a rule in the form that nodes are sent.
func (r *Rule) Round(number uint64, clip float64, bound int64, nothing bool) *conclavev1.Round {
	round := question.Ask(Sum.Name, &conclavev1.LabelSum{
		Mean: safetensors.Bytes(r.mean), Scale: safetensors.Bytes(r.scale), Weights: safetensors.Bytes(r.Weights),
		Offsets: safetensors.Bytes(r.Offsets), Clip: clip, Bound: uint64(bound), Nothing: nothing,
	}, question.Shape{Sum: &question.Vector{Entries: len(r.Weights), Bound: bound, Rate: 1}})
	round.Number = number
	return round
}

// sum adds up the gradients of all records, in whole steps.
//
// For each of its k records a unit adds integers with an L2 norm of at most bound/k, which stands for clip, so at
// most bound in total; [gnmax.AppendEncoded] scales a longer gradient down, and checks the norm on the integers
// themselves. They depend on no other record. A record without a direction adds nothing, without an error.
func (r *Rule) sum(s *question.Site, clip float64, bound int64) ([]int64, error) {
	return s.Add(len(r.Weights), func() question.Adder {
		width := r.Width()
		z, shares := make([]float64, width), make([]float64, r.Classes())
		gradient, steps := make([]float64, len(r.Weights)), []int64(nil)
		return func(b *question.Block, sum []int64) {
			for i, class := range b.Classes {
				_, of := b.Place(i)
				fixed, err := gnmax.NewFixedPoint(clip, max(1, bound/int64(of)))
				if err != nil || bound < int64(of) || !r.Of(z, b.Record(i)) {
					continue // a unit with more records than steps adds nothing
				}
				r.Shares(shares, z)
				shares[class]-- // p - e_y
				for c, p := range shares {
					for j, v := range z {
						gradient[c*width+j] = -p * v
					}
				}
				if steps, err = gnmax.AppendEncoded(steps[:0], fixed, gradient); err != nil {
					continue
				}
				for j, step := range steps {
					sum[j] += step
				}
			}
		}
	})
}
