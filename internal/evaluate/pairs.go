package evaluate

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// The measures of how two columns are related.
const (
	CorrelationSimilarity = "CorrelationSimilarity"
	ContingencySimilarity = "ContingencySimilarity"
)

const (
	pairBins  = 10   // of a number paired with a category, as in SDMetrics
	mostPairs = 5000 // the pairs of 100 columns
)

// ComparePairs compares how pairs of data columns are related, by the definitions of SDMetrics
// (docs.sdv.dev/sdmetrics). For two numbers the score is
//
//	CorrelationSimilarity = 1 - |r_real - r_synthetic| / 2
//
// with Pearson's correlation of the rows in which neither cell is empty. For other pairs it is
// ContingencySimilarity, 1 minus the total variation distance of the contingency tables, in which an empty cell
// is a category. A number paired with a category is put into 10 equal bins of the range of the real column;
// synthetic numbers outside it count in the outermost bins.
//
// It differs from SDMetrics in three points. The largest real number shares the last bin. Bins are always those
// of the real column, and empty cells always a category (releases of SDMetrics differ). More than 5,000 pairs
// are sampled by the seed; rows are never sampled. weight are the weights of the synthetic rows, nil for 1
// each.
//
// A pair without a correlation, because a column is constant or empty, has no score; notes say so. It fails for
// tables without rows or with different columns, and with ErrWeights. NOT PRIVATE.
func ComparePairs(real, synthetic *partition.Table, weight []float64, seed uint64) (pairs []PairTrend, notes []string,
	err error) {
	if weight, err = checkTables(real, synthetic, weight); err != nil {
		return nil, nil, fmt.Errorf("pairs of columns: %w", err)
	}
	schema := real.Schema()
	columns := dataColumns(schema)
	if len(columns) < 2 {
		return nil, []string{"pairs of columns: fewer than two columns hold data"}, nil
	}
	type coded struct {
		size            int
		real, synthetic []int32
	}
	codes := make([]coded, len(columns))
	for k, j := range columns {
		b := NewBins(&schema.Columns[j], pairBins)
		b.lo, b.hi = realRange(real, j)
		codes[k] = coded{b.Size(), b.codes(real, j), b.codes(synthetic, j)}
	}
	sets, all := columnSets(len(columns), 2, mostPairs, seed)
	if float64(len(sets)) < all {
		notes = append(notes, fmt.Sprintf("pairs of columns: a sample of %d of %.0f", len(sets), all))
	}
	var without []string
	for _, set := range sets {
		x, y := &schema.Columns[columns[set[0]]], &schema.Columns[columns[set[1]]]
		pair := PairTrend{Columns: [2]string{x.Name, y.Name}, Measure: ContingencySimilarity}
		if isNumber(x) && isNumber(y) {
			pair.Measure = CorrelationSimilarity
			if pair.Real, err = correlation(real, columns[set[0]], columns[set[1]], nil); err == nil {
				pair.Synthetic, err = correlation(synthetic, columns[set[0]], columns[set[1]], weight)
			}
			if pair.Real != nil && pair.Synthetic != nil {
				score := 1 - math.Abs(*pair.Real-*pair.Synthetic)/2
				pair.Score = &score
			} else {
				without = append(without, x.Name+" and "+y.Name)
			}
		} else {
			a, b := codes[set[0]], codes[set[1]]
			var d float64
			d, err = measure.ContingencyTotalVariation([][]int32{a.real, b.real}, [][]int32{a.synthetic, b.synthetic},
				[]int{a.size, b.size}, nil, weight)
			score := 1 - d
			pair.Score = &score
			if err == nil {
				pair.Association, err = associated(real, synthetic, columns[set[0]], columns[set[1]], weight)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("columns %s and %s: %w", x.Name, y.Name, err)
		}
		pairs = append(pairs, pair)
	}
	if len(without) > 0 {
		const most = 3
		text := strings.Join(without[:min(most, len(without))], ", ")
		if len(without) > most {
			text += ", ..."
		}
		notes = append(notes, fmt.Sprintf(
			"%d pairs of numbers have no correlation in one of the tables, where a column is constant or empty: %s",
			len(without), text))
	}
	return pairs, notes, nil
}

// The measures of the relation of two columns that are not both numbers.
const (
	CramersV         = "CramersV"
	CorrelationRatio = "CorrelationRatio"
)

// associated is the association of two columns in both tables, nil if one of them has none. An empty cell is a
// category; rows whose number is empty are left out.
func associated(real, synthetic *partition.Table, a, b int, weight []float64) (*Association, error) {
	found := Association{Measure: CramersV}
	if columns := real.Schema().Columns; isNumber(&columns[a]) || isNumber(&columns[b]) {
		found.Measure = CorrelationRatio
		if isNumber(&columns[a]) {
			a, b = b, a
		}
	}
	for _, side := range []struct {
		table  *partition.Table
		weight []float64
		into   *float64
	}{{real, nil, &found.Real}, {synthetic, weight, &found.Synthetic}} {
		columns := side.table.Schema().Columns
		of := NewBins(&columns[a], 1)
		var err error
		if found.Measure == CramersV {
			other := NewBins(&columns[b], 1)
			*side.into, err = measure.CramersV(of.codes(side.table, a), other.codes(side.table, b),
				[2]int{of.Size(), other.Size()}, side.weight)
		} else {
			numbers := make([]float64, side.table.Len())
			for i := range numbers {
				numbers[i] = side.table.Cells(i)[b]
			}
			*side.into, err = measure.CorrelationRatio(of.codes(side.table, a), of.Size(), numbers, side.weight)
		}
		if errors.Is(err, measure.ErrConstant) || errors.Is(err, measure.ErrNoValues) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return &found, nil
}

// correlation is the correlation over the rows in which both columns have a value, nil if there is none.
func correlation(t *partition.Table, a, b int, weight []float64) (*float64, error) {
	var x, y, w []float64
	for i := range t.Len() {
		cells := t.Cells(i)
		if math.IsNaN(cells[a]) || math.IsNaN(cells[b]) || weight != nil && weight[i] == 0 {
			continue
		}
		x, y = append(x, cells[a]), append(y, cells[b])
		if weight != nil {
			w = append(w, weight[i])
		}
	}
	r, err := measure.Pearson(x, y, w)
	switch {
	case errors.Is(err, measure.ErrConstant) || errors.Is(err, measure.ErrNoValues):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &r, nil
}

// realRange is the range from the smallest to the largest cell, or the public range of a column without values.
func realRange(t *partition.Table, j int) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for i := range t.Len() {
		if v := t.Cells(i)[j]; !math.IsNaN(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo > hi {
		return t.Schema().Columns[j].Range()
	}
	return lo, hi
}
