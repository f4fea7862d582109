package embedding

import (
	"math"

	"github.com/conclave-dp/conclave/partition"
)

// singles is the part of single columns.
type singles struct {
	columns []column
	first   []int // of each column's cells
	width   int
	cells   int
	scale   float32
}

func newSingles(p Part, e *partition.Encoder, room int) (block, error) {
	s := &singles{columns: columnsOf(e, p.Bins), width: e.Width()}
	for _, c := range s.columns {
		s.first = append(s.first, s.cells)
		s.cells += c.cells
	}
	if s.cells > room {
		return nil, errRoom(s.cells, room)
	}
	s.scale = float32(p.Weight / math.Sqrt(float64(len(s.columns))))
	return s, nil
}

func (s *singles) count() int { return s.cells }

func (s *singles) each(x []float32, n int, add func(i, at int, value float32)) {
	for i := range n {
		row := x[i*s.width : (i+1)*s.width]
		for j := range s.columns {
			p := s.columns[j].place(row)
			add(i, s.first[j]+p.a, s.scale*p.shareA)
			if p.b >= 0 {
				add(i, s.first[j]+p.b, s.scale*p.shareB)
			}
		}
	}
}

func (s *singles) slope(dx, x []float32, n int, weights func(i int) []float32) {
	for i := range n {
		w, row, to := weights(i), x[i*s.width:(i+1)*s.width], dx[i*s.width:(i+1)*s.width]
		for j := range s.columns {
			c := &s.columns[j]
			c.slope(to, row, w[s.first[j]:s.first[j]+c.cells], s.scale)
		}
	}
}
