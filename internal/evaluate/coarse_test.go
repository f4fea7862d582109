package evaluate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// codesSchema has one column of this many codes for each number, and a label.
func codesSchema(t *testing.T, columns ...int) *partition.Schema {
	var text strings.Builder
	text.WriteString("name: codes\ntask: binary\nlabel: died\npositive: 1\ncolumns:\n")
	for j, n := range columns {
		var codes []string
		for i := range n {
			codes = append(codes, fmt.Sprintf("c%05d", i))
		}
		fmt.Fprintf(&text, "  - {name: k%d, kind: categorical, nullable: true, categories: [%s]}\n", j,
			strings.Join(codes, ", "))
	}
	text.WriteString("  - {name: x, kind: continuous, lower: 0, upper: 1}\n  - {name: died, kind: binary}\n")
	return schemaOf(t, text.String())
}

func codesTable(t *testing.T, s *partition.Schema, rows int, seed uint64) *partition.Table {
	random := rand.New(rand.NewPCG(seed, 5))
	table := partition.NewTable(s)
	for range rows {
		died := float64(random.IntN(2))
		cells := make([]float64, 0, len(s.Columns))
		for j := range len(s.Columns) - 2 {
			n := float64(len(s.Columns[j].Categories))
			cells = append(cells, math.Floor(math.Pow(random.Float64(), 3-died)*n))
		}
		testkit.Must(t, table.Append(append(cells, random.Float64(), died), ""))
	}
	return table
}

// A matrix of all features of 10,000 codes has 160 MB for each table here, and the linear model of the importance
// takes minutes.
func TestColumnsOfManyCodesAreCoarse(t *testing.T) {
	s := codesSchema(t, 10_000)
	train, test, synthetic := codesTable(t, s, 2000, 1), codesTable(t, s, 500, 2), codesTable(t, s, 2000, 3)
	var e *Evaluation
	used := testkit.Allocated(func() {
		var err error
		e, err = Evaluate(t.Context(), Input{Synthetic: synthetic, Test: test, Train: train,
			Models: []string{"logistic regression", "decision tree"}})
		testkit.Must(t, err)
	})
	if most := uint64(400 << 20); used > most {
		t.Errorf("the evaluation allocated %d bytes, more than %d", used, most)
	}
	noted := func(n string) bool { return strings.Contains(n, "more than 500 categories (k0)") }
	if !slices.ContainsFunc(e.Notes, noted) {
		t.Errorf("no note in %q", e.Notes)
	}
	if len(e.Utility) != 2 || e.Utility[0].B == nil || e.Utility[0].B.AUROC < 0.55 {
		t.Errorf("classifiers learn nothing of the frequent codes: %+v", e.Utility)
	}
	if e.ImportanceAgreement == nil || *e.ImportanceAgreement != 1 {
		t.Errorf("importance: %v", e.ImportanceAgreement)
	}
}

// The most frequent codes keep their features, and those of all others become one.
func TestCoarseKeepsTheMostFrequentCategories(t *testing.T) {
	s := codesSchema(t, 501, 3, 501)
	table := partition.NewTable(s)
	for _, code := range []float64{500, 500, 7, 7, 7, math.NaN()} {
		testkit.Must(t, table.Append([]float64{code, 1, 0, 0.5, 1}, ""))
	}
	c := newCoarse(table)
	if c.kept != 250 || len(c.of) != 2 {
		t.Fatalf("%d categories of %d columns are kept", c.kept, len(c.of))
	}
	// The first 248 codes complete those that occur; 7 is among them, so 500 comes after 248 others and itself.
	for code, want := range map[int]int{0: 0, 7: 7, 248: 248, 249: 250, 499: 250, 500: 249} {
		if got := c.code(0, code); got != want {
			t.Errorf("code %d becomes %d, want %d", code, got, want)
		}
	}
	m, _ := c.matrix(encode.New(s), table)
	// 251 categories and one for empty cells, twice; 3 and 1; x.
	if m.Cols != 252+4+252+1 {
		t.Fatalf("%d features", m.Cols)
	}
	for row, want := range [][]int{{249, 253, 256}, {249, 253, 256}, {7, 253, 256}, {7, 253, 256}, {7, 253, 256},
		{251, 253, 256}} {
		var set []int
		for at, v := range m.Row(row)[:m.Cols-1] {
			if v == 1 {
				set = append(set, at)
			}
		}
		if !slices.Equal(set, want) || m.Row(row)[m.Cols-1] != 0.5 {
			t.Errorf("row %d has the features %d, want %d", row, set, want)
		}
	}
}

// Up to 500 categories, features are those of the encoder.
func TestColumnsOfFewHundredCodesAreNotCoarse(t *testing.T) {
	s := codesSchema(t, 500, 400)
	table := codesTable(t, s, 6000, 4) // more than are encoded at once
	encoder := encode.New(s)
	m, classes := newCoarse(table).matrix(encoder, table)
	want := encoder.Encode(table)
	same := func(a float64, b float32) bool { return a == float64(b) }
	if m.Cols != want.Width || !slices.EqualFunc(m.Data, want.Features, same) || !slices.Equal(classes, want.Classes) {
		t.Error("the features differ from the encoder's")
	}
	if notes := coarseNotes(s); notes != nil {
		t.Errorf("notes %q", notes)
	}
}
