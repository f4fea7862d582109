package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/bench/table"
)

// Every line has a name of its own and options that a run takes.
func TestLinesAreRuns(t *testing.T) {
	for _, err := range program.Check() {
		t.Error(err)
	}
	for _, s := range all {
		if short, err := program.Choose(s.prefix + "-*"); err != nil || len(short) != len(s.everies) {
			t.Errorf("%s: %d lines for %d n_D, %v", s.prefix, len(short), len(s.everies), err)
		}
	}
}

// The picture is XML with a point for each line measured, and says that it is not private.
func TestPlot(t *testing.T) {
	svg, err := plot([]*table.Result{{Name: "mnist-1", Ours: []float64{0.9}}, {Name: "nd-50", Ours: []float64{0.5}}, {Name: "nd-1", Ours: []float64{0.25}}, {Name: "even-10", Ours: []float64{0.75}}})
	if err != nil {
		t.Fatal(err)
	}
	d, points := xml.NewDecoder(strings.NewReader(string(svg))), 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			points++
		}
	}
	if points != 3 || !strings.Contains(string(svg), `points="56.0,210.0 460.0,148.0"`) || !strings.Contains(string(svg), "NOT PRIVATE") {
		t.Errorf("%d points:\n%s", points, svg)
	}
	if _, err := plot(nil); err == nil {
		t.Error("nothing was plotted")
	}
}
