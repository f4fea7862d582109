package evaluate

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// measures are all figures of two tables, by name; test may be nil.
func measures(train, test, synthetic *partition.Table, weight []float64) map[string]func() error {
	var numbers []string
	if test != nil {
		numbers = numberColumns(test.Schema())
	}
	return map[string]func() error{
		"columns": func() error { _, _, err := CompareColumns(test, synthetic, weight); return err },
		"pairs":   func() error { _, _, err := ComparePairs(test, synthetic, weight, 1); return err },
		"marginals": func() error {
			_, _, err := CompareMarginals(test, synthetic, weight, MarginalOptions{})
			return err
		},
		"propensity": func() error { _, _, err := ComparePropensity(test, synthetic, weight); return err },
		"importance": func() error { _, _, err := CompareImportance(test, synthetic, weight); return err },
		"regression": func() error {
			_, _, err := CompareRegressions(train, test, synthetic, weight, numbers)
			return err
		},
		"closeness": func() error {
			_, _, err := CompareCloseness(train, test, synthetic, weight, ClosenessOptions{})
			return err
		},
	}
}

// shuffled is a table of this many rows, with every column drawn independently.
func shuffled(t testing.TB, from *partition.Table, rows int, seed uint64) *partition.Table {
	random := rand.New(rand.NewPCG(seed, 0))
	out := partition.NewTable(from.Schema())
	for range rows {
		cells := make([]float64, len(from.Schema().Columns))
		for j := range cells {
			cells[j] = from.Cells(random.IntN(from.Len()))[j]
		}
		testkit.Must(t, out.Append(cells, ""))
	}
	return out
}

func BenchmarkTableMeasures(b *testing.B) {
	for _, name := range []string{"flchain", "adult"} {
		train, test := shared(b, name)
		synthetic := shuffled(b, train, train.Len(), 1)
		for measure, run := range measures(train, test, synthetic, nil) {
			b.Run(name+"/"+measure, func(b *testing.B) {
				for b.Loop() {
					testkit.Must(b, run())
				}
			})
		}
	}
}
