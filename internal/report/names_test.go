package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// wideTable has numbers, some of them alike, and a category after every four.
func wideTable(t *testing.T, columns, rows int) *partition.Table {
	t.Helper()
	var text strings.Builder
	text.WriteString("name: wide\ncolumns:\n")
	for j := range columns {
		if j%5 == 4 {
			categories := make([]string, 50)
			for k := range categories {
				categories[k] = fmt.Sprintf("%q",
					fmt.Sprintf("value %d of a list that is long <script>alert(%d)</script>", k, j))
			}
			fmt.Fprintf(&text, "  - {name: \"category %d\", kind: categorical, categories: [%s]}\n", j,
				strings.Join(categories, ", "))
			continue
		}
		fmt.Fprintf(&text, "  - {name: \"measured_quantity_%03d_%s\", kind: continuous, lower: -100, upper: 100}\n", j,
			strings.Repeat("x", j%40))
	}
	schema := partitiontest.Schema(t, text.String())
	r := rand.New(rand.NewPCG(5, 5))
	table := partition.NewTable(schema)
	for range rows {
		cells := make([]float64, columns)
		common := r.NormFloat64()
		for j := range cells {
			if cells[j] = float64(j%3)*common + 3*r.NormFloat64(); j%5 == 4 {
				cells[j] = float64(r.IntN(50))
			}
		}
		testkit.Must(t, table.Append(cells, ""))
	}
	return table
}

// widePage compares a table with itself, in every pair.
func widePage(t *testing.T, columns int) Page {
	t.Helper()
	c, rounds := example(t)
	table := wideTable(t, columns, 400)
	summaries, err := picture.Columns(table.Schema(), table, table)
	testkit.Must(t, err)
	p := Page{Title: strings.Repeat("AVeryLongName", 12), Certificate: c, Rounds: rounds, Columns: summaries,
		Correlations: picture.NewCorrelations(table)}
	e := evaluation()
	for i, row := range p.Correlations.Values {
		for j, v := range row {
			real := v / 2
			e.Pairs = append(e.Pairs, evaluate.PairTrend{
				Columns: [2]string{p.Correlations.Columns[j], p.Correlations.Columns[i]}, Real: &real, Synthetic: &v,
				Score: some(0.9),
			})
		}
	}
	p.Evaluation = e
	return p
}

func TestAWidePageStaysSmall(t *testing.T) {
	p := widePage(t, 100)
	page := write(t, p)
	t.Logf("%d bytes", len(page))
	if len(page) > 3<<20 {
		t.Errorf("the page of 100 columns has %d bytes, more than 3 MiB", len(page))
	}
	for _, want := range []string{
		"40 others", "value 1 of…",
		"such columns. For readability, the picture shows the 30 with the largest differences",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script") {
		t.Error("a name became an element")
	}
	if n := strings.Count(markdownOf(t, p), "<script"); n > 0 {
		t.Errorf("a name is written as it is in Markdown, %d times", n)
	}
}

// Names of any kind stay text, in every place that shows them.
func TestNamesStayText(t *testing.T) {
	c, rounds := example(t)
	name := `"><script>alert('1')</script>` + "`|*" + strings.Repeat("long", 60)
	c.Run, c.Unit = name, name
	e := evaluation()
	e.Utility[0].Model, e.Columns[0].Column, e.Notes[0] = name, name, name
	e.Regression[0].Column, e.Marginals[0].Widest = name, []string{name, name}
	e.Pairs[0].Columns, e.Pairs[1].Columns = [2]string{name, name + "2"}, [2]string{name, "year"}
	*e.Columns[0].Score, *e.Pairs[0].Score = 0, 0
	p := Page{
		Certificate: c, Rounds: rounds, Evaluation: e, Config: name, Notes: []string{name},
		Images: []picture.Sheet{{Name: name, PNG: squares(t, 8, 8)}},
		Columns: []picture.Column{{Name: name, Doc: name, Bars: []picture.Bar{{Label: name, Synthetic: 1}},
			Horizontal: true}},
		Correlations: &picture.Correlations{Columns: []string{name, "b"}, Values: [][]float64{{}, {0.1}}},
	}
	page := write(t, p)
	if strings.Contains(page, "<script") {
		t.Error("a name became an element")
	}
	p.Evaluation = nil
	write(t, p)
}
