package config

import (
	"strings"
	"testing"
	"time"
)

// A fraction is not cut off a number that must be whole, and a forgotten value is no default.
func TestValuesAreNotTakenForOthers(t *testing.T) {
	type inner struct {
		N int     `yaml:"n"`
		F float64 `yaml:"f"`
	}
	for text, want := range map[string]string{
		"a: 3\nb: {n: 2, f: 0.5}\nl: [{n: 4}]\nu: 5": "",
		"a: 2.0":                               "",
		"a: 1e3":                               "",
		"f: 2.7":                               "",
		"a: 2.7":                               "line 1, column 4: a: want a whole number, not 2.7",
		"f: 1\nb:\n  n: 1.5":                   "line 3, column 6: b.n: want a whole number, not 1.5",
		"l:\n  - {f: 1.5, n: 1}\n  - {n: 0.5}": "l.n: want a whole number, not 0.5",
		"u: 1.25":                              "u: want a whole number",
		"a: 1e-3":                              "line 1, column 4: a: want a whole number, not 1e-3",
		"u: 1e-320":                            "u: want a whole number, not 1e-320",
		"f: 1e-3\nd: 10s":                      "",
		"d:":                                   "d: has no value; give it one, or remove the line",
		"b:\n  n:\n":                           "b.n: has no value",
		"f: 1\na: ~":                           "a: has no value",
		"s: ''\nb:\nl:\n":                      "",
		"d: 1e3s":                              "line 1, column 4: d: want a duration such as 10s, not 1e3s",
		"b: {f: 1e400}":                        "b.f: want a number, not 1e400",
		"b: {n: NaN}":                          "b.n: want a whole number, not NaN",
		"s:":                                   "s: has no value",
	} {
		var c struct {
			A int           `yaml:"a"`
			F float64       `yaml:"f"`
			B inner         `yaml:"b"`
			L []inner       `yaml:"l"`
			U uint64        `yaml:"u"`
			S string        `yaml:"s"`
			D time.Duration `yaml:"d"`
		}
		err := Decode(strings.NewReader(text), &c)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
