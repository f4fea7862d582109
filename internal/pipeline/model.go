package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// MaxRows bounds the rows drawn at once, which are held in memory.
const MaxRows = 10_000_000

// Files of a model folder.
const (
	weightsFile = "generator.safetensors"
	modelFile   = "model.json"
	schemaFile  = "schema.yaml"
)

// Model is a trained generator with what is needed to sample from it: the
// public schema and the privately released class shares. Sampling from it is
// post-processing and costs nothing.
type Model struct {
	Schema    *partition.Schema
	Generator *Generator
	// Shares holds the share of each class; they add up to 1.
	Shares []float64

	encoder *encode.Encoder
}

// ModelFiles are the files of the model folder dir.
func ModelFiles(dir string) []string {
	return []string{filepath.Join(dir, modelFile), filepath.Join(dir, schemaFile), filepath.Join(dir, weightsFile)}
}

// modelJSON binds the other two files to each other: weights under another
// schema would draw rows that mean nothing.
type modelJSON struct {
	Format        int           `json:"format"`
	Generator     GeneratorSpec `json:"generator"`
	Shares        []float64     `json:"class_shares"`
	SchemaSHA256  string        `json:"schema_sha256"`
	WeightsSHA256 string        `json:"weights_sha256"` // of the weights file's bytes, hex
}

// NewModel puts a model together.
func NewModel(schema *partition.Schema, g *Generator, shares []float64) (*Model, error) {
	m := &Model{Schema: schema, Generator: g, Shares: shares, encoder: encode.New(schema)}
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

// Shares turns noisy class counts into shares. A count below the scale of its noise
// counts as that: the noise cannot tell it from a rare class, and a schema names no class
// for nothing. With a scale of 0 negative counts count as zero, and all-zero counts as
// equal shares. This is post-processing of the release.
func Shares(counts []float64, scale float64) []float64 {
	shares := make([]float64, len(counts))
	var sum float64
	for _, c := range counts {
		sum += max(scale, c)
	}
	for i, c := range counts {
		if sum > 0 {
			shares[i] = max(scale, c) / sum
		} else {
			shares[i] = 1 / float64(len(counts))
		}
	}
	return shares
}

// Save writes the model folder, model.json last.
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the model folder: %w", err)
	}
	t := safetensors.New()
	for _, p := range m.Generator.Net.Params() {
		t.Add("", []tensor.Param{transposed(p)})
	}
	var weights bytes.Buffer
	if err := safetensors.Write(&weights, t); err != nil {
		return fmt.Errorf("encode %s: %w", weightsFile, err)
	}
	raw, err := json.MarshalIndent(modelJSON{
		Format: 1, Generator: m.Generator.spec, Shares: m.Shares,
		SchemaSHA256: m.Schema.SHA256, WeightsSHA256: sha256Hex(weights.Bytes()),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", modelFile, err)
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{weightsFile, weights.Bytes()}, {schemaFile, m.Schema.Raw()}, {modelFile, append(raw, '\n')}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return fmt.Errorf("save the model: %w", err)
		}
	}
	return nil
}

// transposed returns a copy of a tensor with its two axes, if it has two,
// exchanged: the file's weights of dense layers have shape [outputs, inputs], as
// is usual, the network's [inputs, outputs]. Kernels have four axes and stay.
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

func sha256Hex(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// LoadModel reads a model folder.
func LoadModel(dir string) (*Model, error) {
	raw, err := os.ReadFile(filepath.Join(dir, modelFile))
	if err != nil {
		return nil, fmt.Errorf("load model: %w; name the model folder of a finished run", err)
	}
	var j modelJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, modelFile), err)
	}
	if j.Format != 1 {
		return nil, fmt.Errorf("%s: format %d is not known to this version; update it", filepath.Join(dir, modelFile),
			j.Format)
	}
	if j.SchemaSHA256 == "" || j.WeightsSHA256 == "" {
		return nil, fmt.Errorf("%s: schema_sha256 or weights_sha256 is missing, so that nothing says which files it "+
			"belongs to; train the model again", filepath.Join(dir, modelFile))
	}
	schema, err := partition.LoadSchema(filepath.Join(dir, schemaFile))
	if err != nil {
		return nil, err
	}
	if schema.SHA256 != j.SchemaSHA256 {
		return nil, changed(dir, schemaFile)
	}
	e := encode.New(schema)
	if err := j.Generator.Check(e); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, modelFile), err)
	}
	g, err := NewGenerator(e, j.Generator, rand.New(rand.NewPCG(0, 0)))
	if err != nil {
		return nil, err
	}
	weights, err := os.ReadFile(filepath.Join(dir, weightsFile))
	if err != nil {
		return nil, fmt.Errorf("load model: %w; copy the whole model folder again", err)
	}
	if sha256Hex(weights) != j.WeightsSHA256 {
		return nil, changed(dir, weightsFile)
	}
	t, err := safetensors.Read(bytes.NewReader(weights))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, weightsFile), err)
	}
	for _, p := range g.Net.Params() {
		outputsFirst := transposed(p)
		if err := t.CopyTo("", []tensor.Param{outputsFirst}); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		copy(p.Value, transposed(outputsFirst).Value)
	}
	return NewModel(schema, g, j.Shares)
}

