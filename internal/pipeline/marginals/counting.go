package marginals

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// CountingKind is the kind of question of a [Counting].
const CountingKind = pairsKind

// Counting asks how many records are in each cell of every column, and of every column with the label. A number
// has equal parts of its public range as cells, a category is a cell, and empty values have a cell of their
// own. Columns have one half of the squared weight, their pairs with the label the other.
//
// Why it is private: its kind is a kind of this package, so the argument in the package comment applies. The
// cells follow from the schema alone.
type Counting struct {
	asked
	alone int // number of tables of single columns
	label int // the place of the label among them, -1 without one
}

// NewCounting counts numbers in this many parts, for noise with this multiplier.
func NewCounting(schema *partition.Schema, parts int, sigma float64) (*Counting, error) {
	learned := learnedColumns(schema)
	c := &Counting{alone: len(learned), label: slices.Index(learned, schema.LabelColumn())}
	for _, at := range learned {
		of := &schema.Columns[at]
		var from []float64
		if isNumber(of) {
			var err error
			if from, err = equalParts(of, parts); err != nil {
				return nil, err
			}
		}
		c.columns = append(c.columns, plain(schema, at, from))
	}
	alone, together := make([]float64, c.alone), []float64(nil)
	for i := range alone {
		alone[i] = 1
	}
	var pairs [][2]int
	entries := 0
	for i := range c.columns {
		if entries += c.columns[i].n; c.label >= 0 && i != c.label {
			pairs, together = append(pairs, [2]int{min(i, c.label), max(i, c.label)}), append(together, 1)
			entries += c.columns[i].n * c.columns[c.label].n
		}
	}
	if entries > maxEntries {
		return nil, fmt.Errorf("the columns with the label have %d cells, and %d are the most; use a schema with "+
			"fewer categories", entries, maxEntries)
	}
	scaled(alone, 0.5)
	scaled(together, 0.5)
	return c, c.fill(sigma, pairs, alone, together)
}

// equalParts are the lower ends of parts of a number's range.
func equalParts(c *partition.Column, parts int) (from []float64, err error) {
	lo, hi := c.Range()
	for i := range parts {
		v := lo + float64(i)*(hi-lo)/float64(parts)
		if i > 0 && !(v > from[i-1] && v <= hi) {
			return nil, fmt.Errorf("the range of column %q is not divided into %d parts that differ; use bounds that "+
				"fit its numbers", c.Name, parts)
		}
		from = append(from, v)
	}
	return from, nil
}

// Entries is the length of the sum. Bound is the norm of what a unit adds to it.
func (c *Counting) Entries() int { return c.entries }
func (c *Counting) Bound() int64 { return c.bound }

// Round returns the question of a round.
func (c *Counting) Round(number uint64) *conclavev1.Round {
	r := c.round(CountingKind)
	r.Number = number
	return r
}

// Sum is the sum of rows without noise, each row a unit, for tests in other packages. NOT PRIVATE.
func (c *Counting) Sum(rows *partition.Table) []int64 {
	sum, at := make([]int64, c.entries), make([]int, len(c.columns))
	for row := range rows.Len() {
		c.count(rows.Cells(row), 0, 1, at, sum)
	}
	return sum
}

// Table is one table of a release.
type Table struct {
	// Counts are the units in each cell, with noise of standard deviation Noise.
	Counts []float64
	Noise  float64
	// Shares are the shares of rows.
	Shares []float64
}

// Tables returns the tables of a release with this noise multiplier, and the shares of rows. Rows have weights,
// or 1 each if weights is nil. Without a label there are no pairs. A pair's table also counts its column, so
// both counts of the column are combined by their variances.
func (c *Counting) Tables(sum []float64, sigma float64, rows *partition.Table, weights []float64) (columns,
	pairs []Table) {
	shares, at, all := make([]float64, c.entries), make([]int, len(c.columns)), 0.0
	for row := range rows.Len() {
		w := 1.0
		if weights != nil {
			w = weights[row]
		}
		cells := rows.Cells(row)
		for i := range c.columns {
			at[i] = c.columns[i].cell(cells[c.columns[i].column])
		}
		for _, t := range c.tables {
			shares[t.offset+c.cellOf(&t, at)] += w
		}
		all += w
	}
	for i, t := range c.tables {
		of := Table{Noise: sigma * float64(c.bound) / float64(t.weight)}
		for cell := t.offset; cell < t.offset+t.n; cell++ {
			of.Counts = append(of.Counts, sum[cell]/float64(t.weight))
			of.Shares = append(of.Shares, shares[cell]/all)
		}
		if i < c.alone {
			columns = append(columns, of)
			continue
		}
		pairs = append(pairs, of)
		if t.first == c.label {
			columns[t.second].with(&of, c.columns[t.first].n, 1, c.columns[t.second].n)
		} else {
			columns[t.first].with(&of, c.columns[t.second].n, c.columns[t.second].n, 1)
		}
	}
	return columns, pairs
}

// cellOf is the cell of a table that the cells of columns are in.
func (c *Counting) cellOf(t *table, at []int) int {
	if t.columns() == 1 {
		return at[t.first]
	}
	return at[t.first]*c.columns[t.second].n + at[t.second]
}

// with combines the counts of a pair's cells with those of the column. Each cell of the column is the sum of
// `others` cells of the pair at distance `across`; the next cell begins `along` further on.
func (t *Table) with(pair *Table, others, along, across int) {
	a, b := 1/(t.Noise*t.Noise), 1/(pair.Noise*pair.Noise*float64(others))
	for i := range t.Counts {
		sum := 0.0
		for j := range others {
			sum += pair.Counts[i*along+j*across]
		}
		t.Counts[i] = (a*t.Counts[i] + b*sum) / (a + b)
	}
	t.Noise = 1 / math.Sqrt(a+b)
}
