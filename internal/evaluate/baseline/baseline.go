package baseline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
)

const seed = 1

// Add adds its baselines to an evaluation of the input. The same rows give the same figures.
func Add(ctx context.Context, e *evaluate.Evaluation, in evaluate.Input) error {
	source := in.Test
	if in.Train != nil {
		source = in.Train
	}
	independent := Independent(source)
	b := &evaluate.Baselines{}
	var err error
	if b.Independent, err = scores(in, independent); err == nil {
		b.Independent.AUROC, err = auroc(ctx, in, independent)
	}
	if err != nil {
		return fmt.Errorf("baseline of independent columns: %w", err)
	}
	if in.Train != nil {
		real, err := scores(in, in.Train)
		if err != nil {
			return fmt.Errorf("baseline of real rows: %w", err)
		}
		var ceiling mean // setting A, which the evaluation already has
		for _, m := range e.Utility {
			if m.A != nil {
				ceiling.add(&m.A.AUROC)
			}
		}
		real.AUROC = ceiling.value()
		b.Real = &real
	} else if in.Test.Len() > 1 {
		first, second := halves(in.Test)
		b.Halves = &evaluate.Scores{}
		if err := similarities(b.Halves, first, second); err != nil {
			return fmt.Errorf("baseline of halves: %w", err)
		}
	}
	e.Baselines = b
	real := []*partition.Table{in.Test}
	if in.Train != nil {
		real = append(real, in.Train)
	}
	e.Unseen = Unseen(real, in.Synthetic, independent)
	return nil
}

// Independent returns the rows of a table after each data column was shuffled independently.
func Independent(t *partition.Table) *partition.Table {
	schema, rows := t.Schema(), t.Len()
	orders := make([][]int, len(schema.Columns))
	for j := range orders {
		orders[j] = rand.New(rand.NewPCG(seed, uint64(j))).Perm(rows)
	}
	out := partition.NewTable(schema)
	out.Grow(rows)
	cells := make([]float64, len(schema.Columns))
	for i := range rows {
		for j := range cells {
			cells[j] = t.Cells(orders[j][i])[j]
		}
		out.Push(cells, "") // it may break a constraint of the schema, which relates two columns
	}
	return out
}

// scores are the scores of rows against the test rows, without models.
func scores(in evaluate.Input, rows *partition.Table) (s evaluate.Scores, err error) {
	if err := similarities(&s, in.Test, rows); err != nil {
		return s, err
	}
	marginals, _, err := evaluate.CompareMarginals(in.Test, rows, nil, evaluate.MarginalOptions{Seed: seed})
	if err != nil {
		return s, err
	}
	for _, m := range marginals {
		s.Marginals = append(s.Marginals, m.Mean)
	}
	if p, _, err := evaluate.ComparePropensity(in.Test, rows, nil); err != nil {
		return s, err
	} else if p != nil {
		s.PMSERatio = &p.Ratio
	}
	return s, nil
}

// similarities sets the scores of columns and pairs of rows against real ones.
func similarities(s *evaluate.Scores, real, rows *partition.Table) error {
	columns, _, err := evaluate.CompareColumns(real, rows, nil)
	if err != nil {
		return err
	}
	pairs, _, err := evaluate.ComparePairs(real, rows, nil, seed)
	if err != nil {
		return err
	}
	s.Columns, s.Pairs = Columns(columns), Pairs(pairs)
	for _, c := range columns {
		s.WorstColumn = worse(s.WorstColumn, c.Score)
	}
	for _, p := range pairs {
		s.WorstPair = worse(s.WorstPair, p.Score)
	}
	return nil
}

// halves divides rows by chance.
func halves(t *partition.Table) (first, second *partition.Table) {
	first, second = partition.NewTable(t.Schema()), partition.NewTable(t.Schema())
	for i, row := range rand.New(rand.NewPCG(seed, math.MaxUint64)).Perm(t.Len()) {
		half := first
		if i%2 == 1 {
			half = second
		}
		half.Push(t.Cells(row), "")
	}
	return first, second
}

// auroc is the mean over the evaluation's classifiers, nil if none can be trained or tested.
func auroc(ctx context.Context, in evaluate.Input, rows *partition.Table) (*float64, error) {
	models := classify.All()
	if len(in.Models) > 0 {
		var err error
		if models, err = classify.Named(in.Models...); err != nil {
			return nil, err
		}
	}
	found, err := evaluate.TrainTest(ctx, rows, in.Test, models...)
	if errors.Is(err, evaluate.ErrNoClasses) || errors.Is(err, evaluate.ErrOneClass) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all mean
	for _, u := range found {
		all.add(&u.AUROC)
	}
	return all.value(), nil
}

// Columns is the mean score of columns, nil if there are none.
func Columns(columns []evaluate.ColumnQuality) *float64 {
	var all mean
	for _, c := range columns {
		all.add(c.Score)
	}
	return all.value()
}

// Pairs is the mean score of pairs of columns, nil if there are none.
func Pairs(pairs []evaluate.PairTrend) *float64 {
	var all mean
	for _, p := range pairs {
		all.add(p.Score)
	}
	return all.value()
}

// worse is the lower of two scores; nil means that there is none.
func worse(a, b *float64) *float64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// mean is the mean of the known scores.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(score *float64) {
	if score != nil {
		m.sum, m.n = m.sum+*score, m.n+1
	}
}

func (m *mean) value() *float64 {
	if m.n == 0 {
		return nil
	}
	v := m.sum / float64(m.n)
	return &v
}