func changed(dir, name string) error {
	return fmt.Errorf("%s: the file was changed since the model was trained: its SHA-256 is not the one in %s; copy "+
		"the model folder again, do not edit it",
		filepath.Join(dir, name), modelFile)
}

// AnyClass asks Sample for classes in their released shares.
const AnyClass = -1

// Sample draws a table of rows records, all of one class or, with AnyClass, of
// classes in their released shares. A unit column gets a made-up unit in each row.
func (m *Model) Sample(rows, class int, rng *rand.Rand) (*partition.Table, error) {
	if rows < 1 {
		return nil, fmt.Errorf("sample %d rows: want at least 1", rows)
	}
	if class != AnyClass && (class < 0 || class >= len(m.Shares)) {
		return nil, fmt.Errorf("sample class %d of %d", class, len(m.Shares))
	}
	table := partition.NewTable(m.Schema)
	const batch = 1024
	x := make([]float32, batch*m.Generator.width)
	classes := make([]int, batch)
	for done := 0; done < rows; done += batch {
		n := min(batch, rows-done)
		for i := range n {
			if classes[i] = class; class == AnyClass {
				classes[i] = draw(m.Shares, rng)
			}
		}
		m.Generator.Sample(x[:n*m.Generator.width], classes[:n], rng)
		if err := m.append(table, x, classes[:n]); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// append decodes records to rows of the table, with made-up units of running numbers.
func (m *Model) append(table *partition.Table, x []float32, classes []int) error {
	w := m.Generator.width
	for i, c := range classes {
		unit := ""
		if u := m.Schema.UnitColumn(); u >= 0 {
			unit = m.Schema.Columns[u].MadeUpUnit(table.Len())
		}
		cells, err := m.encoder.Decode(x[i*w:(i+1)*w], c, unit)
		if err != nil {
			return err
		}
		if err := table.Append(cells, unit); err != nil {
			return err
		}
	}
	return nil
}

// Table decodes records x of the classes, shape [len(classes), Generator.Width], to a
// table, as Sample does with those that it draws.
func (m *Model) Table(x []float32, classes []int) (*partition.Table, error) {
	table := partition.NewTable(m.Schema)
	return table, m.append(table, x, classes)
}

// Counts divides n records among the classes by their released shares.
func (m *Model) Counts(n int) []int {
	counts, sum, given := make([]int, len(m.Shares)), 0.0, 0
	for c, s := range m.Shares {
		sum += s
		counts[c] = max(0, min(n, int(math.Round(sum*float64(n))))-given)
		given += counts[c]
	}
	counts[len(counts)-1] += n - given // the last digits of sums
	return counts
}

// Draw draws n encoded records of a generator, of classes in their released shares.
func (m *Model) Draw(g *Generator, n int, rng *rand.Rand) (x []float32, classes []int) {
	classes = make([]int, n)
	for i := range classes {
		classes[i] = draw(m.Shares, rng)
	}
	return DrawOf(g, classes, rng), classes
}

// DrawOf draws an encoded record of a generator for each of the classes.
func DrawOf(g *Generator, classes []int, rng *rand.Rand) []float32 {
	const batch = 1024
	x := make([]float32, len(classes)*g.width)
	for from := 0; from < len(classes); from += batch {
		to := min(len(classes), from+batch)
		g.Sample(x[from*g.width:to*g.width], classes[from:to], rng)
	}
	return x
}

// ErrNoSuchClass marks a condition that names no class of the label.
var ErrNoSuchClass = errors.New("no such class")

// Class finds the class for a condition "label=value".
func (m *Model) Class(column, value string) (int, error) {
	classes := m.Schema.Classes()
	if column != m.Schema.Label || len(classes) == 0 {
		return 0, fmt.Errorf("%w: only the label %q can be asked for", ErrNoSuchClass, m.Schema.Label)
	}
	for i, c := range classes {
		if c == value {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: label %q has the values %q", ErrNoSuchClass, column, classes)
}

func draw(shares []float64, rng *rand.Rand) int {
	u := rng.Float64()
	for i, s := range shares {
		if u -= s; u < 0 {
			return i
		}
	}
	return len(shares) - 1
}
