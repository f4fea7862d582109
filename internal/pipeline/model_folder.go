package pipeline

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/resolved"
)

// Files of a model folder.
const (
	weightsFile = "generator.safetensors"
	modelFile   = "model.json"
	schemaFile  = "schema.yaml"
)

// ModelFiles are the files of the model folder dir.
func ModelFiles(dir string) []string {
	return []string{filepath.Join(dir, modelFile), filepath.Join(dir, schemaFile), filepath.Join(dir, weightsFile)}
}

// ModelHeader is in the model.json of every kind, with the kind's own fields beside it. It binds the other two
// files to each other: with another schema the weights would draw meaningless rows.
type ModelHeader struct {
	Format int `json:"format"`
	// Kind is the name of a [ModelKind]. It may be left out for [Network].
	Kind          string `json:"kind,omitempty"`
	SchemaSHA256  string `json:"schema_sha256"`
	WeightsSHA256 string `json:"weights_sha256"` // of the weights file's bytes, hex
	// Schema is a [resolved.Schema], for programs without a reader of YAML. This program reads the YAML.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// SaveModel writes a model folder, model.json last. The content of model.json is what fields returns for the
// header: a struct that embeds it.
func SaveModel(dir, kind string, schema *partition.Schema, tensors *safetensors.Set,
	fields func(ModelHeader) any) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the model folder: %w", err)
	}
	var weights bytes.Buffer
	if err := safetensors.Write(&weights, tensors); err != nil {
		return fmt.Errorf("encode %s: %w", weightsFile, err)
	}
	meaning, err := json.Marshal(resolved.Of(schema))
	if err != nil {
		return fmt.Errorf("encode what %s means: %w", schemaFile, err)
	}
	raw, err := json.MarshalIndent(fields(ModelHeader{
		Format: 1, Kind: kind, SchemaSHA256: schema.SHA256, WeightsSHA256: sha256Hex(weights.Bytes()),
		Schema: meaning,
	}), "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", modelFile, err)
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{weightsFile, weights.Bytes()}, {schemaFile, schema.Raw()}, {modelFile, append(raw, '\n')}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return fmt.Errorf("save the model: %w", err)
		}
	}
	return nil
}

// SavedModel is a model folder that was read and whose files match.
type SavedModel struct {
	Schema  *partition.Schema
	Tensors *safetensors.Set

	dir string
	raw []byte
}

// Fields decodes model.json into a struct with the kind's own fields.
func (s *SavedModel) Fields(into any) error {
	if err := json.Unmarshal(s.raw, into); err != nil {
		return s.Wrong(err)
	}
	return nil
}

// Wrong returns an error about model.json.
func (s *SavedModel) Wrong(err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(s.dir, modelFile), err)
}

// LoadModel reads a model folder. The model has one of the given kinds.
func LoadModel(dir string, kinds ...ModelKind) (Model, error) {
	s := &SavedModel{dir: dir}
	var err error
	if s.raw, err = os.ReadFile(filepath.Join(dir, modelFile)); err != nil {
		return nil, fmt.Errorf("load model: %w; give the model folder of a finished run: model in its "+
			"output folder", err)
	}
	var h ModelHeader
	if err := s.Fields(&h); err != nil {
		return nil, err
	}
	if h.Format != 1 {
		return nil, s.Wrong(fmt.Errorf("format %d is unknown to this version; update the program", h.Format))
	}
	if h.SchemaSHA256 == "" || h.WeightsSHA256 == "" {
		return nil, s.Wrong(errors.New("schema_sha256 or weights_sha256 is missing, so its files cannot be checked; " +
			"train the model again"))
	}
	if s.Schema, err = partition.LoadSchema(filepath.Join(dir, schemaFile)); err != nil {
		return nil, err
	}
	if s.Schema.SHA256 != h.SchemaSHA256 {
		return nil, changed(dir, schemaFile)
	}
	weights, err := os.ReadFile(filepath.Join(dir, weightsFile))
	if err != nil {
		return nil, fmt.Errorf("load model: %w; copy the whole model folder again", err)
	}
	if sha256Hex(weights) != h.WeightsSHA256 {
		return nil, changed(dir, weightsFile)
	}
	if s.Tensors, err = safetensors.Read(bytes.NewReader(weights)); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, weightsFile), err)
	}
	var names []string
	for _, kind := range kinds {
		if kind.Name == cmp.Or(h.Kind, Network.Name) {
			return kind.Load(s)
		}
		names = append(names, kind.Name)
	}
	return nil, s.Wrong(fmt.Errorf("a model of kind %q is unknown; this program supports %s; use a program with its "+
		"pipeline", h.Kind, strings.Join(names, ", ")))
}

func sha256Hex(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func changed(dir, name string) error {
	return fmt.Errorf("%s: the file was changed after the training: its SHA-256 is not the one in %s; copy the model "+
		"folder again, and do not edit it", filepath.Join(dir, name), modelFile)
}
