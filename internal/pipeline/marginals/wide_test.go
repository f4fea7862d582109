package marginals

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// wideColumns is too many columns for tables of all pairs.
const wideColumns = 60

// wideSchema has numbers, one of them nullable, a category and a label.
func wideSchema(label string) string {
	var b strings.Builder
	b.WriteString("columns:\n")
	for i := range wideColumns {
		fmt.Fprintf(&b, "  - {name: n%d, kind: continuous, lower: -5, upper: 5, nullable: %v}\n", i, i == 7)
	}
	b.WriteString("  - {name: c, kind: categorical, categories: [u, v, w]}\n")
	if label != "" {
		fmt.Fprintf(&b, "  - {name: label, %s}\nlabel: label\n", label)
	}
	return b.String()
}

// wideRows follow two factors, one for even columns and one for odd ones. The label moves the first ten
// columns, and spreads the last ten.
func wideRows(n, classes int) (rows [][]float64) {
	rng := rand.New(rand.NewPCG(8, 8))
	for range n {
		factors := [2]float64{rng.NormFloat64(), rng.NormFloat64()}
		label := float64(rng.IntN(max(classes, 1)))
		row := make([]float64, 0, wideColumns+2)
		for i := range wideColumns {
			v := 0.8*factors[i%2] + 0.6*rng.NormFloat64()
			switch {
			case classes > 0 && i < 10:
				v += label - float64(classes-1)/2
			case classes > 0 && i >= wideColumns-10:
				v *= 0.5 + label
			}
			row = append(row, min(max(v, -5), 5))
		}
		if factors[0] > 1 {
			row[7] = math.NaN()
		}
		category := 0.0
		if factors[1] > 0.5 {
			category = 2
		}
		if row = append(row, category); classes > 0 {
			row = append(row, label)
		}
		rows = append(rows, row)
	}
	return rows
}

// wideQuestions returns a run on a wide table and its three questions; the last two are the largest.
func wideQuestions(t testing.TB, label string) (*training, []*asked) {
	t.Helper()
	train := trainingOf(t, partitiontest.Schema(t, wideSchema(label)))
	first, err := train.columnsQuestion(4)
	testkit.Must(t, err)
	second, third, err := train.largestQuestions(4)
	testkit.Must(t, err)
	return train, []*asked{first, second, third}
}

// Every record adds the same norm to all three sums, whatever its values are, and it is the bound. So does
// every unit whose records are equal; other units add no more.
func TestEveryRecordOfAWideTableHasTheSameNorm(t *testing.T) {
	for _, label := range []string{"", "kind: binary", "kind: categorical, categories: [a, b, c]"} {
		train, questions := wideQuestions(t, label)
		if questions[2].together == 0 {
			t.Fatal("the third sum is not one of signs")
		}
		columns := train.schema().Columns
		rapid.Check(t, func(rt *rapid.T) {
			draw := func() []float64 {
				row := make([]float64, len(columns))
				for i := range row {
					most := 1
					if n := len(columns[i].Categories); n > 0 {
						most = n - 1
					}
					row[i] = float64(rapid.IntRange(0, most).Draw(rt, "value"))
					if i < wideColumns {
						row[i] = rapid.Float64Range(-5, 5).Draw(rt, "number")
					}
					if columns[i].Nullable && rapid.Bool().Draw(rt, "empty") {
						row[i] = math.NaN()
					}
				}
				return row
			}
			rows := [][]float64{draw(), draw()}
			k := rapid.IntRange(1, 40).Draw(rt, "records")
			for _, alike := range []bool{true, false} {
				for _, q := range questions {
					sum := make([]int64, q.entries)
					for nth := range k {
						row := rows[0]
						if !alike {
							row = rows[nth%2]
						}
						q.count(row, nth, k, make([]int, len(q.columns)), sum)
					}
					squares := 0.0
					for _, v := range sum {
						squares += float64(v) * float64(v)
					}
					norm := math.Sqrt(squares)
					if norm > float64(q.bound) || alike && norm <= float64(q.bound)-1 {
						rt.Fatalf("%d records, alike %v: the norm is %v, the bound %d", k, alike, norm, q.bound)
					}
				}
			}
		})
	}
}

// The sum of signs agrees with its definition.
func TestSignsOfPairs(t *testing.T) {
	_, questions := wideQuestions(t, "kind: binary")
	q := questions[2]
	sum := make([]int64, q.entries)
	rows := wideRows(50, 2)
	for _, row := range rows {
		q.count(row, 0, 1, make([]int, len(q.columns)), sum)
	}
	at := 0
	for i := range q.columns {
		for j := i + 1; j < len(q.columns); j++ {
			want := int64(0)
			for _, row := range rows {
				a, b := &q.columns[i], &q.columns[j]
				want += q.together * int64(2*a.cell(row[a.column])-1) * int64(2*b.cell(row[b.column])-1)
			}
			if sum[at] != want {
				t.Fatalf("columns %d and %d have %d, want %d", i, j, sum[at], want)
			}
			at++
		}
	}
	if at != len(sum) {
		t.Errorf("%d entries for %d pairs", len(sum), at)
	}
}

// meanOf is the mean of a figure over the rows that count.
func meanOf(rows [][]float64, of func(row []float64) (v float64, counts bool)) float64 {
	sum, n := 0.0, 0.0
	for _, row := range rows {
		if v, counts := of(row); counts {
			sum += v
			n++
		}
	}
	return sum / max(n, 1)
}

