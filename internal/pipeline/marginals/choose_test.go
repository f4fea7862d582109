package marginals

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// A column that follows from another is recognized in nearly every draw of the noise. Otherwise a ninth of the
// rows would be in cells that no record has. A table of independent columns keeps its cells.
func TestColumnsThatFollowAreFound(t *testing.T) {
	const n, deviation, records = 16, 70.0, 32_000.0
	for name, c := range map[string]struct {
		count      func(row, column int) float64
		from, upTo int // of 200 draws
	}{
		"follows": {func(row, column int) float64 {
			if (row*5+3)%n == column {
				return records / n
			}
			return 0
		}, 195, 200},
		"apart": {func(int, int) float64 { return records / (n * n) }, 0, 0},
		"nearly apart": {func(row, column int) float64 {
			if row == column {
				return 3 * records / (n * n)
			}
			return records / (n * n)
		}, 0, 0},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		found := 0
		for range 200 {
			m := &tree.Measured{Columns: []int{0, 1}, Variance: deviation * deviation}
			for i := range n * n {
				m.Counts = append(m.Counts, c.count(i/n, i%n)+deviation*rng.NormFloat64())
			}
			if sparse(m, n, n, records) != nil {
				found++
			}
		}
		if found < c.from || found > c.upTo {
			t.Errorf("%s: found in %d of 200 draws, want %d to %d", name, found, c.from, c.upTo)
		}
	}
}

func TestFewRecordsHaveLargerCells(t *testing.T) {
	for _, c := range []struct{ fine, cells, records, want int }{
		{0, 32, 0, 256}, {0, 32, 2001, 256}, {0, 32, 2000, 64}, {0, 100, 2000, 100}, {40, 32, 2000, 40},
	} {
		o := DefaultOptions()
		o.Fine, o.Cells = c.fine, c.cells
		testkit.Must(t, o.Validate())
		schema := partitiontest.Schema(t, "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n")
		tr := newTraining(&o, pipeline.Problem{Encoder: encode.New(schema), Classes: 1, Records: c.records})
		if got := tr.Chosen().(Options).Fine; got != c.want {
			t.Errorf("fine %d, cells %d and %d records: %d cells, want %d", c.fine, c.cells, c.records, got, c.want)
		}
	}
}

func TestColumnsGetMoreOfFewRecordsWithoutClasses(t *testing.T) {
	for _, c := range []struct {
		columns          float64
		records, classes int
		want             float64
	}{{0, 0, 1, 0.3}, {0, 2001, 1, 0.3}, {0, 2000, 1, 0.45}, {0, 2000, 2, 0.3}, {0.2, 2000, 1, 0.2}} {
		o := DefaultOptions()
		o.Columns = c.columns
		testkit.Must(t, o.Validate())
		if got := o.chosen(c.records, c.classes).Columns; got != c.want {
			t.Errorf("columns %v, %d records, %d classes: a share of %v, want %v", c.columns, c.records, c.classes,
				got, c.want)
		}
	}
}

// If the pairs with the label are noise together, the model takes all of them. If one stands out far enough, it takes
// only those beyond the noise. A label without classes has only those too.
func TestPairsOfALabelAreTakenTogether(t *testing.T) {
	const columns, deviation, records = 20, 5.0, 1000.0
	for name, c := range map[string]struct {
		strong float64 // the excess of one pair's table
		pooled bool
		all    bool
	}{
		"noise alone":         {0, true, true},
		"one pair stands out": {100, true, false},
		"no classes":          {0, false, false},
	} {
		rng := rand.New(rand.NewPCG(3, 1))
		r := &released{label: 0, pooled: c.pooled, records: records, maxSize: 1 << 10, steps: 50}
		for i := range columns {
			r.sizes = append(r.sizes, 2)
			r.alone = append(r.alone, tree.Measured{Columns: []int{i}, Counts: []float64{500, 500}, Variance: 1})
			if i == 0 {
				continue
			}
			m := tree.Measured{Columns: []int{0, i}, Variance: deviation * deviation}
			for cell := range 4 {
				count := records/4 + deviation*rng.NormFloat64()
				if i == 1 && (cell == 0 || cell == 3) {
					count += c.strong
				}
				m.Counts = append(m.Counts, count)
			}
			r.pairs = append(r.pairs, m)
		}
		model := r.build(nil)
		model.Fit(r.records, r.alone, r.steps)
		sets := r.withLabel(model, make([]bool, len(r.pairs)))
		if all := len(sets) == columns-1; all != c.all || len(sets) == 0 {
			t.Errorf("%s: %d of %d pairs are taken", name, len(sets), columns-1)
		}
	}
}

// If noise leaves no room for tables of all pairs, the pairs with the label are counted, and the rows keep the
// dependence of a number on it. With more records all pairs are counted.
func TestFewRecordsAreAskedForTheLabel(t *testing.T) {
	schema := "label: y\ncolumns:\n"
	for i := range 12 {
		schema += fmt.Sprintf("  - {name: x%d, kind: continuous, lower: 0, upper: 1}\n", i)
	}
	schema += "  - {name: y, kind: continuous, lower: 0, upper: 1}\n"
	for _, c := range []struct{ records, pairs int }{{500, 12}, {6000, 78}} {
		rng := rand.New(rand.NewPCG(3, 3))
		var rows [][]float64
		for range c.records {
			row := make([]float64, 13)
			for i := range row {
				row[i] = rng.Float64()
			}
			row[5] = row[12] // the label
			rows = append(rows, row)
		}
		s, _ := learnedBy(t, schema, rows, 1)
		if n := len(s.grid(s.fineColumns()).pairs); n != c.pairs {
			t.Errorf("%d pairs of %d records are looked at, want %d", n, c.records, c.pairs)
		}
		table, err := s.model.Sample(5000, nil, rand.New(rand.NewPCG(1, 5)))
		testkit.Must(t, err)
		same := 0
		for i := range table.Len() {
			if row := table.Cells(i); row[5] < 0.5 == (row[12] < 0.5) {
				same++
			}
		}
		if share := float64(same) / 5000; share < 0.75 {
			t.Errorf("of %d records: number and label are in the same half in %.2f of the rows", c.records, share)
		}
	}
}
