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
	"time"

	"github.com/conclave-dp/conclave/evaluate"
	"github.com/conclave-dp/conclave/partition"
)

func fullPage(t *testing.T) Page {
	t.Helper()
	_, c, rounds := example(t)
	synthetic, real := clinic(t, 800, 1, 0.1), clinic(t, 500, 2, 0)
	columns, err := Columns(synthetic.Schema(), synthetic, real)
	if err != nil {
		t.Fatal(err)
	}
	trained := []evaluate.Utility{{Classifier: "logistic regression", AUROC: 0.7654, AveragePrecision: 0.5432}, {Classifier: "trees <b>", AUROC: 0.7123, AveragePrecision: 0.5}}
	coin := []evaluate.Utility{{Classifier: "logistic regression", AUROC: 0.4567, AveragePrecision: 0.3}}
	ceiling := []evaluate.Utility{{Classifier: "trees <b>", AUROC: 0.8912, AveragePrecision: 0.7}}
	return Page{
		Title: `Clinic <script>alert("x")</script>`, Certificate: c, Columns: columns, Rounds: rounds,
		Utility: UtilityRows(trained, coin, ceiling), Config: "name: clinic\nteachers: 200 # <img src=x>\n",
		Notes: []string{"Paid for <i>in full</i>"}, Elapsed: 41 * time.Second,
	}
}

func write(t *testing.T, p Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteHTML(&out, p); err != nil {
		t.Fatal(err)
	}
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
		case "script", "link", "img", "iframe", "object", "embed", "a", "form", "i":
			t.Errorf("there is a <%s>", element.Name.Local)
		}
		for _, a := range element.Attr {
			name := strings.ToLower(a.Name.Local)
			if name == "src" || name == "href" || strings.HasPrefix(name, "on") {
				t.Errorf("<%s> has %s=%q", element.Name.Local, name, a.Value)
			}
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || strings.Contains(a.Value, "ZgotmplZ") {
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
		"ε = 1", "δ = 1e-05", "73.1%", "2.72 times", "add or remove one unit", "data-independent",
		"0.765", "0.543", "0.457", "0.891", "coin flips", "ceiling",
		p.Certificate.LedgerHead, p.Certificate.SchemaSHA256, "confident-gnmax", "sigma1 = 200",
		"creatinine", "mg/dl", "4 others", "41s", "200 teachers", "6000 synthetic rows",
		"Paid for &lt;i&gt;in full&lt;/i&gt;", "&lt;img src=x&gt;", "Clinic &lt;script&gt;",
		"trees &lt;b&gt;", "intensive &amp; &lt;critical&gt; care", "round 7", "prefers-color-scheme: dark", "@media print",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "<svg"); n != 1+len(p.Columns) {
		t.Errorf("%d pictures, want %d", n, 1+len(p.Columns))
	}
}

