package picture

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// square is a table of whole rows in [-5, 5]^2, with a category that is not drawn.
func square(t *testing.T, points [][2]float64, weights []float64) *partition.Table {
	t.Helper()
	s, err := partition.ParseSchema([]byte("columns:\n" +
		"  - {name: kind, kind: categorical, categories: [p, q]}\n" +
		"  - {name: left & right, kind: continuous, lower: -5, upper: 5}\n" +
		"  - {name: up, kind: integer, lower: -5, upper: 5, nullable: true}\n" +
		"  - {name: later, kind: continuous, lower: 0, upper: 1}\n"))
	testkit.Must(t, err)
	table := partition.NewTable(s)
	for _, p := range points {
		testkit.Must(t, table.Append([]float64{0, p[0], p[1], 0.5}, ""))
	}
	if weights == nil {
		return table
	}
	if table, err = table.WithWeights(weights); err != nil {
		t.Fatal(err)
	}
	return table
}

func panel(t *testing.T, name string, table *partition.Table, real bool) Panel {
	t.Helper()
	p := NewPanel(name, table, real)
	if p == nil {
		t.Fatalf("%s: there is no panel", name)
	}
	return *p
}

func TestWhatAPanelTakes(t *testing.T) {
	many := make([][2]float64, 3*MaxPoints)
	for i := range many {
		many[i] = [2]float64{-5 + 10*float64(i)/float64(len(many)), float64(i%11 - 5)} // sorted
	}
	many[7][1] = math.NaN()
	p := panel(t, "many", square(t, many, nil), false)
	if again := panel(t, "many", square(t, many, nil), false); len(p.X) != MaxPoints || !slices.Equal(p.X, again.X) ||
		!slices.Equal(p.Y, again.Y) {
		t.Errorf("%d points, or others the next time", len(p.X))
	}
	// The mean of 2,000 of 6,000 even numbers in [-5, 5] has a deviation of 0.053; the seed is fixed.
	mean := 0.0
	for _, v := range p.X {
		mean += v / MaxPoints
	}
	if math.Abs(mean) > 0.25 {
		t.Errorf("the mean of the chosen rows is %v, of all 0", mean)
	}
	empty := square(t, [][2]float64{{1, math.NaN()}, {2, 3}}, []float64{1.5, 0.5})
	if p := panel(t, "one", empty, true); !slices.Equal(p.X, []float64{2}) || !slices.Equal(p.Y, []float64{3}) ||
		!slices.Equal(p.Weights, []float64{0.5}) || !p.Real {
		t.Errorf("of two rows, one with an empty cell, there is %+v", p)
	}
	for name, schema := range map[string]string{
		"one column of numbers": "columns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n  - {name: b, " +
			"kind: binary}\n",
		"a unit": "columns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n  - {name: b, " +
			"kind: text, role: unit}\n",
	} {
		s := partitiontest.Schema(t, schema)
		table := partition.NewTable(s)
		cells, unit := []float64{0.5, 1}, ""
		if s.UnitColumn() >= 0 {
			cells[1], unit = math.NaN(), "u1"
		}
		testkit.Must(t, table.Append(cells, unit))
		if p := NewPanel("none", table, false); p != nil {
			t.Errorf("%s: there is a panel of %q", name, p.Columns)
		}
	}
	if p := NewPanel("none", square(t, nil, nil), false); p != nil {
		t.Error("there is a panel of no rows")
	}
}

// Areas follow weights: a row of weight 4 in units of the mean has twice the diameter, and
// one of weight 0 none.
func TestAreasFollowWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 50).Draw(t, "weights")
		weights = append(weights, 0, 1)
		mean := 0.0
		for _, w := range weights {
			mean += w / float64(len(weights))
		}
		for i, size := range dotSizes(weights, len(weights)) {
			want := math.Min(largestDot, math.Sqrt(weights[i]/mean)) * dotSteps
			if (weights[i] == 0) != (size == 0) ||
				weights[i] > 0 && math.Abs(float64(size)-math.Max(1, want)) > 0.5001 {
				t.Fatalf("weight %v of mean %v has size %d, want %v", weights[i], mean, size, want)
			}
		}
	})
}

// Every point is within its square, for any numbers.
func TestPointsStandInTheirSquare(t *testing.T) {
	place := regexp.MustCompile(`M(-?[\d.]+) (-?[\d.]+)h0`)
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1, 1),
			rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)), 20, 20)
		p := Panel{Name: "p", Columns: [2]string{"x", "y"}, X: draw.Draw(t, "x"), Y: draw.Draw(t, "y")}
		points := 0
		for _, d := range NewScatter([]Panel{p}).Panels[0].Dots {
			for _, m := range place.FindAllStringSubmatch(d.D, -1) {
				points++
				for k, low := range []float64{scatterMargin, scatterText + scatterMargin} {
					if v, err := strconv.ParseFloat(m[k+1], 64); err != nil || v < low ||
						v > low+scatterSide-2*scatterMargin {
						t.Fatalf("a point at %s", m[0])
					}
				}
			}
		}
		if points != 20 {
			t.Fatalf("%d points of 20", points)
		}
	})
}
