package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/conclave-dp/conclave/internal/cli/rows"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/pipelines/pipelinetest"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func TestMain(m *testing.M) {
	register()
	os.Exit(m.Run())
}

// The node's half keeps what every kind of question keeps.
func TestTensAreAKind(t *testing.T) {
	questiontest.Run(t, tens, questiontest.Cases{
		Good: map[string]proto.Message{"the first": wrapperspb.UInt32(0), "the third": wrapperspb.UInt32(2)},
		Bad: map[string]questiontest.Bad{
			"no such column": {Params: wrapperspb.UInt32(99), Want: "the encoded schema has features 0 to 4; choose"},
		},
		Adversaries: []questiontest.Adversary{
			{Name: "one record", Records: 1, Record: func(int) []float64 { return []float64{1, 0, 2, 0} }},
			{Name: "many records", Records: 40, Record: func(i int) []float64 {
				return []float64{float64(i%2) / 2, 1, 1, 1}
			}},
		},
		Bounds: []proto.Message{wrapperspb.UInt32(0)},
	})
}

// The student's half keeps what every pipeline keeps, on a real cluster.
func TestTenNumbersAreAPipeline(t *testing.T) {
	pipelinetest.Run(t, tenNumbers, "{column: 0}")
}

// The program ends with ten numbers and a certificate, and the sample command of a program that knows
// the pipeline draws from its model, by conditions on any column.
func TestTheExampleRuns(t *testing.T) {
	out := t.TempDir()
	testkit.Must(t, run(t.Context(), "run.yaml", out))
	if _, err := os.Stat(filepath.Join(out, "certificate.json")); err != nil {
		t.Error(err)
	}
	file := filepath.Join(out, "old.csv")
	program := &cobra.Command{Use: "example"}
	program.AddCommand(rows.Commands()...)
	program.SetArgs([]string{"sample", "--model", filepath.Join(out, "model"), "--rows", "60", "--out", file,
		"--where", "age>90", "--where", "age<=100", "--where", "sex=F", "--where", "label=1"})
	testkit.Must(t, program.Execute())
	schema, err := partition.LoadSchema(filepath.Join(out, "model", "schema.yaml"))
	testkit.Must(t, err)
	table, err := tabular.ReadCSV(schema, file, tabular.Options{})
	testkit.Must(t, err)
	cell := func(row int, column string) string {
		at := schema.ColumnIndex(column)
		return schema.Columns[at].CellText(table.Cells(row)[at])
	}
	for i := range table.Len() {
		age, err := strconv.ParseFloat(cell(i, "age"), 64)
		if err != nil || age <= 90 || age > 100 || cell(i, "sex") != "F" || cell(i, "label") != "1" {
			t.Errorf("row %d is %s, %s, %s", i, cell(i, "age"), cell(i, "sex"), cell(i, "label"))
		}
	}
	if table.Len() != 60 {
		t.Errorf("%d rows of 60", table.Len())
	}
}

// Stages after the training take rows of any model: here they are weighted.
func TestWeightsFollowTheExample(t *testing.T) {
	spec, err := runfile.Load("run.yaml")
	testkit.Must(t, err)
	spec.Weights, spec.Release.Rows = "logreg-noised", 50
	testkit.Must(t, spec.Validate())
	result, err := local.Run(t.Context(), spec, local.Options{Out: t.TempDir()})
	testkit.Must(t, err)
	text := testkit.Read(t, result.Outputs["synthetic"])
	if lines := strings.Count(string(text), "\n"); lines != 51 || !strings.Contains(string(text), "weight") {
		t.Errorf("%d lines, and the first is %.80s", lines, text)
	}
}

// A pipeline whose students take no warm start refuses one before anything is asked.
func TestTheExampleTakesNoWarmStart(t *testing.T) {
	spec, err := runfile.Load("run.yaml")
	testkit.Must(t, err)
	testkit.Must(t, spec.Parse("warm_start: {embed: 0.3}\n"))
	const want = "warm_start.embed: 0.3 is for GANs"
	if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}
