package embedding

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/partition"
)

// doubles is the part of pairs of columns: the cells of a pair are the table of the cells
// of its two, row by row.
type doubles struct {
	columns []column
	pairs   []pair
	width   int
	cells   int
	most    int // cells of a column
	scale   float32
}

// pair is two columns, with the first of their cells.
type pair struct{ a, b, first int }

func newDoubles(p Part, e *partition.Encoder, room int) (block, error) {
	d := &doubles{columns: columnsOf(e, p.Bins), width: e.Width()}
	m := len(d.columns)
	if m < 2 {
		return nil, nil
	}
	for _, at := range choose(m*(m-1)/2, p.Count, p.Seed) {
		a, b := pairOf(at, m)
		d.pairs = append(d.pairs, pair{a: a, b: b, first: d.cells})
		d.cells += d.columns[a].cells * d.columns[b].cells
		if d.cells > room {
			return nil, errRoom(d.cells, room)
		}
	}
	for _, c := range d.columns {
		d.most = max(d.most, c.cells)
	}
	d.scale = float32(p.Weight / math.Sqrt(float64(len(d.pairs))))
	return d, nil
}

// choose draws count of [0, n) without order; 0 or more than all stands for all.
func choose(n, count int, seed uint64) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	if count == 0 || count >= n {
		return all
	}
	// The standard library may change how it shuffles, and roles must agree.
	bits := rand.NewPCG(seed, 0x9a125)
	for i := range count {
		j := i + int(bits.Uint64()%uint64(n-i))
		all[i], all[j] = all[j], all[i]
	}
	return all[:count]
}

// pairOf is pair number at of m columns: (0, 1), (0, 2), ..., (1, 2), ...
func pairOf(at, m int) (a, b int) {
	for ; at >= m-1-a; a++ {
		at -= m - 1 - a
	}
	return a, a + 1 + at
}

func (d *doubles) count() int { return d.cells }

// places finds a record in all columns.
func (d *doubles) places(dst []place, row []float32) {
	for j := range dst {
		dst[j] = d.columns[j].place(row)
	}
}

func (d *doubles) each(x []float32, n int, add func(i, at int, value float32)) {
	places := make([]place, len(d.columns))
	for i := range n {
		d.places(places, x[i*d.width:(i+1)*d.width])
		for _, q := range d.pairs {
			a, b, cols := &places[q.a], &places[q.b], d.columns[q.b].cells
			at := q.first + a.a*cols
			add(i, at+b.a, d.scale*a.shareA*b.shareA)
			if b.b >= 0 {
				add(i, at+b.b, d.scale*a.shareA*b.shareB)
			}
			if a.b < 0 {
				continue
			}
			at = q.first + a.b*cols
			add(i, at+b.a, d.scale*a.shareB*b.shareA)
			if b.b >= 0 {
				add(i, at+b.b, d.scale*a.shareB*b.shareB)
			}
		}
	}
}

// slope gives each column of a pair the gradient by its cells with the other as it is. They
// are added up over a column's pairs, which all have the same cells.
func (d *doubles) slope(dx, x []float32, n int, weights func(i int) []float32) {
	places := make([]place, len(d.columns))
	by := make([]float32, len(d.columns)*d.most)
	for i := range n {
		row, w := x[i*d.width:(i+1)*d.width], weights(i)
		d.places(places, row)
		clear(by)
		for _, q := range d.pairs {
			a, b, cols := &places[q.a], &places[q.b], d.columns[q.b].cells
			byA, byB := by[q.a*d.most:], by[q.b*d.most:q.b*d.most+cols]
			w := w[q.first : q.first+d.columns[q.a].cells*cols]
			for k, v := range w[a.a*cols : (a.a+1)*cols] {
				byB[k] += a.shareA * v
			}
			if a.b >= 0 {
				for k, v := range w[a.b*cols : (a.b+1)*cols] {
					byB[k] += a.shareB * v
				}
			}
			byA = byA[:d.columns[q.a].cells]
			for k := range byA {
				byA[k] += b.shareA * w[k*cols+b.a]
			}
			if b.b >= 0 {
				for k := range byA {
					byA[k] += b.shareB * w[k*cols+b.b]
				}
			}
		}
		to := dx[i*d.width : (i+1)*d.width]
		for j := range d.columns {
			c := &d.columns[j]
			c.slope(to, row, by[j*d.most:j*d.most+c.cells], d.scale)
		}
	}
}
