package pipeline

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const constrained = `
label: label
columns:
  - {name: a, kind: continuous, lower: 0, upper: 30}
  - {name: b, kind: continuous, lower: 0, upper: 70}
  - {name: first, kind: integer, lower: 0, upper: 9, nullable: true}
  - {name: last, kind: integer, lower: 0, upper: 9, nullable: true}
  - {name: c, kind: categorical, categories: [x, y, z]}
  - {name: d, kind: categorical, categories: [k, l, m], nullable: true}
  - {name: label, kind: categorical, categories: [n, p]}
constraints:
`

// A generator that has learned nothing draws rows that break every constraint, and none of them is returned.
func TestNoRowBreaksAConstraint(t *testing.T) {
	for _, constraint := range []string{
		"{at_most: [a, b], broken: move}", "{at_most: [b, a], broken: move}", "{at_most: [b, a]}", "{less: [a, b]}",
		"{less: [first, last], broken: move}", "{less: [first, last]}",
		`{if: {a: ">5"}, then: {c: [y, z]}, broken: move}`, `{if: {first: ""}, then: {last: ""}}`,
		"{never: {c: x, d: k}}", "{never: {c: x, label: p}}",
		"{column: d, follows: c, as: {x: k, y: l, z: ''}, broken: move}",
		"{column: d, follows: c, as: {x: k, y: l, z: ''}}",
		// The requested class stays.
		`{if: {a: ">15"}, then: {label: n}, broken: move}`,
		"{column: label, follows: d, as: {k: p, l: n}, broken: move}",
	} {
		t.Run(constraint, func(t *testing.T) {
			s := partitiontest.Schema(t, constrained+"  - "+constraint+"\n")
			m := modelOf(t, s, GeneratorSpec{Noise: 4, Hidden: 8, Layers: 2, Classes: 2}, 0.5, 0.5)
			classes := make([]int, 500)
			for i := range classes {
				classes[i] = i % 2
			}
			broken := func(x []float32) (n int) {
				for i, class := range classes {
					cells, err := m.encoder.Decode(x[i*m.Generator.width:(i+1)*m.Generator.width], class, "")
					testkit.Must(t, err)
					if s.Broken(cells) > 0 {
						n++
					}
				}
				return n
			}
			x := make([]float32, len(classes)*m.Generator.width)
			if m.Generator.Sample(x, classes, rand.New(rand.NewPCG(1, 2))); broken(x) == 0 {
				t.Error("the generator breaks none by itself: there is nothing to keep")
			}
			x, err := m.Generator.Records(classes, rand.New(rand.NewPCG(1, 2)))
			testkit.Must(t, err)
			if n := broken(x); n > 0 {
				t.Errorf("%d of the records break it", n)
			}
			table, err := m.sample(500, 1, rand.New(rand.NewPCG(1, 2)))
			testkit.Must(t, err)
			for i := range table.Len() {
				if table.Label(i) != 1 || s.Broken(table.Cells(i)) > 0 {
					t.Fatalf("a row of class 1 is %v", table.Cells(i))
				}
			}
		})
	}
}
