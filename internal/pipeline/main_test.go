package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
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

func testModel(t *testing.T, shares ...float64) *NetworkModel {
	t.Helper()
	s := partitiontest.Schema(t, testSchema)
	return modelOf(t, s, GeneratorSpec{Noise: 4, Hidden: 8, Layers: 2, Classes: 2}, shares...)
}

// imageSchema describes images of two classes; pixel are the fields of a pixel.
func imageSchema(t testing.TB, height, width, channels int) *partition.Schema {
	t.Helper()
	s, err := partition.ParseSchema(fmt.Appendf(nil, `
name: images
label: label
format: idx
image: {height: %d, width: %d, channels: %d}
columns:
  - {name: label, kind: categorical, categories: [a, b]}
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: %d}
`, height, width, channels, height*width*channels))
	testkit.Must(t, err)
	return s
}

// loaded returns a saved network.
func loaded(dir string) (*NetworkModel, error) {
	m, err := LoadModel(dir, Network)
	if err != nil {
		return nil, err
	}
	return m.(*NetworkModel), nil
}

func modelOf(t testing.TB, s *partition.Schema, spec GeneratorSpec, shares ...float64) *NetworkModel {
	t.Helper()
	g, err := NewGenerator(encode.New(s), spec, rand.New(rand.NewPCG(1, 1)))
	testkit.Must(t, err)
	m, err := NewNetwork(s, g, shares)
	testkit.Must(t, err)
	return m
}
