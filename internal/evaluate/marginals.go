package evaluate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// MarginalOptions are the settings of CompareMarginals; zeros are the defaults.
type MarginalOptions struct {
	Bins int    // of a number's public range; 20
	Sets int    // of columns for each number of ways; 500
	Seed uint64 // of the sample, if there are more sets
}

// CompareMarginals returns the total variation distances of the joint distributions of one, two and three
// columns: the mean and the worst over all sets of this number of data columns. If there are too many sets, it
// uses a sample drawn by the seed, and notes say so. Numbers are put into equal bins of their public range; an
// empty cell is a category of its own. Distances of samples are above 0 even for rows of the same distribution,
// and grow with the number of cells. weight are the weights of the synthetic rows, nil for 1 each.
//
// It fails for tables without rows or with different columns, with ErrWeights, and for negative options or more
// than 10,000 bins. NOT PRIVATE.
func CompareMarginals(real, synthetic *partition.Table, weight []float64, o MarginalOptions) (marginals []Marginal,
	notes []string, err error) {
	fail := func(err error) ([]Marginal, []string, error) { return nil, nil, fmt.Errorf("marginals: %w", err) }
	if weight, err = checkTables(real, synthetic, weight); err != nil {
		return fail(err)
	}
	if o.Bins < 0 || o.Bins > 10_000 || o.Sets < 0 {
		return fail(
			fmt.Errorf(
				"%d bins and %d sets of columns: choose 1 to 10000 bins and a positive number of sets, or 0 for the "+
					"defaults", o.Bins, o.Sets))
	}
	o.Bins, o.Sets = cmp.Or(o.Bins, 20), cmp.Or(o.Sets, 500)
	schema := real.Schema()
	columns := dataColumns(schema)
	sizes := make([]int, len(columns))
	r, s := make([][]int32, len(columns)), make([][]int32, len(columns))
	for k, j := range columns {
		b := NewBins(&schema.Columns[j], o.Bins)
		sizes[k], r[k], s[k] = b.Size(), b.codes(real, j), b.codes(synthetic, j)
	}
	for ways := 1; ways <= min(3, len(columns)); ways++ {
		sets, all := columnSets(len(columns), ways, o.Sets, o.Seed)
		m := Marginal{Ways: ways, Sets: len(sets), Worst: -1}
		for _, set := range sets {
			d, err := measure.ContingencyTotalVariation(pick(r, set), pick(s, set), pick(sizes, set), nil, weight)
			if err != nil {
				return fail(err)
			}
			m.Mean += d
			if d > m.Worst {
				m.Worst, m.Widest = d, nil
				for _, k := range set {
					m.Widest = append(m.Widest, schema.Columns[columns[k]].Name)
				}
			}
		}
		m.Mean /= float64(len(sets))
		marginals = append(marginals, m)
		if float64(len(sets)) < all {
			notes = append(notes, fmt.Sprintf("%d-way marginals: a sample of %d of the %.0f sets of columns", ways,
				len(sets), all))
		}
	}
	if len(columns) == 0 {
		notes = append(notes, "marginals: no column holds data")
	}
	return marginals, notes, nil
}

func pick[T any](from []T, set []int) []T {
	out := make([]T, len(set))
	for i, k := range set {
		out[i] = from[k]
	}
	return out
}

// columnSets returns all sets of `ways` of n columns in order, or `most` of them drawn at random without
// repetition, and the number of all sets. ways is at most n.
func columnSets(n, ways, most int, seed uint64) (sets [][]int, all float64) {
	all = 1
	for i := range ways {
		all = all * float64(n-i) / float64(i+1)
	}
	if all <= float64(most) {
		set := make([]int, ways)
		for i := range set {
			set[i] = i
		}
		for {
			sets = append(sets, slices.Clone(set))
			at := ways - 1
			for at >= 0 && set[at] == n-ways+at {
				at--
			}
			if at < 0 {
				return sets, all
			}
			set[at]++
			for i := at + 1; i < ways; i++ {
				set[i] = set[i-1] + 1
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, uint64(ways)))
	seen := map[string]bool{}
	for len(sets) < most {
		set := make([]int, 0, ways)
		for len(set) < ways {
			if k := random.IntN(n); !slices.Contains(set, k) {
				set = append(set, k)
			}
		}
		slices.Sort(set)
		if key := fmt.Sprint(set); !seen[key] {
			seen[key] = true
			sets = append(sets, set)
		}
	}
	slices.SortFunc(sets, slices.Compare)
	return sets, all
}
