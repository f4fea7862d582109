package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// Transport measures how far synthetic rows have to be moved to become real ones (first Wasserstein distance).
type Transport struct {
	// Columns is the mean over the data columns of the distance in one dimension: for numbers in units of their
	// public range, for categories the total variation distance.
	Columns float64 `json:"mean_of_columns"`
	// Joint is the distance of whole rows, between Rows real and at most as many synthetic ones. The distance of
	// two rows is the root of the sum over the columns of squared differences, 1 for different categories.
	Joint float64 `json:"joint"`
	Rows  int     `json:"rows"`
}

// TransportOptions are the settings of CompareTransport; zeros are the defaults.
type TransportOptions struct {
	Rows int    // largest number of rows of each table, drawn by the seed; 500
	Seed uint64 // of the sample
}

// CompareTransport measures the Wasserstein distance between weighted synthetic rows and real rows.
// Ghalebikesabi et al. (2022) use it to assess weights. Columns uses all rows. Joint is exact on a sample, and
// therefore above 0 even for rows of the same distribution, more so with more columns: compare it with the
// Joint of the same number of other rows. weight are the weights of the synthetic rows, nil for 1 each.
//
// In Joint an empty cell is at distance 1 from any other. Columns leaves out empty cells, and columns without
// values in one of the tables, which the notes then name. It fails for tables without rows, without data
// columns or with different columns, with ErrWeights, and for more than 2,000 rows. NOT PRIVATE.
func CompareTransport(real, synthetic *partition.Table, weight []float64, o TransportOptions) (*Transport, []string,
	error) {
	fail := func(err error) (*Transport, []string, error) { return nil, nil, fmt.Errorf("transport: %w", err) }
	columns, notes, err := CompareColumns(real, synthetic, weight)
	if err != nil {
		return fail(err)
	}
	if weight, err = checkTables(real, synthetic, weight); err != nil {
		return fail(err)
	}
	var t Transport
	n := 0
	for _, c := range columns {
		switch {
		case c.Wasserstein != nil:
			t.Columns += *c.Wasserstein
			n++
		case c.Score != nil && c.Measure == TVComplement:
			t.Columns += 1 - *c.Score
			n++
		}
	}
	if n == 0 {
		return fail(errors.New("no column has values to compare"))
	}
	t.Columns /= float64(n)

	var present []int
	for i, w := range weight {
		if w > 0 {
			present = append(present, i)
		}
	}
	most := cmp.Or(o.Rows, 500)
	if most < 1 {
		return fail(fmt.Errorf("%d rows: compare 1 at least", most))
	}
	s := newSpace(real.Schema())
	from := sample(rand.New(rand.NewPCG(o.Seed, 7)), present, most)
	to := sample(rand.New(rand.NewPCG(o.Seed, 8)), count(real.Len()), most)
	t.Rows = max(len(from), len(to))
	a, b, d := s.points(synthetic, from), s.points(real, to), len(s.columns)
	cost := make([][]float64, len(from))
	for i := range cost {
		cost[i] = make([]float64, len(to))
		for j := range to {
			sum := 0.0
			for k := range d {
				v := min(math.Abs(a[i*d+k]-b[j*d+k]), 1)
				sum += v * v
			}
			cost[i][j] = math.Sqrt(sum)
		}
	}
	if t.Joint, err = measure.Transport(cost, pick(weight, from), nil); err != nil {
		return fail(err)
	}
	return &t, notes, nil
}

// ColumnTotalVariation is the total variation distance of the named data column: of the shares of its
// categories, or of 20 equal bins of a number's public range. An empty cell is a category of its own. weight
// are the weights of the synthetic rows, nil for 1 each. It fails as CompareMarginals does, and for a name that
// is not a data column. NOT PRIVATE.
func ColumnTotalVariation(real, synthetic *partition.Table, weight []float64, name string) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("total variation of column %q: %w", name, err) }
	weight, err := checkTables(real, synthetic, weight)
	if err != nil {
		return fail(err)
	}
	j := real.Schema().ColumnIndex(name)
	if !slices.Contains(dataColumns(real.Schema()), j) {
		return fail(errors.New("no data column has this name"))
	}
	b := NewBins(&real.Schema().Columns[j], 20)
	d, err := measure.ContingencyTotalVariation([][]int32{b.codes(real, j)}, [][]int32{b.codes(synthetic, j)},
		[]int{b.Size()}, nil, weight)
	if err != nil {
		return fail(err)
	}
	return d, nil
}
