package pipeline

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/partition"
)

const testSchema = `
name: test
label: label
columns:
  - {name: who, role: unit, kind: integer, lower: 1000, upper: 1999}
  - {name: a, kind: continuous, lower: -1, upper: 1, nullable: true}
  - {name: c, kind: categorical, categories: [x, y, z]}
  - {name: label, kind: categorical, categories: ["no", "yes"]}
`

func testModel(t *testing.T, shares ...float64) *Model {
	t.Helper()
	s, err := partition.ParseSchema([]byte(testSchema))
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGenerator(partition.NewEncoder(s), GeneratorSpec{Noise: 4, Hidden: 8, Layers: 2, Classes: 2}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(s, g, shares)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
