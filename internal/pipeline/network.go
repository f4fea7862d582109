package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Network is the kind of model that is a generator network with class shares.
var Network = ModelKind{Name: "network", Load: loadNetwork}

// NetworkModel is a trained generator with everything needed to sample from it: the public schema and the
// privately released class shares.
type NetworkModel struct {
	Generator *Generator
	// Shares holds the share of each class; they add up to 1.
	Shares []float64

	schema  *partition.Schema
	encoder *encode.Encoder
}

type networkJSON struct {
	ModelHeader
	Generator GeneratorSpec `json:"generator"`
	Shares    []float64     `json:"class_shares"`
}

// NewNetwork returns a model of these parts.
func NewNetwork(schema *partition.Schema, g *Generator, shares []float64) (*NetworkModel, error) {
	m := &NetworkModel{Generator: g, Shares: shares, schema: schema, encoder: encode.New(schema)}
	var sum float64
	for _, s := range shares {
		if !(s >= 0) {
			return nil, fmt.Errorf("pipeline: class share %v is not a share", s)
		}
		sum += s
	}
	if len(shares) != g.spec.Classes || sum < 1-1e-6 || sum > 1+1e-6 || m.encoder.Width() != g.width {
		return nil, fmt.Errorf("pipeline: %d class shares with sum %v and %d features do not fit a generator of %d "+
			"classes and %d features", len(shares), sum, m.encoder.Width(), g.spec.Classes, g.width)
	}
	return m, nil
}

// Schema returns the schema of the rows.
func (m *NetworkModel) Schema() *partition.Schema { return m.schema }

// Save writes the model folder.
func (m *NetworkModel) Save(dir string) error {
	t := safetensors.New()
	for _, p := range m.Generator.Net.Params() {
		t.Add("", []tensor.Param{transposed(p)})
	}
	return SaveModel(dir, Network.Name, m.schema, t, func(h ModelHeader) any {
		return networkJSON{ModelHeader: h, Generator: m.Generator.spec, Shares: m.Shares}
	})
}

// transposed returns a copy of a tensor. If the tensor has two axes, they are exchanged: in the file, the
// weights of dense layers have the usual shape [outputs, inputs]; in the network they have shape [inputs,
// outputs]. Kernels have four axes and stay.
func transposed(p tensor.Param) tensor.Param {
	t := tensor.Param{Name: p.Name, Shape: slices.Clone(p.Shape), Value: slices.Clone(p.Value)}
	if len(p.Shape) == 2 {
		rows, cols := p.Shape[0], p.Shape[1]
		t.Shape = []int{cols, rows}
		for i := range rows {
			for j := range cols {
				t.Value[j*rows+i] = p.Value[i*cols+j]
			}
		}
	}
	return t
}

func loadNetwork(s *SavedModel) (Model, error) {
	var j networkJSON
	if err := s.Fields(&j); err != nil {
		return nil, err
	}
	e := encode.New(s.Schema)
	if err := j.Generator.Check(e); err != nil {
		return nil, s.Wrong(err)
	}
	g, err := NewGenerator(e, j.Generator, rand.New(rand.NewPCG(0, 0)))
	if err != nil {
		return nil, err
	}
	for _, p := range g.Net.Params() {
		outputsFirst := transposed(p)
		if err := s.Tensors.CopyTo("", []tensor.Param{outputsFirst}); err != nil {
			return nil, s.Wrong(err)
		}
		copy(p.Value, transposed(outputsFirst).Value)
	}
	return NewNetwork(s.Schema, g, j.Shares)
}

// Sample draws rows of all classes in their released shares, or of the one class in the condition. A network
// supports no other condition.
func (m *NetworkModel) Sample(rows int, where []Condition, rng *rand.Rand) (*partition.Table, error) {
	class := anyClass
	for _, c := range where {
		of, err := m.class(c)
		if err != nil {
			return nil, err
		}
		if class != anyClass && of != class {
			return nil, fmt.Errorf("%w: a row has one label, and the conditions ask for %v", ErrCondition, where)
		}
		class = of
	}
	return m.sample(rows, class, rng)
}

// anyClass asks sample for classes in their released shares.
const anyClass = -1

// sample draws a table of rows records, all of one class or, with anyClass, of
// classes in their released shares.
func (m *NetworkModel) sample(rows, class int, rng *rand.Rand) (*partition.Table, error) {
	if rows < 1 {
		return nil, fmt.Errorf("sample %d rows: want at least 1", rows)
	}
	if class != anyClass && (class < 0 || class >= len(m.Shares)) {
		return nil, fmt.Errorf("sample class %d of %d", class, len(m.Shares))
	}
	table := partition.NewTable(m.schema)
	const batch = 1024
	classes := make([]int, batch)
	for done := 0; done < rows; done += batch {
		n := min(batch, rows-done)
		for i := range n {
			if classes[i] = class; class == anyClass {
				classes[i] = DrawClass(m.Shares, rng)
			}
		}
		x, err := m.Generator.Records(classes[:n], rng)
		if err != nil {
			return nil, err
		}
		if err := decode(table, m.encoder, x, classes[:n]); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// class finds the class for a condition "label=value".
func (m *NetworkModel) class(c Condition) (int, error) {
	classes := m.schema.Classes()
	if c.Column != m.schema.Label || c.Relation != "=" || len(classes) == 0 {
		return 0, noSuchClass(fmt.Sprintf("only the label %q can be asked for", m.schema.Label))
	}
	if i := slices.Index(classes, c.Value); i >= 0 {
		return i, nil
	}
	return 0, noSuchClass(fmt.Sprintf("label %q has the values %q", c.Column, classes))
}

// noSuchClass is the [ErrCondition] of a network.
type noSuchClass string

func (e noSuchClass) Error() string { return "no such class: " + string(e) }

func (noSuchClass) Is(target error) bool { return target == ErrCondition }

// Records draws an encoded record of each class; see [Generator.Records].
func (m *NetworkModel) Records(classes []int, rng *rand.Rand) ([]float32, error) {
	return m.Generator.Records(classes, rng)
}

// Records draws an encoded record of each class, shape [len(classes), Width]. None breaks a constraint of the schema.
func (g *Generator) Records(classes []int, rng *rand.Rand) ([]float32, error) {
	return g.of.Keep(classes, func(classes []int) ([]float32, error) {
		const batch = 1024
		x := make([]float32, len(classes)*g.width)
		for from := 0; from < len(classes); from += batch {
			to := min(len(classes), from+batch)
			g.Sample(x[from*g.width:to*g.width], classes[from:to], rng)
		}
		return x, nil
	})
}
