package marginals

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
)

// released are the tables of the second sum, by columns.
type released struct {
	sizes        []int
	alone, pairs []tree.Measured
	forbidden    []forbidden
	empty        [][]bool // by pair, its cells that count as empty; nil for a pair without any
	label        int      // its place, -1 for none
	pooled       bool     // the pairs with the label may be taken all together, see withLabel
	records      float64
	maxSize      int  // of the model, in cells
	steps        int  // largest number in a fit
	looking      bool // for the pairs only
}

// together is the number of pairs that are added before the model is fitted again.
func together(pairs int) int { return max(3, pairs/40) }

// fit chooses the pairs of the model and fits it. It begins with independent columns. It then adds the pairs
// whose noisy tables differ most from the model's, beyond what noise explains, as long as the model's tables
// stay within the size limit.
func (r *released) fit(ctx context.Context) (model *tree.Tree, sets [][]int, err error) {
	in := make([]bool, len(r.pairs))
	model = r.build(nil)
	model.Fit(r.records, r.alone, r.steps)
	sets = r.withLabel(model, in)
	with := r.build(sets)
	r.lower(with, model)
	model = with
	model.Fit(r.records, r.inModel(model), r.steps)
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		added := 0
		for _, i := range r.worst(model, in) {
			with := append(slices.Clone(sets), r.pairs[i].Columns)
			if r.cells(with) > r.maxSize {
				in[i] = true // it is too large now, and stays so
				continue
			}
			sets, in[i] = with, true
			if added++; added == together(len(r.pairs)) {
				break
			}
		}
		if added == 0 {
			break
		}
		larger := r.build(sets)
		larger.Take(model)
		r.lower(larger, model)
		model = larger
		model.Fit(r.records, r.inModel(model), r.steps/4)
	}
	if !r.looking {
		model.Fit(r.records, r.inModel(model), r.steps)
	}
	return model, sets, nil
}

// withLabel returns the pairs with the label whose gap is larger than the expected noise, the smallest tables
// first, as long as there is room. Many uses of the rows predict the label. A gap between a column and the
// label can be lost in the noise of every single pair, and still be clear over all pairs.
//
// If the pairs do not stand out even together, pairs beyond the noise are mostly those that noise has enlarged. All
// are then taken, so that their errors cancel out.
func (r *released) withLabel(model *tree.Tree, in []bool) (sets [][]int) {
	var order []int
	all := r.pooled && !r.standOut(model)
	for i, m := range r.pairs {
		if slices.Contains(m.Columns, r.label) && (all || r.beyond(model, m) > 0) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(r.pairs[a].Counts) - len(r.pairs[b].Counts) })
	for _, i := range order {
		with := append(slices.Clone(sets), r.pairs[i].Columns)
		if r.cells(with) <= r.maxSize {
			sets, in[i] = with, true
		}
	}
	return sets
}

// standOut tells whether the pairs with the label differ from the model by more than noise, taken together: whether
// their squared distances, in variances of the noise, exceed the expected sum by two of its standard deviations.
func (r *released) standOut(model *tree.Tree) bool {
	excess, cells := 0.0, 0.0
	for _, m := range r.pairs {
		if !slices.Contains(m.Columns, r.label) {
			continue
		}
		for i, p := range m.Table(model.Pair(m.Columns[0], m.Columns[1])) {
			off := r.records*p - m.Counts[i]
			excess += off*off/m.Variance - 1
		}
		cells += float64(len(m.Counts))
	}
	return excess > 2*math.Sqrt(2*cells) // each term has variance 2 if it is noise
}

// rare is how much less likely cells that count as empty become, as a logarithm.
const rare = 12

// lower makes the cells that count as empty rare, for the pairs that a model has and the one before did not
// have.
func (r *released) lower(model, before *tree.Tree) {
	for i, m := range r.pairs {
		if r.empty[i] != nil && model.Holds(m.Columns) && !before.Holds(m.Columns) {
			model.Lower(m.Columns, r.empty[i], rare)
		}
	}
}

