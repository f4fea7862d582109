package table

import (
	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/internal/evaluate"
)

// Likeness is how alike two tables are, 1 is the most: the mean over the columns of their
// shapes, and over the pairs of columns of how these go together. NOT PRIVATE.
type Likeness struct {
	Shapes float64 `json:"column_shapes"`
	Trends float64 `json:"pair_trends"`
}

func (l *Likeness) shapes() float64 {
	if l == nil {
		return 0
	}
	return l.Shapes
}

func (l *Likeness) trends() float64 {
	if l == nil {
		return 0
	}
	return l.Trends
}

func (l *Likeness) add(of *Likeness) { l.Shapes, l.Trends = l.Shapes+of.Shapes, l.Trends+of.Trends }

func (l *Likeness) over(n float64) {
	if l != nil {
		l.Shapes, l.Trends = l.Shapes/n, l.Trends/n
	}
}

// alikeSeed picks the pairs that are compared of tables with many.
const alikeSeed = 1

// alike compares rows with the real test rows.
func (d *dataset) alike(rows *Table) (*Likeness, error) {
	columns, _, err := evaluate.CompareColumns(d.test, rows, nil)
	if err != nil {
		return nil, err
	}
	pairs, _, err := evaluate.ComparePairs(d.test, rows, nil, alikeSeed)
	if err != nil {
		return nil, err
	}
	var shapes, trends []float64
	for _, c := range columns {
		if c.Score != nil { // of columns that hold something
			shapes = append(shapes, *c.Score)
		}
	}
	for _, p := range pairs {
		if p.Score != nil {
			trends = append(trends, *p.Score)
		}
	}
	return &Likeness{mean(shapes), mean(trends)}, nil
}

// mean of no numbers is 0.
func mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return stat.Mean(x, nil)
}
