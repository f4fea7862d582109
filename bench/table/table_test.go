package table

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
)

func TestTheTableSaysThatItIsNotPrivate(t *testing.T) {
	r := &Result{Privacy: evaluate.NotPrivate, Name: "x", Epsilon: 1, Ours: []float64{0.5, 0.7}, Null: []float64{0.4}, Dependent: 0.98}
	if got := r.String(); !strings.Contains(got, "| 0.600 ± 0.141 | 0.400 |") || !strings.Contains(got, "0.98 (data-dependent)") {
		t.Errorf("%s", got)
	}
	if raw, err := json.Marshal(r); err != nil || !strings.Contains(string(raw), "NOT PRIVATE") {
		t.Errorf("%s, %v", raw, err)
	}
	if h := (&Program{Null: "coin flips"}).header(); strings.Count(strings.Split(h, "\n")[0], "|") != strings.Count(r.String(), "|") {
		t.Error("the header has other columns")
	}
}

func TestLinesAreChosenByNameOrPattern(t *testing.T) {
	p := &Program{Lines: []Line{{Name: "nd-1"}, {Name: "nd-10"}, {Name: "mnist"}}}
	for only, want := range map[string]string{
		"": "nd-1 nd-10 mnist", "nd-1": "nd-1", "nd-*": "nd-1 nd-10", "mnist, nd-*,nd-1": "mnist nd-1 nd-10", "nd": "", "mnist,none": "", "[": "",
	} {
		chosen, err := p.Choose(only)
		var names []string
		for _, l := range chosen {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, " "); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %s, %v", only, got, err)
		}
	}
}

func TestOptionsOverOthers(t *testing.T) {
	for _, c := range [][3]string{
		{"", "", `{}`},
		{"{a: 1, s: {x: 1, y: 2}}", "", `{"a":1,"s":{"x":1,"y":2}}`},
		{"{a: 1, s: {x: 1, y: 2}}", "{a: two, s: {y: 3}}", `{"a":"two","s":{"x":1,"y":3}}`},
		{"", "{s: {y: 3}}", `{"s":{"y":3}}`},
	} {
		if got, err := over(c[0], c[1]); err != nil || got != c[2] {
			t.Errorf("%s under %s: %s, %v", c[0], c[1], got, err)
		}
	}
	if _, err := over("{", ""); err == nil {
		t.Error("broken options were taken")
	}
}

// Check finds what would end a measurement after hours.
func TestLinesThatAreNoRuns(t *testing.T) {
	good := Line{Name: "x", Data: example, Epsilon: 1, Teachers: 10, Rows: 10}
	wrong := good
	wrong.Name, wrong.Options = "y", "{nothing: 1}"
	poor := good
	poor.Name, poor.Epsilon, poor.Options = "z", 0.001, "{class_epsilon: 1}"
	p := &Program{Name: "table", Pipeline: "dpgan", Lines: []Line{good, good, wrong, poor}}
	errs := p.Check()
	for i, want := range []string{"two lines", "y: ", "z: "} {
		if len(errs) != 3 || !strings.Contains(errs[i].Error(), want) {
			t.Fatalf("%v", errs)
		}
	}
}
