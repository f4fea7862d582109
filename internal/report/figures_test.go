package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Paid figures are shown without a mark, and a figure that is not a share in its interval is refused.
func TestPaidFigures(t *testing.T) {
	c, rounds := example(t)
	good := pipeline.Figure{Name: "Share of rows in the wrong cell, per column", Value: 0.021, Low: 0.016, High: 0.027,
		Epsilon: 0.05}
	p := Page{Certificate: c, Rounds: rounds, Figures: []pipeline.Figure{good}}
	var html, md, raw bytes.Buffer
	testkit.Must(t, WriteHTML(&html, p))
	testkit.Must(t, WriteMarkdown(&md, p))
	testkit.Must(t, WriteJSON(&raw, p))
	for _, written := range []string{html.String(), md.String()} {
		if !strings.Contains(written, "2.1% (1.6 to 2.7), paid for with epsilon 0.05") ||
			strings.Contains(written, "NOT PRIVATE") {
			t.Error("the figure is not there, or it is marked")
		}
	}
	file, err := ReadJSON(raw.Bytes())
	testkit.Must(t, err)
	testkit.Same(t, "figures", p.Figures, file.Figures)
	for what, change := range map[string]func(*pipeline.Figure){
		"no name":       func(f *pipeline.Figure) { f.Name = "" },
		"above its end": func(f *pipeline.Figure) { f.Value = 0.03 },
		"below its end": func(f *pipeline.Figure) { f.Value = 0.01 },
		"above 1":       func(f *pipeline.Figure) { f.High = 1.5 },
		"no number":     func(f *pipeline.Figure) { f.Low = math.NaN() },
		"no price":      func(f *pipeline.Figure) { f.Epsilon = 0 },
	} {
		bad := good
		change(&bad)
		p.Figures = []pipeline.Figure{bad}
		if err := WriteMarkdown(&md, p); err == nil || !strings.Contains(err.Error(), "figure") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
