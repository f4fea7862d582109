package tree

import (
	"math"
	"math/rand/v2"
)

// rounding rounds the expected numbers of rows of all groups. Each becomes one of the whole numbers next to it, and
// the groups keep their numbers of rows. The numbers are right in expectation, and so are those of any cells of two
// groups together, since every step moves the same amount there and back ("controlled rounding", Cox 1987). Sums
// over groups differ from what is expected by the rounding of a few groups, and not of all.
type rounding struct {
	rng  *rand.Rand
	open []*parts // of groups that are not rounded yet
}

// parts are what is left of the expected numbers of a group: fractions of cells, in rising order of the cells.
type parts struct {
	cells, choices []int32
	parts          []float64
	rounds         func(choice int32) // is called for each choice that is rounded up
}

// add adds the fraction of a choice. Choices of several groups that are the same cell may be exchanged.
func (p *parts) add(cell, choice int32, part float64) {
	p.cells, p.choices, p.parts = append(p.cells, cell), append(p.choices, choice), append(p.parts, part)
}

// mostOpen is the number of groups whose fractions are still open. More make sums over groups more exact.
const mostOpen = 32

// almost is how near to a whole number a fraction counts as one.
const almost = 1e-9

// add rounds the fractions of one more group as far as the others allow. Their sum is a whole number.
func (r *rounding) add(p *parts) {
	p.drop()
	kept := r.open[:0]
	for _, other := range r.open {
		r.exchange(other, p)
		p.drop()
		if other.drop(); len(other.cells) > 0 {
			kept = append(kept, other)
		}
	}
	clear(r.open[len(kept):])
	if r.open = kept; len(p.cells) > 0 {
		r.open = append(r.open, p)
	}
	if len(r.open) > mostOpen {
		r.settle(r.open[0])
		r.open = append(r.open[:0], r.open[1:]...)
	}
}

// close rounds everything that is open.
func (r *rounding) close() {
	for _, p := range r.open {
		r.settle(p)
	}
	r.open = nil
}

// exchange moves fractions between cells that two groups share: what one group gets in a cell the other loses, and
// the reverse in a second cell. Each step makes one fraction whole.
func (r *rounding) exchange(a, b *parts) {
	at, bt := -1, -1 // places of a shared cell that has no partner yet
	for i, j := 0, 0; i < len(a.cells) && j < len(b.cells); {
		switch {
		case a.cells[i] < b.cells[j]:
			i++
			continue
		case a.cells[i] > b.cells[j]:
			j++
			continue
		case at < 0:
			at, bt = i, j
			i++
			j++
			continue
		}
		there := min(1-a.parts[at], a.parts[i], b.parts[bt], 1-b.parts[j])
		back := min(a.parts[at], 1-a.parts[i], 1-b.parts[bt], b.parts[j])
		move := there
		if r.rng.Float64()*(there+back) >= back {
			move = -back
		}
		a.parts[at] += move
		a.parts[i] -= move
		b.parts[bt] -= move
		b.parts[j] += move
		first, second := a.open(at) && b.open(bt), a.open(i) && b.open(j)
		switch {
		case !first && second:
			at, bt = i, j
		case !first:
			at, bt = -1, -1
		}
		i++
		j++
	}
}

// open tells whether a fraction is still one.
func (p *parts) open(i int) bool { return p.parts[i] > almost && p.parts[i] < 1-almost }

// drop takes out what has become whole.
func (p *parts) drop() {
	n := 0
	for i, part := range p.parts {
		switch {
		case p.open(i):
			p.cells[n], p.choices[n], p.parts[n] = p.cells[i], p.choices[i], part
			n++
		case part > 0.5:
			p.rounds(p.choices[i])
		}
	}
	p.cells, p.choices, p.parts = p.cells[:n], p.choices[:n], p.parts[:n]
}

// settle rounds the fractions of a group by themselves, by systematic sampling. The order is random: in a fixed
// order, neighbours would never be rounded up together.
func (r *rounding) settle(p *parts) {
	sum := 0.0
	for _, part := range p.parts {
		sum += part
	}
	at, given, n := r.rng.Float64(), 0, int(math.Round(sum))
	for k, i := range r.rng.Perm(len(p.cells)) {
		at += p.parts[i]
		last := k == len(p.cells)-1 // rounding errors must not lose a row
		if given < n && (int(at) > given || last) {
			given++
			p.rounds(p.choices[i])
		}
	}
}
