package tree

import (
	"fmt"
	"math"
)

// Measured is a noisy table of columns in rising order. All counts have the same variance.
type Measured struct {
	Columns  []int
	Counts   []float64
	Variance float64
	// Of maps each cell of the columns to one of the counts; nil if each cell has its own.
	Of []int32
}

// Table adds up cells of the columns to the counted cells.
func (m *Measured) Table(cells []float64) []float64 {
	if m.Of == nil {
		return cells
	}
	out := make([]float64, len(m.Counts))
	for i, p := range cells {
		out[m.Of[i]] += p
	}
	return out
}

// placed are the measured tables of some columns, in a clique that contains these.
type placed struct {
	measured []Measured
	clique   int
	at       []int32 // the columns' cell for each cell of the clique
	p, g     []float64
}

// place finds the cliques of measured tables.
func (t *Tree) place(measured []Measured) (all []placed) {
	of := map[string]int{}
	for _, m := range measured {
		name := fmt.Sprint(m.Columns)
		i, found := of[name]
		if !found {
			n, clique := cellsOf(t.sizes, m.Columns), t.holding(m.Columns)
			i, of[name] = len(all), len(all)
			all = append(all, placed{nil, clique, t.index(t.cliques[clique].columns, m.Columns), make([]float64, n),
				make([]float64, n)})
		}
		all[i].measured = append(all[i].measured, m)
	}
	return all
}

// slope adds the derivatives of the loss by the columns' cells, per record.
func (h *placed) slope(records float64) {
	clear(h.g)
	for _, m := range h.measured {
		p := m.Table(h.p)
		for cell := range h.g {
			at := cell
			if m.Of != nil {
				at = int(m.Of[cell])
			}
			h.g[cell] += (records*p[at] - m.Counts[at]) * records / m.Variance
		}
	}
}

// Fit moves the distribution towards measured tables whose columns are in a clique. It lowers the sum of their
// squared errors over their variances, in at most the given number of steps. A repeated call continues. It
// returns the loss.
func (t *Tree) Fit(records float64, measured []Measured, steps int) float64 {
	all := t.place(measured)
	t.propagate()
	loss := t.loss(records, all)
	// The right step for a single table: no useful step is far above it.
	rate := 0.0
	for _, m := range measured {
		rate = max(rate, 1/(records*records/m.Variance))
	}
	saved := make([][]float64, len(t.cliques))
	before := make([][]float64, len(t.cliques))
	slope := make([][]float64, len(t.cliques))
	for i, c := range t.cliques {
		saved[i], before[i] = make([]float64, len(c.log)), make([]float64, len(c.log))
		slope[i] = make([]float64, len(c.log))
	}
	rate *= 64
	for range steps {
		for i := range t.cliques {
			clear(slope[i])
			copy(saved[i], t.cliques[i].log)
			copy(before[i], t.cliques[i].p)
		}
		for _, h := range all {
			h.slope(records)
			s := slope[h.clique]
			for j, cell := range h.at {
				s[j] += h.g[cell]
			}
		}
		stuck := true
		for range 40 {
			for i := range t.cliques {
				log := t.cliques[i].log
				for j, s := range slope[i] {
					log[j] = saved[i][j] - rate*s
				}
			}
			if !t.propagate() {
				rate /= 2
				continue
			}
			after := t.loss(records, all)
			gain := 0.0
			for i := range t.cliques {
				for j, s := range slope[i] {
					gain += s * (before[i][j] - t.cliques[i].p[j])
				}
			}
			if after <= loss-0.5*gain && gain >= 0 {
				stuck = loss-after < 1e-7*math.Abs(loss)
				loss = after
				rate *= 1.9
				break
			}
			rate /= 2
		}
		if stuck {
			break
		}
	}
	return loss
}

// loss is half the sum of all squared errors over their variances. It stores the tables of the distribution in
// all.
func (t *Tree) loss(records float64, all []placed) float64 {
	sum := 0.0
	for _, h := range all {
		clear(h.p)
		for j, p := range t.cliques[h.clique].p {
			h.p[h.at[j]] += p
		}
		for _, m := range h.measured {
			part := 0.0
			for cell, p := range m.Table(h.p) {
				d := records*p - m.Counts[cell]
				part += d * d
			}
			sum += part / (2 * m.Variance)
		}
	}
	return sum
}

// Lower makes cells of columns in one clique less likely by a factor of exp(-by).
func (t *Tree) Lower(columns []int, cells []bool, by float64) {
	c := &t.cliques[t.holding(columns)]
	for j, cell := range t.index(c.columns, columns) {
		if cells[cell] {
			c.log[j] -= by
		}
	}
}

// Forbid makes cells of columns in one clique impossible. It returns false if no row is possible then.
func (t *Tree) Forbid(columns []int, cells []bool) bool {
	t.Lower(columns, cells, math.Inf(1))
	return t.propagate()
}

// Take multiplies the distribution by another tree's, for the cliques that are within a clique of this tree.
func (t *Tree) Take(from *Tree) {
	for _, c := range from.cliques {
		at := t.holding(c.columns)
		if at < 0 {
			continue
		}
		for j, cell := range t.index(t.cliques[at].columns, c.columns) {
			t.cliques[at].log[j] += c.log[cell]
		}
	}
	t.propagate()
}
