package marginals

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// mixedSchema has every kind of column, empty values, one cell alone, and the label in the middle.
const mixedSchema = `columns:
  - {name: a, kind: continuous, lower: -3, upper: 7, nullable: true}
  - {name: y, kind: categorical, categories: [no, maybe, yes]}
  - {name: b, kind: integer, lower: 0, upper: 4}
  - {name: c, kind: categorical, categories: [u, v, w], nullable: true}
  - {name: d, kind: binary, nullable: true}
  - {name: one, kind: categorical, categories: [x]}
label: y
`

func drawRow(rt *rapid.T) []float64 {
	return []float64{
		rapid.OneOf(rapid.Float64Range(-3, 7), rapid.Just(math.NaN())).Draw(rt, "a"),
		float64(rapid.IntRange(0, 2).Draw(rt, "y")), float64(rapid.IntRange(0, 4).Draw(rt, "b")),
		rapid.SampledFrom([]float64{0, 1, 2, math.NaN()}).Draw(rt, "c"),
		rapid.SampledFrom([]float64{0, 1, math.NaN()}).Draw(rt, "d"), 0,
	}
}

// Every record adds a vector of the same norm to a count that includes the label's pairs, whatever its values
// are, and that norm is the bound. A unit of several records adds no more.
func TestEveryRecordCountsAlike(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(mixedSchema))
	testkit.Must(t, err)
	for _, sigma := range []float64{1, 60, 700} {
		c, err := NewCounting(schema, 20, sigma)
		testkit.Must(t, err)
		if len(c.tables) != 11 || c.entries != 21+3+20+4+3+1+3*(21+20+4+3+1) {
			t.Fatalf("%d tables with %d cells", len(c.tables), c.entries)
		}
		rapid.Check(t, func(rt *rapid.T) {
			k := rapid.IntRange(1, 5).Draw(rt, "records")
			first := drawRow(rt)
			sum := make([]int64, c.entries)
			for nth := range k {
				row := first
				if nth > 0 {
					row = drawRow(rt)
				}
				c.count(row, nth, k, make([]int, len(c.columns)), sum)
			}
			squares := 0.0
			for _, v := range sum {
				squares += float64(v) * float64(v)
			}
			norm := math.Sqrt(squares)
			if norm > float64(c.bound) || k == 1 && norm <= float64(c.bound)-1 {
				rt.Fatalf("a unit of %d records has the norm %v, the bound is %d", k, norm, c.bound)
			}
		})
	}
}

// Nodes read a counting as it was asked.
func TestNodesReadACounting(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(mixedSchema))
	testkit.Must(t, err)
	c, err := NewCounting(schema, 20, 60)
	testkit.Must(t, err)
	r := c.Round(7)
	q := new(conclavev1.MarginalsQuestion)
	testkit.Must(t, question.Unmarshal(r.Params, q))
	a, err := parse(schema, q)
	testkit.Must(t, err)
	if r.Number != 7 || r.Kind != CountingKind || a.entries != c.Entries() || a.bound != c.Bound() ||
		!proto.Equal(a.round(CountingKind), c.round(CountingKind)) {
		t.Errorf("a node reads %d cells and the bound %d, want %d and %d", a.entries, a.bound, c.Entries(), c.Bound())
	}
}

// Without noise the counts are those of the rows, also for a column that is counted with the label, and the
// shares are those of the counts.
func TestTablesOfACounting(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(mixedSchema))
	testkit.Must(t, err)
	c, err := NewCounting(schema, 20, 60)
	testkit.Must(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		rows, sum, at := partition.NewTable(schema), make([]int64, c.entries), make([]int, len(c.columns))
		n := rapid.IntRange(1, 20).Draw(rt, "rows")
		for range n {
			row := drawRow(rt)
			testkit.Must(t, rows.Append(row, ""))
			c.count(row, 0, 1, at, sum)
		}
		released := make([]float64, len(sum))
		for i, v := range sum {
			released[i] = float64(v)
		}
		columns, pairs := c.Tables(released, 60, rows, nil)
		if len(columns) != 6 || len(pairs) != 5 {
			rt.Fatalf("%d columns and %d pairs", len(columns), len(pairs))
		}
		for _, of := range append(columns, pairs...) {
			for i, count := range of.Counts {
				if math.Abs(count-float64(n)*of.Shares[i]) > 1e-9 || math.Abs(count-math.Round(count)) > 1e-9 {
					rt.Fatalf("%v records in a cell with a share of %v of %d", count, of.Shares[i], n)
				}
			}
		}
		// A pair has 6/5 of the squared weight of a column by itself, and a column's cell is 3 cells of the
		// pair: so it adds 6/15 of the information.
		alone := 60 * float64(c.bound) / float64(c.tables[0].weight)
		if ratio := columns[0].Noise / alone; columns[1].Noise != alone || math.Abs(ratio*ratio*(1+6./15)-1) > 1e-3 {
			rt.Fatalf("noise of %v, of the label %v, of a table by itself %v", columns[0].Noise, columns[1].Noise,
				alone)
		}
	})
}

// Rows with weights have shares of the weights.
func TestSharesOfWeights(t *testing.T) {
	schema, err := partition.ParseSchema([]byte("columns:\n  - {name: x, kind: binary}\n"))
	testkit.Must(t, err)
	c, err := NewCounting(schema, 20, 1)
	testkit.Must(t, err)
	rows := partition.NewTable(schema)
	for _, v := range []float64{0, 1, 1} {
		testkit.Must(t, rows.Append([]float64{v}, ""))
	}
	columns, pairs := c.Tables(make([]float64, 2), 1, rows, []float64{2, 0.5, 0})
	testkit.Same(t, "shares", []float64{0.8, 0.2}, columns[0].Shares)
	if len(pairs) != 0 {
		t.Errorf("%d pairs without a label", len(pairs))
	}
}

// Questions that cannot be counted are refused before anything is asked.
func TestCountingsThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		"columns:\n  - {name: x, kind: continuous, lower: 1, upper: 1.0000000000000004}\n": `column "x" is not divided`,
	} {
		schema, err := partition.ParseSchema([]byte(text))
		testkit.Must(t, err)
		if _, err := NewCounting(schema, 20, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	schema, err := partition.ParseSchema([]byte(mixedSchema))
	testkit.Must(t, err)
	if _, err := NewCounting(schema, 20, 1e9); err == nil || !strings.Contains(err.Error(), "raise privacy.epsilon") {
		t.Errorf("too much noise: %v", err)
	}
}
