package embedding

import (
	"math"

	"github.com/conclave-dp/conclave/partition/encode"
)

type singles struct {
	columns []column
	first   []int // of each column's cells
	width   int
	cells   int
	scale   float32
}

func newSingles(p Part, e *encode.Encoder, room int) (block, error) {
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

func (s *singles) groups() []int {
	var sizes []int
	for _, c := range s.columns {
		sizes = append(sizes, c.cells)
	}
	return sizes
}

func (s *singles) pass() pass { return &singlesPass{singles: s} }

type singlesPass struct {
	*singles
	x      []float32
	n      int
	places []place
}

func (s *singlesPass) take(x []float32, n int) {
	s.x, s.n, s.places = x, n, places(s.places, s.columns, x, n)
}

func (s *singlesPass) of(i int) []place {
	return s.places[i*len(s.columns) : (i+1)*len(s.columns)]
}

func (s *singlesPass) each(i int, first int32, at []int32, values []float32) ([]int32, []float32) {
	for j, p := range s.of(i) {
		at, values = p.each(first+int32(s.first[j]), s.scale, at, values)
	}
	return at, values
}

func (s *singlesPass) sum(i int, dst []float64) {
	for j, p := range s.of(i) {
		dst[s.first[j]+int(p.a)] += float64(s.scale * p.shareA)
		if p.b >= 0 {
			dst[s.first[j]+int(p.b)] += float64(s.scale * p.shareB)
		}
	}
}

func (s *singlesPass) slope(dx []float32, weights func(i int) []float32) {
	for i := range s.n {
		w, row, to := weights(i), s.x[i*s.width:(i+1)*s.width], dx[i*s.width:(i+1)*s.width]
		for j, p := range s.of(i) {
			c := &s.columns[j]
			c.slope(to, row, w[s.first[j]:s.first[j]+c.cells], p, s.scale)
		}
	}
}
