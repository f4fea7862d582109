package main

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/conclave-dp/conclave/internal/pipelines/pipelinetest"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
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
			"no such column": {Params: wrapperspb.UInt32(99), Want: "column 99 of 5 features"},
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

// The program ends with ten numbers and a certificate.
func TestTheExampleRuns(t *testing.T) {
	out := t.TempDir()
	testkit.Must(t, run("run.yaml", out))
	if _, err := os.Stat(filepath.Join(out, "certificate.json")); err != nil {
		t.Error(err)
	}
}
