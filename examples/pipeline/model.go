package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// histograms is the kind of the example's models. conclave sample finds it by its name in model.json.
var histograms = pipeline.ModelKind{Name: "tens", Load: load}

// model draws rows of independent columns: one by ten released numbers, the others uniformly over
// what the schema allows.
type model struct {
	schema  *partition.Schema
	encoder *encode.Encoder
	// column is the place of the feature that was asked for; records are the numbers, 0 at least.
	column  int
	records [cells]float32
}

// modelJSON is the model.json. The ten numbers are the tensor "records" of the other file.
type modelJSON struct {
	pipeline.ModelHeader
	Column int `json:"column"`
}

func (m *model) Schema() *partition.Schema { return m.schema }

// tensors are the ten numbers, which share their memory.
func (m *model) tensors() []tensor.Param {
	return []tensor.Param{pipeline.Vector("records", m.records[:])}
}

// Save writes the model folder.
func (m *model) Save(dir string) error {
	set := safetensors.New()
	set.Add("", m.tensors())
	return pipeline.SaveModel(dir, histograms.Name, m.schema, set, func(h pipeline.ModelHeader) any {
		return modelJSON{h, m.column}
	})
}

func load(s *pipeline.SavedModel) (pipeline.Model, error) {
	var j modelJSON
	if err := s.Fields(&j); err != nil {
		return nil, err
	}
	m := &model{schema: s.Schema, encoder: encode.New(s.Schema), column: j.Column}
	if j.Column < 0 || j.Column >= m.encoder.Width() {
		return nil, s.Wrong(fmt.Errorf("column %d of %d features", j.Column, m.encoder.Width()))
	}
	if err := s.Tensors.CopyTo("", m.tensors()); err != nil {
		return nil, s.Wrong(err)
	}
	for _, n := range m.records {
		if !(n >= 0) {
			return nil, s.Wrong(errors.New("a number of records is negative"))
		}
	}
	return m, nil
}

// patience is how many rows are drawn for one that meets the conditions.
const patience = 100_000

// Sample draws rows until enough meet all conditions, which may be on any column, and the schema's constraints.
func (m *model) Sample(rows int, where []pipeline.Condition, rng *rand.Rand) (*partition.Table, error) {
	columns, meets := make([]int, len(where)), make([]func(float64) bool, len(where))
	for i, c := range where {
		var err error
		if columns[i], meets[i], err = c.On(m.schema); err != nil {
			return nil, err
		}
	}
	table, features := partition.NewTable(m.schema), make([]float32, m.encoder.Width())
	for tries := 0; table.Len() < rows; tries++ {
		if tries == patience {
			return nil, fmt.Errorf("%w: %d draws had no row with %v", pipeline.ErrCondition, patience, where)
		}
		unit, class := "", rng.IntN(max(1, len(m.schema.Classes())))
		if u := m.schema.UnitColumn(); u >= 0 {
			unit = m.schema.Columns[u].MadeUpUnit(table.Len())
		}
		for i := range features {
			features[i] = rng.Float32() // where values have no order, the largest of them is taken
		}
		features[m.column] = (float32(m.cell(rng)) + rng.Float32()) / cells
		row, err := m.encoder.Decode(features, class, unit)
		if err != nil {
			return nil, err
		}
		asked := m.schema.Broken(row) == 0
		for i, column := range columns {
			asked = asked && meets[i](row[column])
		}
		if !asked {
			continue
		}
		if err := table.Append(row, unit); err != nil {
			return nil, err
		}
		tries = 0
	}
	return table, nil
}

// cell draws one of the ten parts of the range, with probability proportional to its number of records.
func (m *model) cell(rng *rand.Rand) int {
	var total float32
	for _, n := range m.records {
		total += n
	}
	u := rng.Float32() * total
	for i, n := range m.records {
		if u -= n; u < 0 {
			return i
		}
	}
	return rng.IntN(cells) // no cell is likelier than another
}
