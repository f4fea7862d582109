package encode

import (
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// A row that breaks a constraint is redrawn while that helps, then moved if the constraint can move it, and otherwise
// an error.
func TestRowsThatAreAlwaysBroken(t *testing.T) {
	for constraint, want := range map[string]float64{
		"{if: {c: x}, then: {d: l}}":            1,
		`{if: {c: x}, then: {d: ["", k]}}`:      math.NaN(),
		"{if: {c: x}, then: {label: n}}":        -1,
		"{never: {c: x, label: p}}":             -1,
		"{never: {c: x, d: m}, broken: refuse}": -1,
	} {
		s := partitiontest.Schema(t, `label: label
columns:
  - {name: c, kind: categorical, categories: [x, y, z]}
  - {name: d, kind: categorical, categories: [k, l, m], nullable: true}
  - {name: label, kind: categorical, categories: [n, p]}
constraints:
  - `+constraint+"\n")
		e := New(s)
		always := make([]float32, e.Width())
		at := map[string]int{}
		for i, name := range e.Names() {
			at[name] = i
		}
		always[at["c=x"]], always[at["d=m"]] = 1, 1
		x, err := e.Keep([]int{1}, func(classes []int) (x []float32, err error) {
			for range classes {
				x = append(x, always...)
			}
			return x, nil
		})
		if want == -1 {
			if err == nil || !strings.Contains(err.Error(), "constraint 1") {
				t.Errorf("%s: the error is %v", constraint, err)
			}
			continue
		}
		testkit.Must(t, err)
		cells, err := e.Decode(x, 1, "")
		testkit.Must(t, err)
		if d := cells[s.ColumnIndex("d")]; d != want && !(math.IsNaN(d) && math.IsNaN(want)) {
			t.Errorf("%s: d is moved to %v, want %v", constraint, d, want)
		}
	}
}