func TestRealFiguresAreMarked(t *testing.T) {
	p := fullPage(t)
	// The head of the page, the utility table, the legend, and each column.
	if n, want := strings.Count(write(t, p), "NOT PRIVATE"), 3+len(p.Columns); n != want {
		t.Errorf("NOT PRIVATE stands %d times, want %d", n, want)
	}
	utilityOnly := p
	utilityOnly.Columns = nil
	if n := strings.Count(write(t, utilityOnly), "NOT PRIVATE"); n != 2 {
		t.Errorf("with a utility table alone NOT PRIVATE stands %d times, want 2", n)
	}
	synthetic := clinic(t, 300, 1, 0)
	columns, err := Columns(synthetic.Schema(), synthetic, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Columns, p.Utility = columns, nil
	page := write(t, p)
	if strings.Contains(page, "NOT PRIVATE") || strings.Contains(page, `class="outline"`) || strings.Contains(page, `class="mark"`) {
		t.Error("a page without real rows is marked or shows some")
	}
}

func TestPageOfACertificateAlone(t *testing.T) {
	_, c, _ := example(t)
	page := write(t, Page{Certificate: c})
	if !strings.Contains(page, "<h1>"+run+"</h1>") {
		t.Error("the run's name is not the title")
	}
	for _, absent := range []string{"<svg", "Is the data useful", "Column by column", "Configuration", "Notes", "Time taken", "baseline, not a release"} {
		if strings.Contains(page, absent) {
			t.Errorf("the page holds %q", absent)
		}
	}
}

func TestPageWarns(t *testing.T) {
	_, c, _ := example(t)
	c.Votes = VotesCoin
	if page := write(t, Page{Certificate: c}); !strings.Contains(page, "baseline, not a release") || strings.Contains(page, "from the votes of") {
		t.Error("a coin-flip run is not called one")
	}
	c.Votes, c.Guarantee = "", DataDependent
	if page := write(t, Page{Certificate: c}); !strings.Contains(page, "epsilon is data-dependent") {
		t.Error("a data-dependent epsilon is not called one")
	}
}

func TestWriteHTMLRefuses(t *testing.T) {
	_, c, _ := example(t)
	for _, bad := range []struct {
		name string
		page Page
		says string
	}{
		{"no certificate", Page{}, "certificate"},
		{"a round without a number", Page{Certificate: c, Rounds: []Round{{Round: 3, EpsilonSpent: math.NaN()}}}, "round 3"},
		{"an infinite utility", Page{Certificate: c, Utility: []UtilityRow{{Classifier: "x", Real: &evaluate.Utility{AUROC: math.Inf(1)}}}}, "utility of x"},
		{"a negative bar", Page{Certificate: c, Columns: []ColumnSummary{{Name: "age", Bars: []Bar{{Synthetic: -1}}}}}, "column age"},
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
	chart := newBudgetChart([]Round{{0, 0.5, 1, 1}, {1, 1, 1, 1}}, 2)
	if chart.LimitY != chart.Top || chart.LastY != (chart.Top+chart.Bottom)/2 || chart.LastX != chart.Right {
		t.Errorf("limit at %v, last point at (%v, %v)", chart.LimitY, chart.LastX, chart.LastY)
	}
	if want := regexp.MustCompile(`^M52\.0 206\.0V160\.0H378\.0V114\.0H704\.0$`); !want.MatchString(chart.Line) {
		t.Errorf("line %s", chart.Line)
	}
	if newBudgetChart(nil, 1) != nil {
		t.Error("no rounds gave a chart")
	}
}

// The published corner cases of the best guess: none at epsilon 0, certainty
// as epsilon grows, and delta alone.
func TestGuess(t *testing.T) {
	for _, c := range []struct {
		epsilon, delta float64
		want           string
	}{{1e-12, 1e-12, "50.0%"}, {1, 1e-5, "73.1%"}, {math.Log(3), 1e-9, "75.0%"}, {1e-12, 0.5, "75.0%"}, {3, 1e-5, "95.3%"}, {800, 1e-5, "> 99.9%"}} {
		if got := guess(c.epsilon, c.delta); got != c.want {
			t.Errorf("guess(%v, %v) = %s, want %s", c.epsilon, c.delta, got, c.want)
		}
	}
}

func TestColumns(t *testing.T) {
	synthetic, real := clinic(t, 800, 1, 0.1), clinic(t, 500, 2, 0)
	columns, err := Columns(synthetic.Schema(), synthetic, real)
	if err != nil {
		t.Fatal(err)
	}
	if len(columns) != 6 {
		t.Fatalf("%d columns, want 6", len(columns))
	}
	for _, c := range columns {
		var s, r float64
		for _, b := range c.Bars {
			s, r = s+b.Synthetic, r+b.Real
		}
		if math.Abs(s-1) > 1e-9 || math.Abs(r-1) > 1e-9 || !c.Real || c.Score < 0.5 || c.Score > 1 {
			t.Errorf("%s: shares add up to %v and %v, score %v", c.Name, s, r, c.Score)
		}
	}
	byName := map[string]ColumnSummary{}
	for _, c := range columns {
		byName[c.Name] = c
	}
	if c := byName["year"]; len(c.Bars) != 9 || c.Bars[0].Label != "1995" || c.Bars[8].Label != "2003" {
		t.Errorf("year has bars %+v", c.Bars)
	}
	if c := byName["country"]; len(c.Bars) != shownCategory+1 || c.Bars[shownCategory].Label != "4 others" || c.Bars[0].Label != "a" {
		t.Errorf("country has bars %+v", c.Bars)
	}
	if c := byName["creatinine"]; c.Missing < 0.1 || c.Missing > 0.25 || c.Mean < 1 || c.Mean > 1.5 {
		t.Errorf("creatinine: missing %v, mean %v", c.Missing, c.Mean)
	}
}

func TestColumnsOfOddTables(t *testing.T) {
	full := clinic(t, 10, 1, 0)
	schema := full.Schema()
	empty := partition.NewTable(schema)
	_, c, _ := example(t)
	nothing := math.NaN()
	constant := partition.NewTable(schema)
	for range 3 {
		if err := constant.Append([]float64{50, nothing, 1, 3, 2000, 1}, ""); err != nil {
			t.Fatal(err)
		}
	}
	for name, tables := range map[string][2]*partition.Table{
		"no synthetic rows": {empty, full}, "no real rows": {full, empty}, "constant": {constant, constant},
		"constant against full": {constant, full}, "one row": {clinic(t, 1, 3, 0), nil},
	} {
		columns, err := Columns(schema, tables[0], tables[1])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		write(t, Page{Certificate: c, Columns: columns})
	}
	columns, err := Columns(schema, constant, constant)
	if err != nil {
		t.Fatal(err)
	}
	if age := columns[0]; len(age.Bars) != 1 || age.Bars[0].Label != "50" || age.Bars[0].Synthetic != 1 {
		t.Errorf("a constant column has bars %+v", columns[0].Bars)
	}
	if creatinine := columns[1]; len(creatinine.Bars) != 0 || creatinine.Missing != 1 || creatinine.Real {
		t.Errorf("an empty column is %+v", creatinine)
	}
	if _, err := Columns(schema, nil, nil); err == nil {
		t.Error("no synthetic table was accepted")
	}
}
