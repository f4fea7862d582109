package marginals

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The names of the two kinds of sums. They are one kind of question at two prices.
const (
	columnsKind = "marginals-columns"
	pairsKind   = "marginals"
)

// kinds tell how nodes answer the questions.
var kinds = []question.Kind{
	{Name: columnsKind, Read: question.Typed(read), Streams: true, Pushes: true},
	{Name: pairsKind, Read: question.Typed(read), Streams: true, Pushes: true},
}

const (
	// maxEntries bounds the cells of a sum.
	maxEntries = 2_000_000
	// mostBound is the largest norm of a unit's vector, in steps.
	mostBound = 1 << 20
)

// table is a table of one column or two.
type table struct {
	first, second int // places among the columns, equal for one column
	weight        int64
	offset        int // of its cells in the sum
	n             int
}

// asked is a question in parsed form.
type asked struct {
	columns []cells
	tables  []table
	// together is the weight of every pair of columns if they are signs; 0 if they are tables.
	together int64
	entries  int
	bound    int64
	// baseline asks for zeros.
	baseline bool
}

// add adds a table with a weight.
func (a *asked) add(first, second int, weight int64) {
	n := a.columns[first].size()
	if second != first {
		n *= a.columns[second].size()
	}
	a.tables = append(a.tables, table{first, second, weight, a.entries, n})
	a.entries += n
}

// close computes the norm of a unit's vector.
func (a *asked) close() {
	squares := 0.0
	for _, t := range a.tables {
		squares += float64(t.weight) * float64(t.weight)
	}
	if a.together > 0 {
		squares = float64(a.together) * float64(a.together) * float64(a.entries)
	}
	a.bound = int64(math.Ceil(math.Sqrt(squares)))
}

func (a *asked) shape() question.Shape {
	signs := slices.ContainsFunc(a.columns, func(c cells) bool { return c.sign })
	return question.Shape{Sum: &question.Vector{
		Entries: a.entries, Bound: a.bound, Norm: question.L2, Counts: !signs, Rate: 1,
	}}
}

func (a *asked) round(kind string) *conclavev1.Round {
	m := &conclavev1.MarginalsQuestion{Baseline: a.baseline, Together: uint32(a.together)}
	for i := range a.columns {
		m.Columns = append(m.Columns, a.columns[i].message())
	}
	for _, t := range a.tables {
		m.First = append(m.First, uint32(t.first))
		m.Second = append(m.Second, uint32(t.second))
		m.Weights = append(m.Weights, uint32(t.weight))
	}
	return question.Ask(kind, m, a.shape())
}

// parse checks a question against public values.
func parse(schema *partition.Schema, m *conclavev1.MarginalsQuestion) (*asked, error) {
	a := &asked{baseline: m.GetBaseline()}
	for _, c := range m.GetColumns() {
		column, err := readCells(schema, c)
		if err != nil {
			return nil, err
		}
		a.columns = append(a.columns, column)
	}
	first, second, weights := m.GetFirst(), m.GetSecond(), m.GetWeights()
	if m.GetTogether() > 0 {
		return a, a.parseTogether(m)
	}
	if len(first) == 0 || len(second) != len(first) || len(weights) != len(first) {
		return nil, fmt.Errorf("%d first columns, %d second ones and %d weights of tables; there is one of each for a "+
			"table, and one table at least", len(first), len(second), len(weights))
	}
	for i := range first {
		f, s, w := int(first[i]), int(second[i]), int64(weights[i])
		switch {
		case f > s || s >= len(a.columns):
			return nil, fmt.Errorf("table %d is of columns %d and %d of %d; name the first one first", i, f, s,
				len(a.columns))
		case w < 1 || w > mostBound:
			return nil, fmt.Errorf("table %d has the weight %d; use 1 to %d", i, w, mostBound)
		}
		a.add(f, s, w)
		if a.entries > maxEntries {
			return nil, fmt.Errorf("the tables have more than %d cells; ask for fewer, or for larger cells", maxEntries)
		}
	}
	if a.close(); a.bound > mostBound {
		return nil, fmt.Errorf("a unit adds a vector of norm %d, and %d is the most; lower the weights", a.bound,
			mostBound)
	}
	return a, nil
}

