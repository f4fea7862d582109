package pipelinetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// checkModel requires that the saved model is found by its kind, draws the same rows for the same seed, takes a
// class as a condition, draws no row that breaks a constraint, and does not change when it is saved again.
func (s *suite) checkModel(t *testing.T, dir string, schema *partition.Schema) {
	t.Helper()
	m, err := pipelines.LoadModel(dir)
	testkit.Must(t, err)
	if m.Schema().SHA256 != schema.SHA256 {
		t.Error("the model is of another schema")
	}
	if a, b := sampled(t, m, nil, 1), sampled(t, m, nil, 1); !bytes.Equal(a, b) {
		t.Error("one seed draws two samples")
	}
	if a, b := sampled(t, m, nil, 1), sampled(t, m, nil, 2); bytes.Equal(a, b) {
		t.Error("two seeds draw one sample")
	}
	var many []byte
	for seed := range uint64(10) {
		many = append(many, sampled(t, m, nil, seed)...)
	}
	if !bytes.Contains(many, []byte(",I")) || !bytes.Contains(many, []byte(",J")) {
		t.Errorf("the rows have codes of one group only:\n%s", many)
	}
	one := []pipeline.Condition{{Column: "label", Relation: "=", Value: "1"}}
	if rows := sampled(t, m, one, 1); bytes.Count(rows, []byte(",1\n")) != samples {
		t.Errorf("not all rows have label 1:\n%s", rows)
	}
	for _, c := range []pipeline.Condition{
		{Column: "label", Relation: "=", Value: "2"}, {Column: "nobody", Relation: "=", Value: "1"},
	} {
		_, err := m.Sample(1, []pipeline.Condition{c}, rand.New(rand.NewPCG(1, 1)))
		if !errors.Is(err, pipeline.ErrCondition) {
			t.Errorf("rows with %v: error %v", c, err)
		}
	}
	again := t.TempDir()
	testkit.Must(t, m.Save(again))
	for i, path := range pipeline.ModelFiles(dir) {
		want := testkit.Read(t, path)
		got := testkit.Read(t, pipeline.ModelFiles(again)[i])
		if !bytes.Equal(got, want) {
			t.Errorf("a model that is loaded and saved has another %s", filepath.Base(path))
		}
	}
}

const samples = 50

func sampled(t *testing.T, m pipeline.Model, where []pipeline.Condition, seed uint64) []byte {
	t.Helper()
	table, err := m.Sample(samples, where, rand.New(rand.NewPCG(seed, 0)))
	testkit.Must(t, err)
	for i := range table.Len() {
		if broken := m.Schema().Broken(table.Cells(i)); broken > 0 {
			t.Errorf("row %d breaks constraint %d", i, broken)
		}
	}
	var b bytes.Buffer
	testkit.Must(t, tabular.WriteCSV(&b, table))
	return b.Bytes()
}
