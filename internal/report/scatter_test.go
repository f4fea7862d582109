package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/conclave-dp/conclave/internal/testkit" // the seed of property tests
	"github.com/conclave-dp/conclave/partition"
)

// square is a table of whole rows in [-5, 5]^2, with a category that is not drawn.
func square(t *testing.T, points [][2]float64, weights []float64) *partition.Table {
	t.Helper()
	s, err := partition.ParseSchema([]byte("columns:\n" +
		"  - {name: kind, kind: categorical, categories: [p, q]}\n" +
		"  - {name: left & right, kind: continuous, lower: -5, upper: 5}\n" +
		"  - {name: up, kind: integer, lower: -5, upper: 5, nullable: true}\n" +
		"  - {name: later, kind: continuous, lower: 0, upper: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	table := partition.NewTable(s)
	for _, p := range points {
		if err := table.Append([]float64{0, p[0], p[1], 0.5}, ""); err != nil {
			t.Fatal(err)
		}
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

// corners are four rows at the corners and one in the middle.
func corners() [][2]float64 { return [][2]float64{{-5, -5}, {5, -5}, {-5, 5}, {5, 5}, {0, 0}} }

// stagesPage has a panel of each kind.
func stagesPage(t *testing.T) Page {
	c, rounds := example(t)
	return Page{Certificate: c, Rounds: rounds, Points: []Panel{
		panel(t, "real test rows", square(t, corners(), nil), true),
		panel(t, "last generator", square(t, corners()[:2], nil), false),
		panel(t, "after <pgb>", square(t, corners()[4:], nil), false),
		panel(t, "weighted (dp-mlp)", square(t, corners(), []float64{4, 1, 0, 100, 1}), false),
	}}
}

// longPanels have long names, of columns and of themselves, and long figures.
func longPanels() (list []Panel) {
	for _, name := range []string{"real test rows", "last generator", "after pgb and drs",
		"weighted (logreg-debiased)"} {
		p := Panel{Name: name, Columns: [2]string{"a column of which the name is very long",
			"another_one_that_is_as_long_as_that"}, Real: name == "real test rows"}
		for i := range 1000 {
			p.X, p.Y = append(p.X, -1.234e-5*float64(i+1)), append(p.Y, -1.234e-5*float64(i*i+1))
		}
		list = append(list, p)
	}
	return list
}

func TestScatterOnThePage(t *testing.T) {
	page := write(t, stagesPage(t))
	for _, want := range []string{
		`<a href="#rows">Rows</a>`,
		`<h2>Rows before and after the stages <span class="badge private">NOT PRIVATE</span></h2>`,
		`<h3>real test rows <span class="badge private">NOT PRIVATE</span></h3>`,
		`<h3>last generator</h3>`, `<h3>after &lt;pgb&gt;</h3>`,
		`role="img" aria-label="last generator: 2 synthetic rows, by left &amp; right and up">` +
			`<desc>Each dot is a row. left &amp; right, from left to right: -5 to 5. up, upwards: -5 to 5.</desc>`,
		`aria-label="real test rows: 5 real rows, by left &amp; right and up"`,
		"The area of a dot follows the row&#39;s weight.</desc>",
		`<path class="points" stroke-width="3.2" d="M160.0 180.0h0"/>`, // the middle, after boosting
		`<text class="axis" x="0" y="14">up ↑ -5 to 5</text>`, `>left &amp; right → -5 to 5</text>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(page, `class="points real"`); n != 1 {
		t.Errorf("%d panels of real rows, want 1", n)
	}
	// Both corners below: at the left and right edge, up is up.
	if got := regexp.MustCompile(`<h3>last generator</h3>[^$]*?d="([^"]*)"`).FindStringSubmatch(page); got == nil ||
		got[1] != "M5.0 335.0h0M315.0 335.0h0" && got[1] != "M315.0 335.0h0M5.0 335.0h0" {
		t.Errorf("the last generator's points are %q", got)
	}
	// The banner, the picture's heading and the panel.
	if n := strings.Count(page, "NOT PRIVATE"); n != 3 {
		t.Errorf("NOT PRIVATE stands %d times, want 3", n)
	}
	if strings.Contains(page, "img-src") {
		t.Error("the page may load images, and has none")
	}
	p := stagesPage(t)
	p.Points = p.Points[1:]
	if page := write(t, p); strings.Contains(page, "NOT PRIVATE") || !strings.Contains(page, "may travel") ||
		!strings.Contains(page, "<h3>last generator</h3>") {
		t.Error("panels without real rows are marked, or not there")
	}
	p.Points = nil
	if page := write(t, p); strings.Contains(page, `id="rows"`) || strings.Contains(page, "#rows") {
		t.Error("a page without panels has a place for them")
	}
}

func TestScatterInMarkdownAndJSON(t *testing.T) {
	p := stagesPage(t)
	text := markdownOf(t, p)
	want := `Pictures of rows by left &amp; right and up are in report.html (with real rows: **NOT PRIVATE**): ` +
		`real test rows; last generator; after &lt;pgb&gt;; weighted (dp-mlp).`
	if !strings.Contains(text, want) {
		t.Errorf("the text lacks %q", want)
	}
	var out bytes.Buffer
	if err := WriteJSON(&out, p); err != nil {
		t.Fatal(err)
	}
	f, err := ReadJSON(out.Bytes())
	if err != nil || len(f.Points) != 4 {
		t.Fatalf("%d panels, %v", len(f.Points), err)
	}
	for i, got := range f.Points {
		// No point of real rows, nor how many there are.
		if want := p.Points[i]; got.Name != want.Name || got.Columns != want.Columns || got.Real != want.Real ||
			got.X != nil || got.Y != nil || got.Weights != nil {
			t.Errorf("panel %d is %+v", i, got)
		}
	}
	if f.Privacy != ReleasesOnly {
		t.Errorf("a file without figures of real rows says %q", f.Privacy)
	}
	p.Points = nil
	if text := markdownOf(t, p); strings.Contains(text, "Pictures of rows") {
		t.Error("a text speaks of panels that are not there")
	}
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
		s, err := partition.ParseSchema([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		table := partition.NewTable(s)
		cells, unit := []float64{0.5, 1}, ""
		if s.UnitColumn() >= 0 {
			cells[1], unit = math.NaN(), "u1"
		}
		if err := table.Append(cells, unit); err != nil {
			t.Fatal(err)
		}
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

// Every point stands within its square, whatever the numbers are.
func TestPointsStandInTheirSquare(t *testing.T) {
	place := regexp.MustCompile(`M(-?[\d.]+) (-?[\d.]+)h0`)
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1, 1),
			rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)), 20, 20)
		p := Panel{Name: "p", Columns: [2]string{"x", "y"}, X: draw.Draw(t, "x"), Y: draw.Draw(t, "y")}
		points := 0
		for _, d := range newScatter([]Panel{p}).Panels[0].Dots {
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

func TestPanelsThatCannotBeDrawn(t *testing.T) {
	for name, change := range map[string]func(*Page){
		"none":        func(p *Page) { p.Points[0].X, p.Points[0].Y = nil, nil },
		"lopsided":    func(p *Page) { p.Points[0].Y = p.Points[0].Y[1:] },
		"columns":     func(p *Page) { p.Points[1].Columns[0] = "other" },
		"not finite":  func(p *Page) { p.Points[1].X[0] = math.Inf(1) },
		"weight":      func(p *Page) { p.Points[3].Weights[0] = -1 },
		"weights":     func(p *Page) { p.Points[3].Weights = p.Points[3].Weights[1:] },
		"too many":    func(p *Page) { p.Points[1].X = make([]float64, MaxPoints+1); p.Points[1].Y = p.Points[1].X },
		"no number":   func(p *Page) { p.Points[1].Y[0] = math.NaN() },
		"weight none": func(p *Page) { p.Points[3].Weights[0] = math.NaN() },
	} {
		p := stagesPage(t)
		change(&p)
		var out bytes.Buffer
		if err := WriteHTML(&out, p); err == nil || !strings.Contains(err.Error(), "panel") || out.Len() > 0 {
			t.Errorf("%s: %v and %d bytes", name, err, out.Len())
		}
	}
}

// A page of four full panels can be sent by mail.
func TestScatterIsSmall(t *testing.T) {
	p := stagesPage(t)
	points := make([][2]float64, MaxPoints)
	weights := make([]float64, MaxPoints)
	for i := range points {
		points[i] = [2]float64{-5 + 10*math.Mod(float64(i)*0.618, 1), float64(i%11 - 5)}
		weights[i] = float64(i) * 2 / (MaxPoints - 1)
	}
	for k := range p.Points {
		p.Points[k] = panel(t, fmt.Sprint(k), square(t, points, weights), false)
	}
	if n := len(write(t, p)); n > 300_000 {
		t.Errorf("the page has %d bytes", n)
	}
}
