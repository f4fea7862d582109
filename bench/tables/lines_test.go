package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestTheTableOfLines(t *testing.T) {
	g := asLines("embed", rowsAlike, []group{{name: "x", epsilon: 1, paper: 0.25}})[0]
	l := &log{}
	for _, o := range []*figures.Line{
		{Group: "x", Case: figures.RealRows, Figures: map[string]float64{auroc: 0.9, shapes: 0.99, trends: 0.97}},
		{Group: "x", Case: "run", Seed: 1, Figures: map[string]float64{auroc: 0.5, shapes: 0.7, trends: 0.8}, Rounds: 2,
			Queries: 30, Dependent: 0.98, Seconds: 4, Evaluated: 6},
		{Group: "x", Case: "run", Seed: 2, Figures: map[string]float64{auroc: 0.7, shapes: 0.9, trends: 0.8}, Rounds: 2,
			Queries: 30, Dependent: 0.98, Seconds: 4, Evaluated: 6},
		{Group: "x", Case: "run", Seed: 1, Null: true, Figures: map[string]float64{auroc: 0.4}},
		{Group: "x", Case: "run", Seed: 3, Failed: "no disk"},
	} {
		testkit.Must(t, l.add(o))
		if raw, err := json.Marshal(o); err != nil || !strings.Contains(string(raw), "NOT PRIVATE") {
			t.Errorf("%s, %v", raw, err)
		}
	}
	lines := strings.Split(lineTable("coin flips", shapes, trends)(l.outcomes,
		[]group{g, {name: "unmeasured", cases: g.cases}}), "\n")
	want := "| x | 0.98 (data-dependent) | 1 | 2 | 30 | 0.600 ± 0.141 | 0.400 | 0.900 | 0.250 | 6 | 4 |" +
		" 0.800 (0.990) | 0.800 (0.970) |seed 3: no disk"
	if len(lines) != 4 || lines[2] != want {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	for _, line := range lines[:3] {
		if strings.Count(line, "|") != 14 {
			t.Errorf("other columns: %s", line)
		}
	}
}

// The lines of a table are as many as were named, and those of the series are lines.
func TestLinesOfAKind(t *testing.T) {
	for _, c := range []struct {
		groups []group
		only   string
		want   int
	}{{embedLines(), "warm-*", 12}, {dpganLines(), "nd-*", 6}, {dpganLines(), "even-*", 3},
		{gpateLines(), "*-dependent", 3}} {
		chosen, err := choose(c.groups, c.only, "*")
		if err != nil || len(chosen) != c.want {
			t.Errorf("%s: %d lines, want %d, %v", c.only, len(chosen), c.want, err)
		}
		for _, g := range chosen {
			if !g.alone {
				t.Errorf("%s has a null", g.name)
			}
		}
	}
}

// The picture is XML with a point for each line measured, and says that it is not private.
func TestPlot(t *testing.T) {
	of := func(name string, share float64) *figures.Line {
		return &figures.Line{Group: name, Case: "run", Figures: map[string]float64{accuracy: share}}
	}
	svg, err := plotEvery([]*figures.Line{
		of("mnist-1", 0.9), of("nd-50", 0.5), of("nd-1", 0.25), of("even-10", 0.75),
		{Group: "nd-1", Case: figures.RealRows, Figures: map[string]float64{accuracy: 0.99}},
		{Group: "nd-2", Case: "run", Failed: "x"},
	})
	testkit.Must(t, err)
	d, points := xml.NewDecoder(strings.NewReader(string(svg))), 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			points++
		}
	}
	if points != 3 || !strings.Contains(string(svg), `points="56.0,210.0 460.0,148.0"`) ||
		!strings.Contains(string(svg), "NOT PRIVATE") {
		t.Errorf("%d points:\n%s", points, svg)
	}
	if _, err := plotEvery(nil); err == nil {
		t.Error("nothing was plotted")
	}
}
