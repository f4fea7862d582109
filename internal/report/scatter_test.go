package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// points is a panel of numbers in [-5, 5]^2.
func points(name string, rows [][2]float64, weights []float64) picture.Panel {
	p := picture.Panel{Name: name, Columns: [2]string{"left & right", "up"}, Weights: weights}
	for _, r := range rows {
		p.X, p.Y = append(p.X, r[0]), append(p.Y, r[1])
	}
	return p
}

// stagesPage has a panel of each kind: four rows at the corners and one in the middle.
func stagesPage(t *testing.T) Page {
	c, rounds := example(t)
	corners := [][2]float64{{-5, -5}, {5, -5}, {-5, 5}, {5, 5}, {0, 0}}
	page := Page{Certificate: c, Rounds: rounds, Points: []picture.Panel{
		points("real test rows", corners, nil), points("last generator", corners[:2], nil),
		points("after <pgb>", corners[4:], nil), points("weighted (dp-mlp)", corners, []float64{4, 1, 0, 100, 1}),
	}}
	page.Points[0].Real = true
	return page
}

// longPanels have long names, of columns and of themselves, and long figures.
func longPanels() (list []picture.Panel) {
	for _, name := range []string{"real test rows", "last generator", "after pgb and drs",
		"weighted (logreg-debiased)"} {
		p := picture.Panel{Name: name, Columns: [2]string{"a column of which the name is very long",
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
	if page := write(t, p); strings.Contains(page, "NOT PRIVATE") || !strings.Contains(page, "You may share") ||
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
	testkit.Must(t, WriteJSON(&out, p))
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

func TestPanelsThatCannotBeDrawn(t *testing.T) {
	for name, change := range map[string]func(*Page){
		"none":       func(p *Page) { p.Points[0].X, p.Points[0].Y = nil, nil },
		"lopsided":   func(p *Page) { p.Points[0].Y = p.Points[0].Y[1:] },
		"columns":    func(p *Page) { p.Points[1].Columns[0] = "other" },
		"not finite": func(p *Page) { p.Points[1].X[0] = math.Inf(1) },
		"weight":     func(p *Page) { p.Points[3].Weights[0] = -1 },
		"weights":    func(p *Page) { p.Points[3].Weights = p.Points[3].Weights[1:] },
		"too many": func(p *Page) {
			p.Points[1].X = make([]float64, picture.MaxPoints+1)
			p.Points[1].Y = p.Points[1].X
		},
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
	rows, weights := make([][2]float64, picture.MaxPoints), make([]float64, picture.MaxPoints)
	for i := range rows {
		rows[i] = [2]float64{-5 + 10*math.Mod(float64(i)*0.618, 1), float64(i%11 - 5)}
		weights[i] = float64(i) * 2 / (picture.MaxPoints - 1)
	}
	for k := range p.Points {
		p.Points[k] = points(fmt.Sprint(k), rows, weights)
	}
	if n := len(write(t, p)); n > 300_000 {
		t.Errorf("the page has %d bytes", n)
	}
}
