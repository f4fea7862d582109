package embedding

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/partition/encode"
)

// doubles is the part for pairs of columns: the cells of a pair are the table of the cells of its two columns, row
// by row.
type doubles struct {
	columns []column
	pairs   []pair
	width   int
	cells   int
	most    int // cells of a column
	scale   float32
}

// pair is two columns, with the index of the first of their cells.
type pair struct{ a, b, first int }

// maxPaired bounds the columns from which pairs are chosen: choosing lists all pairs.
const maxPaired = 1 << 11

func newDoubles(p Part, e *encode.Encoder, room int) (block, error) {
	d := &doubles{columns: columnsOf(e, p.Bins), width: e.Width()}
	m := len(d.columns)
	if m < 2 {
		return nil, nil
	}
	if m > maxPaired {
		return nil, fmt.Errorf("pairs of %d columns; leave pairs out of tables of more than %d", m, maxPaired)
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

// choose draws count of [0, n) without order; 0 or more than n means all.
func choose(n, count int, seed uint64) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	if count == 0 || count >= n {
		return all
	}
	// The standard library may change its shuffling, and all roles must agree.
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

func (d *doubles) groups() []int {
	var sizes []int
	for _, q := range d.pairs {
		sizes = append(sizes, d.columns[q.a].cells*d.columns[q.b].cells)
	}
	return sizes
}

func (d *doubles) pass() pass {
	return &doublesPass{doubles: d, by: make([]float32, len(d.columns)*d.most)}
}

// doublesPass holds the places of n records, and a record's gradient with respect to the cells of columns.
type doublesPass struct {
	*doubles
	x      []float32
	n      int
	places []place
	by     []float32
}

func (d *doublesPass) take(x []float32, n int) {
	d.x, d.n, d.places = x, n, places(d.places, d.columns, x, n)
}

func (d *doublesPass) of(i int) []place {
	return d.places[i*len(d.columns) : (i+1)*len(d.columns)]
}

func (d *doublesPass) each(i int, first int32, at []int32, values []float32) ([]int32, []float32) {
	places := d.of(i)
	for _, q := range d.pairs {
		a, b, cols := &places[q.a], &places[q.b], int32(d.columns[q.b].cells)
		cells := first + int32(q.first)
		if a.shareA != 0 {
			at, values = b.each(cells+a.a*cols, d.scale*a.shareA, at, values)
		}
		if a.b >= 0 && a.shareB != 0 {
			at, values = b.each(cells+a.b*cols, d.scale*a.shareB, at, values)
		}
	}
	return at, values
}

// each appends the place's cells, counted from first, with their shares times scale.
func (p *place) each(first int32, scale float32, at []int32, values []float32) ([]int32, []float32) {
	if p.shareA != 0 {
		at, values = append(at, first+p.a), append(values, scale*p.shareA)
	}
	if p.b >= 0 && p.shareB != 0 {
		at, values = append(at, first+p.b), append(values, scale*p.shareB)
	}
	return at, values
}

func (d *doublesPass) sum(i int, dst []float64) {
	at := d.of(i)
	for _, q := range d.pairs {
		a, b, cols := at[q.a], at[q.b], d.columns[q.b].cells
		row := dst[q.first+int(a.a)*cols:]
		row[b.a] += float64(d.scale * a.shareA * b.shareA)
		if b.b >= 0 {
			row[b.b] += float64(d.scale * a.shareA * b.shareB)
		}
		if a.b < 0 {
			continue
		}
		row = dst[q.first+int(a.b)*cols:]
		row[b.a] += float64(d.scale * a.shareB * b.shareA)
		if b.b >= 0 {
			row[b.b] += float64(d.scale * a.shareB * b.shareB)
		}
	}
}

// slope computes for each column of a pair the gradient with respect to its cells, with the other column fixed. It
// adds them up over the column's pairs, which all use the same cells.
func (d *doublesPass) slope(dx []float32, weights func(i int) []float32) {
	for i := range d.n {
		w, at := weights(i), d.of(i)
		clear(d.by)
		for _, q := range d.pairs {
			d.slopeOfPair(q, w[q.first:], at[q.a], at[q.b])
		}
		row, to := d.x[i*d.width:(i+1)*d.width], dx[i*d.width:(i+1)*d.width]
		for j, p := range at {
			c := &d.columns[j]
			c.slope(to, row, d.by[j*d.most:j*d.most+c.cells], p, d.scale)
		}
	}
}

// slopeOfPair adds to the gradients with respect to the cells of two columns, given the gradient w with respect to
// those of the pair.
func (d *doublesPass) slopeOfPair(q pair, w []float32, a, b place) {
	colA, colB := &d.columns[q.a], &d.columns[q.b]
	cols := colB.cells
	byA, byB := d.by[q.a*d.most:][:colA.cells], d.by[q.b*d.most:][:cols]
	if colB.near() {
		byB[b.a] += a.shareA * w[int(a.a)*cols+int(b.a)]
		byB[b.b] += a.shareA * w[int(a.a)*cols+int(b.b)]
		if a.b >= 0 {
			byB[b.a] += a.shareB * w[int(a.b)*cols+int(b.a)]
			byB[b.b] += a.shareB * w[int(a.b)*cols+int(b.b)]
		}
	} else {
		for k, v := range w[int(a.a)*cols:][:cols] {
			byB[k] += a.shareA * v
		}
		if a.b >= 0 {
			for k, v := range w[int(a.b)*cols:][:cols] {
				byB[k] += a.shareB * v
			}
		}
	}
	along := func(k int) {
		v := b.shareA * w[k*cols+int(b.a)]
		if b.b >= 0 {
			v += b.shareB * w[k*cols+int(b.b)]
		}
		byA[k] += v
	}
	if colA.near() {
		along(int(a.a))
		along(int(a.b))
		return
	}
	for k := range byA {
		along(k)
	}
}
