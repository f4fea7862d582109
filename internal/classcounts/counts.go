// Package classcounts is the question for the number of records of each class.
package classcounts

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Kind asks for the sum of the classes of all privacy units.
var Kind = question.Kind{Name: "class-counts", Read: question.Typed(read), Streams: true}

// maxScale is the largest fixed-point unit of class counts, as for sums at aggregators.
const maxScale = 1 << 20

func read(p *question.Public, q *conclavev1.ClassCounts) (*question.Checked, error) {
	if int64(q.Classes) != int64(p.Classes) {
		return nil, fmt.Errorf("counts of %d classes; the schema has %d, use the same schema on both sides",
			q.Classes, p.Classes)
	}
	if q.Scale < 1 || q.Scale > maxScale {
		return nil, fmt.Errorf("class counts at scale %d; use 1 to %d", q.Scale, uint64(maxScale))
	}
	return &question.Checked{
		Shape: Shape(p.Classes, int64(q.Scale)),
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			return s.Add(p.Classes, func() question.Adder { return adder(int64(q.Scale)) })
		},
	}, nil
}

// Shape is the shape of the counts of so many classes, to which a unit adds at most scale in total.
func Shape(classes int, scale int64) question.Shape {
	return question.Shape{Sum: &question.Vector{
		Entries: classes, Bound: scale, Norm: question.L1, Counts: true, Rate: 1,
	}}
}

// adder counts the classes of records. A unit with k records adds floor(scale/k) for each of them: at most scale
// in the L1 norm, and so in the L2 norm, for any number of records.
func adder(scale int64) question.Adder {
	return func(b *question.Block, sum []int64) {
		for i, class := range b.Classes {
			_, of := b.Place(i)
			sum[class] += scale / int64(of)
		}
	}
}
