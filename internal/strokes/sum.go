package strokes

import (
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Sum asks for the sum of the products of pairs of directions, and of directions by class, over all records.
var Sum = question.Kind{Name: "strokes", Read: question.Typed(readSum), Streams: true}

func readSum(p *question.Public, q *conclavev1.StrokeSum) (*question.Checked, error) {
	if err := question.CheckBound("strokes", q.Bound); err != nil {
		return nil, err
	}
	mean, err := safetensors.Floats(q.GetMean())
	if err != nil {
		return nil, err
	}
	matrix, err := safetensors.Floats(q.GetDirections())
	if err != nil {
		return nil, err
	}
	d, err := NewDirections(p.Schema.Image, p.Classes, mean, matrix)
	if err != nil {
		return nil, err
	}
	return &question.Checked{
		Shape:    d.shape(int64(q.Bound)),
		Baseline: q.Nothing,
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			if q.Nothing {
				return make([]int64, d.Entries()), nil
			}
			return d.sum(s, int64(q.Bound))
		},
	}, nil
}

func (d *Directions) shape(bound int64) question.Shape {
	return question.Shape{Sum: &question.Vector{Entries: d.Entries(), Bound: bound, Rate: 1}}
}

// Round is the question in the form that nodes are sent.
func (d *Directions) Round(number uint64, mean []float32, bound int64, nothing bool) *conclavev1.Round {
	r := question.Ask(Sum.Name, &conclavev1.StrokeSum{
		Mean: safetensors.Bytes(mean), Directions: safetensors.Bytes(d.matrix.Data), Bound: uint64(bound),
		Nothing: nothing,
	}, d.shape(bound))
	r.Number = number
	return r
}

// sum adds up what all records add, in whole steps.
//
// For each of its k records a unit adds integers with an L2 norm of at most bound/k, so at most bound in total,
// for all classes; [gnmax.AppendEncoded] checks that on the integers themselves. A record whose strokes are not
// numbers adds nothing, without an error.
func (d *Directions) sum(s *question.Site, bound int64) ([]int64, error) {
	return s.Add(d.Entries(), func() question.Adder {
		v, width, pairs := d.Vectors(), d.Width(), d.triangle()
		values, steps := make([]float64, pairs+width), []int64(nil)
		return func(b *question.Block, sum []int64) {
			all := v.Of(b.Records, len(b.Classes))
			for i, class := range b.Classes {
				_, of := b.Place(i)
				fixed, err := gnmax.NewFixedPoint(1, max(1, bound/int64(of)))
				if err != nil || bound < int64(of) {
					continue // a unit with more records than steps adds nothing
				}
				terms(values, all[i*width:(i+1)*width])
				if steps, err = gnmax.AppendEncoded(steps[:0], fixed, values); err != nil {
					continue
				}
				for j, step := range steps[:pairs] {
					sum[j] += step
				}
				own := sum[pairs+class*width : pairs+(class+1)*width]
				for j, step := range steps[pairs:] {
					own[j] += step
				}
			}
		}
	})
}
