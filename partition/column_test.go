package partition_test

import (
	"testing"

	"github.com/conclave-dp/conclave/partition"
)

// A made-up identifier is valid for the column's own parser.
func TestMadeUpUnits(t *testing.T) {
	for name, column := range map[string]string{
		"text":        "{name: u, role: unit}",
		"integer":     "{name: u, role: unit, kind: integer, lower: 100000, upper: 100004}",
		"continuous":  "{name: u, role: unit, kind: continuous, lower: -1, upper: 1}",
		"categorical": "{name: u, role: unit, kind: categorical, categories: [a, b]}",
	} {
		s, err := partition.ParseSchema([]byte("name: x\ncolumns:\n  - {name: a, kind: binary}\n  - " + column + "\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := &s.Columns[s.UnitColumn()]
		seen := map[string]bool{}
		for i := range 9 {
			text := c.MadeUpUnit(i)
			if _, fault := c.ParseUnit(text); fault != nil {
				t.Errorf("%s: %q: %s", name, text, fault.Problem)
			}
			seen[text] = true
		}
		if want := map[string]int{"text": 9, "integer": 5, "continuous": 9, "categorical": 2}[name]; len(seen) != want {
			t.Errorf("%s: %d identifiers, want %d", name, len(seen), want)
		}
	}
}
