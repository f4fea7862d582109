package report

import (
	"html"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/picture"
)

func TestHeatMaps(t *testing.T) {
	h := picture.NewHeatMaps(nil, evaluation())
	if len(h.Maps) != 3 || !h.NotPrivate || h.Wide || h.LeftOut != "" {
		t.Fatalf("%+v", h)
	}
	for k, want := range []struct {
		title string
		real  bool
		text  string // of creatinine and year, the last cell
	}{{"Real rows", true, "+0.25"}, {"Synthetic rows", false, "−0.35"}, {"Difference", true, "−0.60"}} {
		m := h.Maps[k]
		if m.Title != want.title || m.Real != want.real || len(m.Cells) != 3 {
			t.Errorf("map %d is %q, real %v, with %d cells", k, m.Title, m.Real, len(m.Cells))
		}
		if last := m.Cells[2]; last.Text != strings.Replace(want.text, "0.", ".", 1) ||
			last.Full != "creatinine and year: "+want.text {
			t.Errorf("%s: the last cell is %+v", m.Title, last)
		}
	}
	if alone := picture.NewHeatMaps(picture.NewCorrelations(clinic(t, 100, 1, 0)), nil); len(alone.Maps) != 1 ||
		alone.NotPrivate ||
		alone.Maps[0].Real {
		t.Errorf("without real rows: %+v", alone)
	}
	one := &picture.Correlations{Columns: []string{"a"}, Values: [][]float64{{}}}
	if picture.NewHeatMaps(nil, nil) != nil || picture.NewHeatMaps(one, &evaluate.Evaluation{}) != nil {
		t.Error("there is a map without a pair")
	}
}

// A pair of a column with itself, or a column in few pairs, is no reason to fail.
func TestHeatMapsOfOddPairs(t *testing.T) {
	c, _ := example(t)
	v := 0.5
	e := &evaluate.Evaluation{Pairs: []evaluate.PairTrend{
		{Columns: [2]string{"a", "a"}, Real: &v, Synthetic: &v},
		{Columns: [2]string{"c", "b"}, Real: &v, Synthetic: &v},
		{Columns: [2]string{"b", "a"}, Real: &v, Synthetic: &v}, {Columns: [2]string{"d", "e"}, Real: &v},
	}}
	page := html.UnescapeString(write(t, Page{Certificate: c, Evaluation: e}))
	if !strings.Contains(page, "a and b: +0.50") || !strings.Contains(page, "c and b: +0.50") ||
		!strings.Contains(page, "a and c: not known") {
		t.Error("the pairs are not those given")
	}
}
