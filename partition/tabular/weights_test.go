package tabular

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const pair = "columns:\n  - {name: a, kind: integer, lower: 0, upper: 9}\n  - {name: b, kind: binary}\n"

func pairs(t testing.TB, rows int) *partition.Table {
	t.Helper()
	table := partition.NewTable(partitiontest.Schema(t, pair))
	for i := range rows {
		testkit.Must(t, table.Append([]float64{float64(i % 10), float64(i % 2)}, ""))
	}
	return table
}

// meanOne scales weights to a mean of 1. It first divides by the largest, so that the sum is finite for all sizes.
func meanOne(weights []float64) []float64 {
	largest, total := slices.Max(weights), 0.0
	for _, w := range weights {
		total += w / largest
	}
	out := make([]float64, len(weights))
	for i, w := range weights {
		out[i] = w / largest * (float64(len(weights)) / total)
	}
	return out
}

func TestWeightsReadBackToTheBit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		given := rapid.SliceOfN(rapid.Float64Range(0, math.MaxFloat64), 1, 20).Draw(r, "weights")
		given[rapid.IntRange(0, len(given)-1).Draw(r, "at")] = rapid.SampledFrom([]float64{1, 5e-324,
			1e-3, math.MaxFloat64}).Draw(r, "one")
		weights := meanOne(given)
		table := pairs(t, len(weights))
		var b bytes.Buffer
		if err := WriteWeightedCSV(&b, table, weights); err != nil {
			r.Fatal(err)
		}
		back, err := DecodeCSV(table.Schema(), &b, "t.csv", Options{Weights: true})
		if err != nil {
			r.Fatal(err)
		}
		if !slices.Equal(back.Weights(), weights) {
			r.Fatalf("%v came back as %v", weights, back.Weights())
		}
		carried, err := table.WithWeights(back.Weights())
		if err != nil || !slices.Equal(carried.Weights(), weights) || table.Weights() != nil {
			r.Fatalf("carried weights are %v, %v; the table's own %v", carried.Weights(), err, table.Weights())
		}
		order := []int{len(weights) - 1, 0}
		if got := back.Subset(order).Weights(); got[0] != weights[order[0]] || got[1] != weights[0] {
			r.Fatalf("weights of a subset are %v of %v", got, weights)
		}
	})
}

func TestNoWeightsAreNil(t *testing.T) {
	table := pairs(t, 2)
	var b bytes.Buffer
	if err := WriteWeightedCSV(&b, table, nil); err != nil || strings.Contains(b.String(), partition.WeightColumn) {
		t.Fatalf("%v: %s", err, b.String())
	}
	back, err := DecodeCSV(table.Schema(), &b, "t.csv", Options{Weights: true})
	if err != nil || back.Weights() != nil {
		t.Errorf("weights %v, error %v", back.Weights(), err)
	}
}

func TestWeightsThatAreNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		weights []float64
		says    string
	}{
		"negative": {[]float64{3, -1}, "row 2"},
		"nan":      {[]float64{math.NaN(), 1}, "row 1"},
		"infinite": {[]float64{1, math.Inf(1)}, "row 2"},
		"all zero": {[]float64{0, 0}, "all weights are 0"},
		"too few":  {[]float64{1}, "1 weights for 2 rows"},
		"mean":     {[]float64{1, 1.5}, "the mean of the weights is 1.25"},
	} {
		var b bytes.Buffer
		if err := WriteWeightedCSV(&b, pairs(t, 2), c.weights); err == nil || !strings.Contains(err.Error(), c.says) ||
			b.Len() > 0 {
			t.Errorf("%s: error %v, %d bytes written", name, err, b.Len())
		}
		if _, err := pairs(t, 2).WithWeights(c.weights); err == nil && name != "mean" {
			t.Errorf("%s: given to a table", name)
		}
	}
}

// A patient's weight is data: it is read as such, and weights are refused.
func TestSchemaWithAColumnWeight(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: weight, kind: continuous, lower: 0, upper: 200}\n")
	table, err := DecodeCSV(s, strings.NewReader("weight\n70\n0\n"), "t.csv", Options{Weights: true})
	if err != nil || table.Weights() != nil || table.Cells(0)[0] != 70 {
		t.Fatalf("%v, %v", table, err)
	}
	var b bytes.Buffer
	err = WriteWeightedCSV(&b, table, []float64{1, 1})
	if !errors.Is(err, partition.ErrWeightColumn) || !strings.Contains(err.Error(), `"weight"`) || b.Len() > 0 {
		t.Errorf("error %v, %d bytes written", err, b.Len())
	}
	if _, err := table.WithWeights([]float64{1, 1}); !errors.Is(err, partition.ErrWeightColumn) {
		t.Errorf("given weights: %v", err)
	}
	if err := s.AcceptsWeights(); !errors.Is(err, partition.ErrWeightColumn) {
		t.Errorf("accepts weights: %v", err)
	}
}

func TestWeightsThatAreNotRead(t *testing.T) {
	s := partitiontest.Schema(t, pair)
	for name, c := range map[string]struct {
		text, says string
		o          Options
	}{
		"not asked for": {"a,b,weight\n1,0,1\n", "importance weights", Options{}},
		"negative": {"a,b,weight\n1,0,1\n1,0,-0.5\n", `row 2, column "weight": the weight is negative`,
			Options{Weights: true}},
		"all zero":  {"a,b,weight\n1,0,0\n", `column "weight": all weights are 0`, Options{Weights: true}},
		"empty":     {"a,b,weight\n1,0,\n", `row 1 (line 2), column "weight"`, Options{Weights: true}},
		"no number": {"a,b,weight\n1,0,NaN\n", `column "weight"`, Options{Weights: true}},
		"twice":     {"a,b,weight,weight\n1,0,1,1\n", "twice", Options{Weights: true}},
	} {
		_, err := DecodeCSV(s, strings.NewReader(c.text), "t.csv", c.o)
		var input *partition.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
