package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func fullPage(t *testing.T) Page {
	t.Helper()
	c, rounds := example(t)
	synthetic, real := clinic(t, 800, 1, 0.1), clinic(t, 500, 2, 0)
	columns, err := picture.Columns(synthetic.Schema(), synthetic, real)
	testkit.Must(t, err)
	return Page{
		Title: `Clinic <script>alert("x")</script>`, Certificate: c, Columns: columns, Rounds: rounds,
		Correlations: picture.NewCorrelations(synthetic), Evaluation: evaluation(),
		Images: []picture.Sheet{{Name: "drawn <b>", PNG: squares(t, 64, 32)},
			{Name: "scanned", PNG: squares(t, 64, 32), Real: true}},
		Config: "name: clinic\nteachers: 200 # <img src=x>\n",
		Notes:  []string{"Paid for <i>in full</i>"},
	}
}

func write(t *testing.T, p Page) string {
	t.Helper()
	var out bytes.Buffer
	testkit.Must(t, WriteHTML(&out, p))
	checkMarkup(t, out.String())
	return out.String()
}

// checkMarkup walks the page's elements: each that is opened is closed in
// order, and nothing is fetched or run.
func checkMarkup(t *testing.T, page string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(page, "<!doctype html>")))
	decoder.Entity = xml.HTMLEntity
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page does not parse: %v", err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch element.Name.Local {
		case "script", "link", "iframe", "object", "embed", "form", "i":
			t.Errorf("there is a <%s>", element.Name.Local)
		}
		for _, a := range element.Attr {
			name := strings.ToLower(a.Name.Local)
			inside := name == "href" && strings.HasPrefix(a.Value, "#") ||
				name == "src" && strings.HasPrefix(a.Value, "data:image/png;base64,")
			if (name == "src" || name == "href") && !inside || strings.HasPrefix(name, "on") {
				t.Errorf("<%s> has %s=%q", element.Name.Local, name, a.Value)
			}
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") ||
				strings.Contains(a.Value, "ZgotmplZ") {
				t.Errorf("<%s> has %s=%q", element.Name.Local, name, a.Value)
			}
		}
	}
	for _, bad := range []string{"http://", "https://", "url(", "@import", "ZgotmplZ", "%!", "<no value>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

func TestPageShowsEverything(t *testing.T) {
	p := fullPage(t)
	page := write(t, p)
	for _, want := range []string{
		"ε = 1", "δ = 1e-05", "1 in 100,000", "73.1%", "2.72 times", "add or remove one unit", "data-independent",
		"0.765", "0.543", "0.457", "0.891", "Coin flips", "the ceiling", "img-src data:",
		p.Certificate.LedgerHead, p.Certificate.SchemaSHA256, "confident-gnmax", "sigma1 = 200",
		"creatinine", "mg/dl", "4 others", "200 teachers", "6,000 synthetic rows",
		"Paid for &lt;i&gt;in full&lt;/i&gt;", "&lt;img src=x&gt;", "Clinic &lt;script&gt;",
		"trees &lt;b&gt;", "intensive &amp; &lt;critical&gt; care", "round 7", "prefers-color-scheme: dark",
		"@media print",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// The best chance, budget, agreement, three maps, and one for each model and column.
	if n, want := strings.Count(page, "<svg"), 6+len(p.Evaluation.Utility)+len(p.Columns); n != want {
		t.Errorf("%d pictures, want %d", n, want)
	}
}

func TestRealFiguresAreMarked(t *testing.T) {
	p := fullPage(t)
	// The banner, the verdict, quality, utility, the columns' legend, the maps and the two of
	// them with real rows, further measurements, one image, and each column.
	if n, want := strings.Count(write(t, p), "NOT PRIVATE"), 10+len(p.Columns); n != want {
		t.Errorf("NOT PRIVATE stands %d times, want %d", n, want)
	}
	evaluated := p
	evaluated.Columns, evaluated.Images, evaluated.Evaluation = nil, nil, &evaluate.Evaluation{}
	if n := strings.Count(write(t, evaluated), "NOT PRIVATE"); n != 2 {
		t.Errorf("with an empty evaluation alone NOT PRIVATE stands %d times, want 2", n)
	}
	pictured := p
	pictured.Columns, pictured.Evaluation = nil, nil
	if n := strings.Count(write(t, pictured), "NOT PRIVATE"); n != 2 {
		t.Errorf("with a real image alone NOT PRIVATE stands %d times, want 2", n)
	}
	synthetic := clinic(t, 300, 1, 0)
	columns, err := picture.Columns(synthetic.Schema(), synthetic, nil)
	testkit.Must(t, err)
	p.Columns, p.Evaluation, p.Images = columns, nil, p.Images[:1]
	page := write(t, p)
	if strings.Contains(page, "NOT PRIVATE") || strings.Contains(page, `class="outline"`) ||
		strings.Contains(page, `class="mark"`) {
		t.Error("a page without real rows is marked or shows some")
	}
	if !strings.Contains(page, "You may share this page with the synthetic rows") {
		t.Error("a page without real rows does not say that it may be shared")
	}
}

func TestPageOfACertificateAlone(t *testing.T) {
	c, _ := example(t)
	page := write(t, Page{Certificate: c})
	if !strings.Contains(page, "<h1>"+run+"</h1>") {
		t.Error("the run's name is not the title")
	}
	for _, absent := range []string{"<figure", "img-src", "How far the teachers", "Quality in short",
		"Is the data useful", "Column by column", "Configuration", "Notes", "Time taken", "baseline, not a release"} {
		if strings.Contains(page, absent) {
			t.Errorf("the page holds %q", absent)
		}
	}
}

func TestPageWarns(t *testing.T) {
	c, _ := example(t)
	c.Votes = certificate.VotesCoin
	if page := write(t, Page{Certificate: c}); !strings.Contains(page, "baseline, not a release") ||
		strings.Contains(page, "from the votes of") {
		t.Error("a coin-flip run is not called one")
	}
	c.Votes, c.Guarantee = "", certificate.DataDependent
	if page := write(t, Page{Certificate: c}); !strings.Contains(page, "epsilon is data-dependent") {
		t.Error("a data-dependent epsilon is not called one")
	}
}

func TestWriteHTMLRefuses(t *testing.T) {
	c, _ := example(t)
	for _, bad := range []struct {
		name string
		page Page
		says string
	}{
		{"no certificate", Page{}, "certificate"},
		{"a round without a number", Page{Certificate: c, Rounds: []Round{{Round: 3, EpsilonSpent: math.NaN()}}},
			"round 3"},
		{"more answers than questions", Page{Certificate: c, Rounds: []Round{{Round: 3, Queries: 1, Answered: 2}}},
			"2 of 1 queries"},
		{"shares out of order", Page{Certificate: c, Rounds: []Round{{Round: 3, Shares: &Shares{P10: 1}}}},
			"round 3: the shares"},
		{"noise that is no number", Page{Certificate: c,
			Rounds: []Round{{Round: 3, Shares: &Shares{Noise: math.NaN()}}}}, "round 3: the noise"},
		{"an infinite utility", Page{Certificate: c,
			Evaluation: &evaluate.Evaluation{Propensity: &evaluate.Propensity{Ratio: math.Inf(1)}}}, "evaluation"},
		{"a correlation above 1", Page{Certificate: c, Correlations: &picture.Correlations{Columns: []string{"a", "b"},
			Values: [][]float64{{}, {1.5}}}}, "correlations: 1.5"},
		{"a lopsided correlation", Page{Certificate: c, Correlations: &picture.Correlations{Columns: []string{"a"}}},
			"correlations: 0 rows"},
		{"an image that is none", Page{Certificate: c, Images: []picture.Sheet{{Name: "scan", PNG: []byte("GIF89a")}}},
			`"scan" is no PNG`},
		{"an image that is too large",
			Page{Certificate: c, Images: []picture.Sheet{{Name: "scan", PNG: make([]byte, picture.MaxSheetBytes+1)}}},
			"show fewer"},
		{"a negative bar", Page{Certificate: c,
			Columns: []picture.Column{{Name: "age", Bars: []picture.Bar{{Synthetic: -1}}}}},
			"column age"},
	} {
		var out bytes.Buffer
		if err := WriteHTML(&out, bad.page); err == nil || !strings.Contains(err.Error(), bad.says) || out.Len() > 0 {
			t.Errorf("%s: %v and %d bytes; want an error saying %q and none", bad.name, err, out.Len(), bad.says)
		}
	}
	failing := errors.New("disk full")
	if err := WriteHTML(errorWriter{failing}, Page{Certificate: c}); !errors.Is(err, failing) {
		t.Errorf("a failing writer gave %v", err)
	}
}

type errorWriter struct{ err error }

func (w errorWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBudgetChartEndsWhereItShould(t *testing.T) {
	chart := newBudgetChart([]Round{{Round: 0, EpsilonSpent: 0.5}, {Round: 1, EpsilonSpent: 1}}, 2)
	if chart.LimitY != chart.Top || chart.LastY != (chart.Top+chart.Bottom)/2 || chart.LastX != chart.Right {
		t.Errorf("limit at %v, last point at (%v, %v)", chart.LimitY, chart.LastX, chart.LastY)
	}
	if want := regexp.MustCompile(`^M52\.0 206\.0V160\.0H300\.0V114\.0H548\.0$`); !want.MatchString(chart.Line) {
		t.Errorf("line %s", chart.Line)
	}
	if newBudgetChart(nil, 1) != nil {
		t.Error("no rounds gave a chart")
	}
}
