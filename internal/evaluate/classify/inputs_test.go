package classify

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Tables that are valid but hard for some model: all are fitted, and all scores are finite.
func TestModelsTakeOddTables(t *testing.T) {
	table := func(rows, cols int, fill func(rng *rand.Rand, row []float64, positive bool)) Rows {
		rng := rand.New(rand.NewPCG(1, 9))
		r := Rows{X: Matrix{Rows: rows, Cols: cols, Data: make([]float64, rows*cols)}}
		for i := range rows {
			r.Positive = append(r.Positive, i%3 == 0)
			fill(rng, r.X.Row(i), i%3 == 0)
		}
		return r
	}
	normal := func(rng *rand.Rand, row []float64) {
		for j := range row {
			row[j] = rng.NormFloat64()
		}
	}
	extremes := func(r Rows) Rows {
		for i := range r.X.Rows {
			r.Weight = append(r.Weight, []float64{1e-100, 1, 1e100, 0}[i%4])
		}
		return r
	}
	noise := func(rng *rand.Rand, row []float64, _ bool) { normal(rng, row) }
	cases := []struct {
		name string
		rows Rows
		area float64 // least AUROC on the rows themselves
	}{
		{"two rows", Rows{X: Matrix{Rows: 2, Cols: 2, Data: []float64{0, 1, 1, 1}}, Positive: []bool{false, true}},
			0.5},
		{"two equal rows", Rows{X: Matrix{Rows: 2, Cols: 1, Data: []float64{3, 3}}, Positive: []bool{false, true}},
			0.5},
		{"all columns constant", table(60, 3, func(_ *rand.Rand, row []float64, _ bool) {
			copy(row, []float64{0, 0.1, -1e9})
		}), 0.5},
		{"a constant column", table(90, 3, func(rng *rand.Rand, row []float64, p bool) {
			normal(rng, row)
			row[1] = 0.1
			if p {
				row[0] += 3
			}
		}), 0.9},
		{"separable", table(90, 3, func(rng *rand.Rand, row []float64, p bool) {
			normal(rng, row)
			row[2] = rng.Float64()
			if p {
				row[2] += 2
			}
		}), 0.99},
		{"a column that is the label", table(90, 2, func(rng *rand.Rand, row []float64, p bool) {
			normal(rng, row)
			row[1] = 0
			if p {
				row[1] = 1
			}
		}), 1},
		{"one-hot columns", table(90, 3, func(rng *rand.Rand, row []float64, p bool) {
			k := rng.IntN(2)
			if p {
				k = 2
			}
			row[k] = 1
		}), 1},
		{"columns twice", table(90, 4, func(rng *rand.Rand, row []float64, p bool) {
			normal(rng, row[:2])
			if p {
				row[0] += 3
			}
			copy(row[2:], row[:2])
		}), 0.85},
		{"more columns than rows", table(45, 80, func(rng *rand.Rand, row []float64, p bool) {
			normal(rng, row)
			if p {
				row[7] += 5
			}
		}), 0.9},
		{"equal rows of both classes", table(90, 2, func(_ *rand.Rand, row []float64, _ bool) {
			row[0] = float64(len(row))
		}), 0.5},
		{"large values", table(60, 2, func(rng *rand.Rand, row []float64, _ bool) {
			row[0], row[1] = rng.NormFloat64()*1e99, rng.NormFloat64()
		}), 0.3},
		{"tiny values", table(60, 2, func(rng *rand.Rand, row []float64, _ bool) {
			row[0], row[1] = rng.NormFloat64()*1e-160, math.SmallestNonzeroFloat64
		}), 0.3},
		{"far from zero", table(60, 2, func(rng *rand.Rand, row []float64, _ bool) {
			row[0], row[1] = 1e15+rng.NormFloat64(), 1e8
		}), 0.3},
		{"weights of all sizes", extremes(table(60, 2, noise)), 0.3},
		{"weights of all sizes, columns twice", extremes(table(60, 4, func(rng *rand.Rand, row []float64, _ bool) {
			normal(rng, row[:2])
			copy(row[2:], row[:2])
		})), 0.3},
	}
	for _, c := range cases {
		for _, model := range All() {
			if err := model.Fit(c.rows); err != nil {
				t.Errorf("%s, %s: %v", c.name, model.Name(), err)
				continue
			}
			far := Matrix{Rows: 3, Cols: c.rows.X.Cols}
			for _, v := range []float64{1e100, -1e100, 0} {
				for range far.Cols {
					far.Data = append(far.Data, v)
				}
			}
			for _, x := range []Matrix{c.rows.X, far} {
				scores, err := model.Score(x)
				testkit.Must(t, err)
				for i, s := range scores {
					if math.IsNaN(s) || math.IsInf(s, 0) {
						t.Errorf("%s, %s: the score of row %d is %v", c.name, model.Name(), i+1, s)
						break
					}
				}
			}
			if a := auroc(t, model, c.rows.X, c.rows.Positive); a < c.area {
				t.Errorf("%s, %s: AUROC %.3f, want at least %v", c.name, model.Name(), a, c.area)
			}
		}
	}
}

func TestNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, model := range All() {
		if seen[model.Name()] {
			t.Errorf("%s is listed twice", model.Name())
		}
		seen[model.Name()] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d models, want 12", len(seen))
	}
	for _, model := range Models() {
		if !seen[model.Name()] {
			t.Errorf("%s is a default but not one of all", model.Name())
		}
	}
	got, err := Named("linear svm", "bagging")
	if err != nil || len(got) != 2 || got[0].Name() != "linear svm" || got[1].Name() != "bagging" {
		t.Errorf("named: %v, %v", got, err)
	}
	if got, err := Named(); err != nil || len(got) != 0 {
		t.Errorf("no names: %v, %v", got, err)
	}
	if _, err := Named("bagging", "svm"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), `"svm"`) ||
		!strings.Contains(err.Error(), "linear svm, decision tree") {
		t.Errorf("an unknown name gave %v", err)
	}
	if _, err := Named("bagging", "bagging"); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a name twice gave %v", err)
	}
}
