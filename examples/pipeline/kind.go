package main

import (
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/conclave-dp/conclave/internal/question"
)

// cells are the ten equal parts of a column's range.
const cells = 10

// bound is how many steps one privacy unit adds to the sum.
const bound = 1 << 16

// tens is a kind of question: how many records have their number in each of ten equal parts of a
// column's range? Its parameter is the column's place among the features. This is all that
// runs at a node.
//
// Why this is private: a unit of k records adds bound/k steps, rounded down, to one cell for
// each of them. So it adds a vector whose L1 norm, and L2 norm, is at most bound, for any records
// and any number of them. What other units add does not depend on it.
var tens = question.Kind{Name: "tens", Read: question.Typed(read)}

// shape is that of the answer. The aggregator draws noise for it.
var shape = question.Shape{Sum: &question.Vector{
	Entries: cells, Bound: bound, Norm: question.L1, Counts: true, Rate: 1,
}}

func read(p *question.Public, column *wrapperspb.UInt32Value) (*question.Checked, error) {
	at := int(column.GetValue())
	if at >= p.Features {
		return nil, fmt.Errorf("column %d does not exist: the encoded schema has features 0 to %d; choose one with "+
			"the option column", at, p.Features-1)
	}
	return &question.Checked{
		Shape: shape,
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			sum := make([]int64, cells)
			for _, unit := range s.Units {
				for _, place := range unit {
					x := s.Record(place)[at] // between 0 and 1
					sum[min(cells-1, int(x*cells))] += bound / int64(len(unit))
				}
			}
			return sum, nil
		},
	}, nil
}