// read is everything that a node does for a question; the package comment says why the sum is private.
func read(p *question.Public, m *conclavev1.MarginalsQuestion) (*question.Checked, error) {
	a, err := parse(p.Schema, m)
	if err != nil {
		return nil, err
	}
	encoder := encode.New(p.Schema)
	return &question.Checked{
		Shape: a.shape(), Baseline: a.baseline,
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			if a.baseline {
				return make([]int64, a.entries), nil
			}
			if s.Count != nil {
				return s.Counted(a.tally(encoder))
			}
			return s.Add(a.entries, func() question.Adder { return a.adder(encoder) })
		},
	}, nil
}

// adder counts records. It reuses its memory: it allocates nothing per record.
func (a *asked) adder(encoder *encode.Encoder) question.Adder {
	row, at := make([]float64, len(encoder.Schema().Columns)), make([]int, len(a.columns))
	signs := slices.ContainsFunc(a.columns, func(c cells) bool { return c.sign })
	alone := !signs && a.together == 0
	// The loop over tables needs these values close together. The first factor of a table of one column is 0.
	type place struct{ first, second, along, offset, weight int }
	places := make([]place, len(a.tables))
	for i, t := range a.tables {
		places[i] = place{t.first, t.second, 0, t.offset, int(t.weight)}
		if t.second != t.first {
			places[i].along = a.columns[t.second].n
		}
	}
	return func(b *question.Block, sum []int64) {
		for i, class := range b.Classes {
			encoder.DecodeInto(row, b.Record(i), class)
			nth, of := b.Place(i)
			if of > 1 || !alone {
				a.count(row, nth, of, at, sum)
				continue
			}
			for i := range a.columns { // most records of most questions
				at[i] = a.columns[i].cell(row[a.columns[i].column])
			}
			for i := range places {
				p := &places[i]
				sum[p.offset+at[p.first]*p.along+at[p.second]] += int64(p.weight)
			}
		}
	}
}

// count adds the nth of `of` records of a unit to a sum. At has room for the record's cells.
//
// The records of a unit share the weight of each table, in whole parts that add up to it. A unit adds the same
// however many records it has, and no more than one record with the full weight. The rest of the division goes
// to other records in each table, one step each.
func (a *asked) count(row []float64, nth, of int, at []int, sum []int64) {
	for i := range a.columns {
		at[i] = a.columns[i].cell(row[a.columns[i].column])
	}
	if a.together > 0 {
		a.countTogether(at, nth, of, sum)
		return
	}
	for i, t := range a.tables {
		part := t.weight / int64(of)
		if int64((nth+i)%of) < t.weight%int64(of) {
			part++
		}
		cell := 0
		for _, column := range []int{t.first, t.second}[:t.columns()] {
			switch c := &a.columns[column]; {
			case !c.sign:
				cell = cell*c.n + at[column]
			case at[column] == 0:
				part = -part
			}
		}
		sum[t.offset+cell] += part
	}
}

// columns is the number of columns of a table.
func (t *table) columns() int {
	if t.first == t.second {
		return 1
	}
	return 2
}

// counts returns the number of records in each cell of a table, from a released sum.
func (t *table) counts(sum []float32) []float64 {
	out := make([]float64, t.n)
	for i := range out {
		out[i] = float64(sum[t.offset+i]) / float64(t.weight)
	}
	return out
}

// variance is the variance of the noise of each count.
func (t *table) variance(bound int64, sigma float64) float64 {
	deviation := sigma * float64(bound) / float64(t.weight)
	return deviation * deviation
}