// sparse finds the cells of a table that count as empty: they do not stand out of the noise, and neither does
// their sum. Tables of columns that determine each other have many; otherwise each of their cells would keep a
// little of the noise. Counts of the cells become 0.
//
// A row of the table in which no cell stands out has its records in the columns that have no such cell either,
// or else in its largest cell. The same holds for a column.
//
// This is done if each row, or each column, has one cell that stands out: one column then follows from the
// other. Otherwise it is done only if the loss is surely small.
func sparse(m *tree.Measured, rows, columns int, records float64) []bool {
	deviation := math.Sqrt(m.Variance)
	const out = 3 // deviations
	largest, above := make([]int, rows), make([]int, columns)
	for i, c := range m.Counts {
		row, column := i/columns, i%columns
		if column == 0 || c > m.Counts[largest[row]] {
			largest[row] = i
		}
		if row == 0 || c > m.Counts[above[column]] {
			above[column] = i
		}
	}
	plain := func(at []int) (n int) {
		for _, i := range at {
			if m.Counts[i] < out*deviation {
				n++
			}
		}
		return n
	}
	plainRows, plainColumns := plain(largest), plain(above)
	low := make([]bool, len(m.Counts))
	sum, n := 0.0, 0.0
	for i, c := range m.Counts {
		row, column := i/columns, i%columns
		isPlain, isPlainToo := m.Counts[largest[row]] < out*deviation, m.Counts[above[column]] < out*deviation
		switch {
		case c >= out*deviation, isPlain && isPlainToo,
			isPlain && plainColumns == 0 && largest[row] == i, isPlainToo && plainRows == 0 && above[column] == i:
			continue
		}
		low[i] = true
		sum += c
		n++
	}
	// Cutting off values above leaves noise with a mean slightly below 0.
	const cut = 0.00443 // the normal density at 3
	off, spread := sum+deviation*cut*n, deviation*math.Sqrt(n)
	unknown := plainRows * plainColumns
	chance := int(n) / 100 // more cells than stand out by chance
	follows := len(low)-int(n) <= max(rows, columns)+unknown+chance
	// By chance the sum of this many cells is off by 1.5 deviations once in fifteen times. That is too often if
	// nearly all rows show that the column follows.
	allowed := 1.5
	if follows && unknown <= max(rows, columns)/2 {
		allowed = 2.5
	}
	if n == 0 || off > allowed*spread || !follows && off+2*spread > 0.005*records {
		return nil
	}
	for i, empty := range low {
		if empty {
			m.Counts[i] = 0
		}
	}
	return low
}

// inModel returns the measured tables for which the model has cells, chosen or not.
func (r *released) inModel(model *tree.Tree) []tree.Measured {
	all := slices.Clone(r.alone)
	for _, m := range r.pairs {
		if model.Holds(m.Columns) {
			all = append(all, m)
		}
	}
	return all
}

// worst returns the pairs outside the model whose gap is larger than noise explains, the largest first.
func (r *released) worst(model *tree.Tree, in []bool) []int {
	gaps := make([]float64, len(r.pairs))
	var wait sync.WaitGroup
	next := make(chan int)
	for range 4 {
		wait.Go(func() {
			for i := range next {
				gaps[i] = r.gap(model, r.pairs[i])
			}
		})
	}
	for i := range r.pairs {
		if !in[i] && !model.Holds(r.pairs[i].Columns) {
			next <- i
		}
	}
	close(next)
	wait.Wait()
	var order []int
	for i, g := range gaps {
		if g > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(gaps[b], gaps[a]) })
	return order
}

// beyond is the distance of a noisy table from the model's, less the expected noise.
func (r *released) beyond(model *tree.Tree, m tree.Measured) float64 {
	distance := 0.0
	for i, p := range m.Table(model.Pair(m.Columns[0], m.Columns[1])) {
		distance += math.Abs(r.records*p - m.Counts[i])
	}
	return distance - math.Sqrt(2/math.Pi*m.Variance)*float64(len(m.Counts))
}

// labelled is the extra weight of the gap of a pair with the label.
const labelled = 1.5

// gap is the distance of a noisy table from the model's, less the part that noise alone explains; 0 if noise
// may explain all of it.
func (r *released) gap(model *tree.Tree, m tree.Measured) float64 {
	gap := r.beyond(model, m)
	if gap < math.Sqrt(m.Variance*float64(len(m.Counts))) {
		return 0
	}
	if m.Columns[0] == r.label || m.Columns[1] == r.label {
		gap *= labelled
	}
	return gap
}