// Rows have the dependence of the real ones: by factors, with the label in location and spread, and through
// empty values.
func TestRowsOfAWideTable(t *testing.T) {
	for _, c := range []struct {
		label   string
		classes int
	}{{"", 0}, {"kind: binary", 2}, {"kind: categorical, categories: [a, b, c]", 3}} {
		rows := wideRows(6000, c.classes)
		s, _ := learnedBy(t, wideSchema(c.label), rows, 3)
		table, err := s.model.Sample(6000, nil, rand.New(rand.NewPCG(3, 4)))
		testkit.Must(t, err)
		var made [][]float64
		for i := range table.Len() {
			made = append(made, table.Cells(i))
		}
		product := func(i, j int) func([]float64) (float64, bool) {
			return func(r []float64) (float64, bool) { return r[i] * r[j], !math.IsNaN(r[i] * r[j]) }
		}
		check := func(name string, within float64, of func([]float64) (float64, bool)) {
			t.Helper()
			if a, b := meanOf(rows, of), meanOf(made, of); !(math.Abs(a-b) <= within) {
				t.Errorf("label %q, %s: %.3f of the rows, %.3f of those made", c.label, name, a, b)
			}
		}
		check("one factor", 0.15, product(20, 30))
		check("another", 0.15, product(21, 43))
		check("both", 0.15, product(20, 43))
		check("a factor and a category", 0.15, product(21, wideColumns))
		check("empty", 0.03, func(r []float64) (float64, bool) {
			if math.IsNaN(r[7]) {
				return 1, true
			}
			return 0, true
		})
		for y := range c.classes {
			// The sum shows only halves within a class: there the values are distributed as over all classes.
			check(fmt.Sprintf("the mean of class %d", y), 0.3, func(r []float64) (float64, bool) {
				return r[2], int(r[wideColumns+1]) == y
			})
			check(fmt.Sprintf("outer values of class %d", y), 0.12, func(r []float64) (float64, bool) {
				if math.Abs(r[wideColumns-3]) > 0.7 {
					return 1, int(r[wideColumns+1]) == y
				}
				return 0, int(r[wideColumns+1]) == y
			})
		}
	}
}

// Noise alone has no factors, and factors that stand out of it are found.
func TestFactors(t *testing.T) {
	alone, _ := learnedBy(t, wideSchema(""), nil, 1)
	for _, l := range alone.ties(alone.grid(alone.fineColumns()), 1, tree.Build(
		alone.model.sizes()[:wideColumns+1], nil)).loadings {
		if len(l) > 0 {
			t.Fatal("noise alone has factors")
		}
	}
	s, _ := learnedBy(t, wideSchema("kind: binary"), wideRows(6000, 2), 3)
	g := s.grid(s.fineColumns())
	fitted := tree.Build(s.model.sizes()[:len(g.columns)], nil)
	ties := s.ties(g, 6000, fitted)
	if n := len(ties.loadings[0]); n < 2 || n > 4 {
		t.Errorf("%d factors, the rows follow two and a label", n)
	}
	// The probabilities of a point's columns add up to 1, and those of all points to the class's.
	for _, tied := range []int{0, 7, 59} {
		for y := range ties.shares {
			mean, n := make([]float64, len(ties.given[tied][y])), 0.0
			for _, p := range ties.points {
				if p.label != y {
					continue
				}
				cells := ties.at(tied, p)
				if sum := sumOf(cells); math.Abs(sum-1) > 1e-9 {
					t.Fatalf("cells at a point add up to %v", sum)
				}
				for c, v := range cells {
					mean[c] += v
				}
				n++
			}
			for c, want := range ties.given[tied][y] {
				if got := mean[c] / n; math.Abs(got-want) > 0.03 {
					t.Errorf("column %d, class %d: cell %d has %.3f, want %.3f", tied, y, c, got, want)
				}
			}
		}
	}
}

// A wide model is saved with its hidden column, and conditions are met: rows with a given number change other
// columns.
func TestConditionsOnAWideTable(t *testing.T) {
	s, _ := learnedBy(t, wideSchema("kind: binary"), wideRows(6000, 2), 3)
	dir := t.TempDir()
	testkit.Must(t, s.model.Save(dir))
	loaded := testkit.Value(pipeline.LoadModel(dir, modelKind))
	where := []pipeline.Condition{
		{Column: "n20", Relation: ">", Value: "1"}, {Column: "label", Relation: "=", Value: "1"},
	}
	table, err := loaded.Sample(500, where, rand.New(rand.NewPCG(3, 4)))
	testkit.Must(t, err)
	high := 0.0
	for i := range table.Len() {
		row := table.Cells(i)
		if row[20] <= 1 || row[wideColumns+1] != 1 {
			t.Fatalf("row %d does not meet the conditions", i)
		}
		high += row[30] / 500
	}
	if high < 0.5 {
		t.Errorf("the mean of another column of the factor is %.2f", high)
	}
}

// Columns of constraints depend directly on the label, and no row breaks a constraint.
func TestConstraintsOfAWideTable(t *testing.T) {
	schema := wideSchema("kind: binary") + "constraints:\n  - {less: [n0, n2]}\n"
	var rows [][]float64
	for _, row := range wideRows(4000, 2) {
		if row[0] < row[2] {
			rows = append(rows, row)
		}
	}
	s, _ := learnedBy(t, schema, rows, 3)
	if s.model.hidden == 0 {
		t.Fatal("the model has no hidden column")
	}
	table, err := s.model.Sample(1000, nil, rand.New(rand.NewPCG(3, 4)))
	testkit.Must(t, err)
	mean := 0.0
	for i := range table.Len() {
		row := table.Cells(i)
		if row[0] >= row[2] {
			t.Fatalf("row %d has %v and %v", i, row[0], row[2])
		}
		mean += row[20] * row[30] / 1000
	}
	if mean < 0.4 {
		t.Errorf("the mean product of columns of a factor is %.2f", mean)
	}
}
