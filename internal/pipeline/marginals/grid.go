package marginals

import (
	"context"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/labels"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// grid has the cells of the pairs: larger ones in which all pairs are counted, and smaller ones within them for
// the chosen pairs. It follows from the first release.
type grid struct {
	pairs            [][2]int // all that are counted in larger cells
	scouted, columns []cells
	large, of        [][]int // by column, the cell of each fine cell
	signs            []signs // of a wide table's columns; nil for other tables
	// few means that there are so few records that only the pairs with the label are counted.
	few bool
}

func (s *student) grid(fine []fineColumn) (g grid) {
	records := sumOf(fine[0].records)
	noise := func(pairs int) float64 { return noiseOf(s.noise[1], pairs) }
	widest := s.t.widest()
	g.pairs = s.t.pairsOf(widest)
	if s.t.isWide(widest) {
		s.wideGrid(&g, fine, records, noise(len(g.pairs)+len(s.t.halved(widest))))
		return g
	}
	if label := s.t.labelPlace(); label >= 0 && records/noise(len(g.pairs)) < leastCells*leastCells {
		g.few = true
		g.pairs = slices.DeleteFunc(g.pairs, func(p [2]int) bool { return p[0] != label && p[1] != label })
	}
	all, few := noise(len(g.pairs)), noise(min(len(g.pairs), 2*len(fine)))
	// With more cells the pairs' counts would be smaller than their noise.
	most := func(noise float64, least, most int) int {
		return min(most, max(least, int(roomFor(records, noise))))
	}
	least := 4
	if g.few {
		least = leastFewCells
	}
	scout, measure := most(all, 2, scoutCells), most(few, least, s.t.o.Cells)
	label := s.t.labelPlace()
	for i := range fine {
		c := &fine[i]
		large, ofLarge := c.all()
		if i != label || isNumber(c.of) {
			large, ofLarge = c.coarse(records, all, min(scout, s.t.o.Cells), nil)
		}
		small, of := c.coarse(records, few, measure, ofLarge)
		g.scouted, g.large = append(g.scouted, large), append(g.large, ofLarge)
		g.columns, g.of = append(g.columns, small), append(g.of, of)
	}
	return g
}

// noiseOf is the noise in a cell of a pair, in records, if so many pairs are asked with a noise multiplier.
func noiseOf(sigma float64, pairs int) float64 {
	return sigma * math.Sqrt(max(1, float64(pairs)/(1-onColumns)))
}

// roomFor is the number of cells of a column for which noise leaves room: in a table of as many rows and columns, the
// mean count is as large as the noise.
func roomFor(records, noise float64) float64 { return math.Sqrt(records / noise) }

// wideGrid has the same cells for all sums after the first. Numbers have eighths; other columns have as many
// cells as the noise of that many tables allows.
func (s *student) wideGrid(g *grid, fine []fineColumn, records, noise float64) {
	most := min(scoutCells, s.t.o.Cells, max(2, int(roomFor(records, noise))))
	label := s.t.labelPlace()
	for i := range fine {
		c := &fine[i]
		coarse, of := c.all()
		switch {
		case isNumber(c.of) && i != label && !c.constrained:
			coarse, of = c.atLeastTwo(c.coarse(records, noise, min(eighths, s.t.o.Cells), nil))
		case i != label || isNumber(c.of):
			coarse, of = c.atLeastTwo(c.coarse(records, noise, most, nil))
		}
		counts := make([]float64, coarse.n)
		for f, cell := range of {
			counts[cell] += c.records[f]
		}
		g.scouted, g.large = append(g.scouted, coarse), append(g.large, of)
		g.columns, g.of = append(g.columns, coarse), append(g.of, of)
		g.signs = append(g.signs, signsOf(&coarse, counts))
	}
}

// leastCells is the number of cells of a column for which noise must leave room if all pairs are counted. With
// fewer records most pairs, including those with the label, would be lost in the noise of all of them.
const leastCells = 3

// leastFewCells is the least number of cells of a column in the third sum if records are few. The first sum hardly
// shows how records are distributed within a cell, so fewer cells would spread them over much of the range.
const leastFewCells = 8

// scoutCells is the largest number of cells of a column when all pairs are counted.
const scoutCells = 9

// choose finds the pairs of the third question from the first two releases.
func (s *student) choose(ctx context.Context, fine []fineColumn, g grid) error {
	r := s.released(fine, g)
	r.looking, r.steps = true, max(1, r.steps/4)
	_, sets, err := r.fit(ctx)
	if err != nil {
		return err
	}
	s.Chosen = [][2]int{}
	for _, set := range sets {
		s.Chosen = append(s.Chosen, [2]int{set[0], set[1]})
	}
	return nil
}

// question makes the second or the third question.
func (s *student) question(g grid, number int) (err error) {
	columns, of := g.scouted, g.pairs
	switch {
	case g.signs != nil && number == 1:
		s.questions[number], err = s.t.wideQuestion(g.columns, g.signs, s.second.Sigma)
		return err
	case g.signs != nil:
		s.questions[number], err = s.t.signsQuestion(g.columns, g.signs, s.second.Sigma)
		return err
	case number == 2:
		columns, of = g.columns, s.Chosen
	}
	alone := onColumns
	if g.few {
		alone = onFewColumns
	}
	s.questions[number], err = s.t.pairsQuestion(columns, of, alone, s.second.Sigma)
	return err
}

// released returns the tables of the releases so far, in the smallest cells.
func (s *student) released(fine []fineColumn, g grid) *released {
	label := s.t.labelPlace()
	r := &released{forbidden: s.t.forbidden(fine, g.columns, g.of), label: label,
		pooled:  label >= 0 && !isNumber(g.columns[label].of),
		records: sumOf(fine[0].records), maxSize: s.t.o.Size, steps: s.t.o.Steps}
	for i, c := range g.columns {
		r.sizes = append(r.sizes, c.n)
		counts := make([]float64, c.n)
		for f, cell := range g.of[i] {
			counts[cell] += fine[i].records[f]
		}
		// Each cell has this many fine cells on average.
		variance := fine[i].variance * float64(len(g.of[i])) / float64(c.n)
		r.alone = append(r.alone, tree.Measured{Columns: []int{i}, Counts: counts, Variance: variance})
	}
	for number := 2; number >= 1; number-- {
		if s.sums[number] == nil {
			continue
		}
		question := s.questions[number]
		for i := range question.tables {
			t := &question.tables[i]
			if t.second >= len(g.columns) {
				continue // a contrast
			}
			m := tree.Measured{Columns: []int{t.first}, Counts: t.counts(s.sums[number]),
				Variance: t.variance(question.bound, s.noise[1])}
			if number == 1 {
				m.Of = g.larger(t.first, t.second)
			}
			if t.second == t.first {
				r.alone = append(r.alone, m)
				continue
			}
			m.Columns = append(m.Columns, t.second)
			var empty []bool
			if number == 2 {
				empty = sparse(&m, g.columns[t.first].n, g.columns[t.second].n, r.records)
			}
			r.empty = append(r.empty, empty)
			r.pairs = append(r.pairs, m)
		}
	}
	return r
}

// larger maps each cell of a table to the larger cell that contains it.
func (g *grid) larger(first, second int) []int32 {
	of := func(column int) []int {
		out := make([]int, g.columns[column].n)
		for f, cell := range g.of[column] {
			out[cell] = g.large[column][f]
		}
		return out
	}
	var out []int32
	for _, a := range of(first) {
		if first == second {
			out = append(out, int32(a))
			continue
		}
		for _, b := range of(second) {
			out = append(out, int32(a*g.scouted[second].n+b))
		}
	}
	return out
}

// With many columns, noise hides much of what pairs of them tell of the label. Then a rule that is learned for the
// label alone is worth its price. The borders were chosen by a few tables, which docs/relabel.md names.
const (
	// manyColumns is from how many columns on a table that is not wide may have one. With fewer, pairs tell enough.
	manyColumns = 30
	// enoughRecords is the public number of records below which noise may hide the rule: with 1,000 records of 450
	// columns it did harm.
	enoughRecords = 5000
)

// NeedsRule tells whether rows of the table should get their labels from a rule. It follows from public numbers alone.
func (t *training) NeedsRule(budget privacy.Budget) bool {
	columns := t.widest()
	switch {
	case t.labelPlace() < 0 || t.Records < enoughRecords:
		return false
	case t.isWide(columns):
		return len(t.tied(columns)) >= labels.ManyColumns
	case len(columns) < manyColumns:
		return false
	}
	sigma, err := privacy.GaussianSigma(budget, 1, nil)
	if err != nil {
		return false // the plan reports it
	}
	room := roomFor(float64(t.Records), noiseOf(sigma/math.Sqrt(t.ofPairs()), len(t.pairsOf(columns))))
	return room >= leastCells && room < scoutCells
}
