package report

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// Rows with weights, and the same rows repeated as their weights say.
func weightedRows(t *testing.T) (weighted, repeated *partition.Table) {
	t.Helper()
	schema, err := partition.ParseSchema([]byte("columns:\n" +
		"  - {name: age, kind: integer, lower: 0, upper: 100}\n" +
		"  - {name: dose, kind: continuous, lower: 0, upper: 1, nullable: true}\n" +
		"  - {name: colour, kind: categorical, categories: [red, green, blue]}\n"))
	testkit.Must(t, err)
	rows := partition.NewTable(schema)
	repeated = partition.NewTable(schema)
	var weights []float64
	for i := range 300 {
		cells := []float64{float64(i * i % 97), float64(i*7%50) / 50, float64(i % 3)}
		if i%11 == 0 {
			cells[1] = math.NaN()
		}
		w := float64((i / 3) % 4)
		weights = append(weights, w/1.5)
		for k := range int(w) + 1 {
			to := repeated
			if k == 0 {
				to = rows
			}
			testkit.Must(t, to.Append(cells, ""))
		}
	}
	if weighted, err = rows.WithWeights(weights); err != nil {
		t.Fatal(err)
	}
	return weighted, repeated
}

func TestColumnsAndCorrelationsUseWeights(t *testing.T) {
	weighted, repeated := weightedRows(t)
	got, err := picture.Columns(weighted.Schema(), weighted, nil)
	testkit.Must(t, err)
	want, err := picture.Columns(repeated.Schema(), repeated, nil)
	testkit.Must(t, err)
	for k := range want {
		g, w := got[k], want[k]
		if math.Abs(g.Missing-w.Missing) > 1e-12 || len(g.Bars) != len(w.Bars) ||
			!g.Horizontal && math.Abs(g.Mean-w.Mean) > 1e-9 {
			t.Errorf("%s: %+v with weights, %+v repeated", w.Name, g, w)
			continue
		}
		for i := range w.Bars {
			if g.Bars[i].Label != w.Bars[i].Label || math.Abs(g.Bars[i].Synthetic-w.Bars[i].Synthetic) > 1e-9 {
				t.Errorf("%s: bar %+v with weights, %+v repeated", w.Name, g.Bars[i], w.Bars[i])
			}
		}
	}
	a, b := picture.NewCorrelations(weighted), picture.NewCorrelations(repeated)
	if len(a.Columns) != 2 || math.Abs(a.Values[1][0]-b.Values[1][0]) > 1e-9 {
		t.Errorf("correlations %v with weights, %v repeated", a, b)
	}
}

func TestEffectiveSampleSizeIsInAllThreeFiles(t *testing.T) {
	c, rounds := example(t)
	page := Page{Certificate: c, Rounds: rounds, Weights: &evaluate.Weights{EffectiveSampleSize: 1234.5, Largest: 8.25,
		Zero: 17}}
	var html, markdown, object bytes.Buffer
	testkit.Must(t, WriteHTML(&html, page))
	testkit.Must(t, WriteMarkdown(&markdown, page))
	testkit.Must(t, WriteJSON(&object, page))
	for name, file := range map[string]string{"html": html.String(), "markdown": markdown.String()} {
		for _, words := range []string{"Effective sample size", text.Figure(1234.5), "as over that many rows of " +
			"equal weight",
			"17 rows have the weight 0"} {
			if !strings.Contains(file, words) {
				t.Errorf("%s: %q is missing", name, words)
			}
		}
		// It follows from the synthetic rows alone.
		if strings.Contains(file, "NOT PRIVATE") {
			t.Errorf("%s: marked NOT PRIVATE", name)
		}
	}
	f, err := ReadJSON(object.Bytes())
	if err != nil || f.Weights == nil || *f.Weights != *page.Weights ||
		!strings.Contains(object.String(), `"effective_sample_size": 1234.5`) {
		t.Errorf("json: %+v, %v", f.Weights, err)
	}

	// The evaluation's weights if the page has none of its own, and nothing without weights.
	page.Evaluation, page.Weights = evaluation(), nil
	object.Reset()
	if err := WriteJSON(&object, page); err != nil || strings.Contains(object.String(), "effective_sample_size") {
		t.Errorf("without weights: %v", err)
	}
	page.Evaluation.Weights = &evaluate.Weights{EffectiveSampleSize: 20, Largest: 2}
	object.Reset()
	testkit.Must(t, WriteJSON(&object, page))
	var got struct{ Weights *evaluate.Weights }
	if err := json.Unmarshal(object.Bytes(), &got); err != nil || got.Weights == nil ||
		got.Weights.EffectiveSampleSize != 20 {
		t.Errorf("the evaluation's: %v, %v", got.Weights, err)
	}
	page.Weights = &evaluate.Weights{EffectiveSampleSize: math.NaN()}
	if err := WriteHTML(&html, page); err == nil {
		t.Error("an effective sample size that is not a number was drawn")
	}
}
