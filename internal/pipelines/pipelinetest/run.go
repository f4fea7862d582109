// Package pipelinetest is the suite that every pipeline of package pipelines passes: its options, its plans,
// its questions, its words, and a run on a cluster that is stopped and resumed.
package pipelinetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Run checks what every pipeline must fulfil. Small is its section of a run.yaml for a run of a few seconds, of
// at least four rounds or steps; other sections may follow on their own lines.
func Run(t *testing.T, p pipeline.Pipeline, small string) {
	s := &suite{p, small}
	t.Run("options", s.options)
	t.Run("words", s.words)
	t.Run("plan", s.plan)
	t.Run("questions", s.questions)
	t.Run("run", s.run)
}

type suite struct {
	p     pipeline.Pipeline
	small string
}

// tableSchema is the schema of the suite's table. It has all kinds of columns. Its constraints cover both ways
// of drawing rows: some say where to move a row, some do not.
const tableSchema = `name: suite
label: label
columns:
  - {name: age, kind: continuous, lower: 0, upper: 100}
  - {name: since, kind: integer, lower: 0, upper: 100}
  - {name: kind, kind: categorical, categories: [x, y, z]}
  - {name: admitted, kind: date, lower: 2019-12-30, upper: 2022-12-31, format: DD.MM.YYYY, resolution: week}
  - {name: seen, kind: datetime, lower: 2020-01-01, upper: 2022-12-31, resolution: hour}
  - {name: icd, kind: code, prefixes: [I20, I2, J], codes: icd.csv}
  - {name: id, kind: identifier, pattern: "P-###"}
  - {name: label, kind: binary}
constraints:
  - {at_most: [since, age]}
  - {if: {label: 1}, then: {kind: [x, y]}, broken: move}
  - {never: {kind: x, age: "<30"}}
  - {at_most: [admitted, seen]}
`

var someNode = run.Node{Dataset: "d", Site: "a", Node: "1", Teachers: 10}

// schemas returns schemas that the pipeline supports.
func (s *suite) schemas(t *testing.T) map[string]*partition.Schema {
	t.Helper()
	texts := map[string]string{"a table": tableSchema}
	if !s.p.TablesOnly {
		texts["images"] = partitiontest.Bars
	}
	schemas := map[string]*partition.Schema{}
	for name, text := range texts {
		schema, err := partition.ParseSchema([]byte(text))
		testkit.Must(t, err)
		schemas[name] = schema
	}
	return schemas
}

// spec is a run of the pipeline with its defaults.
func (s *suite) spec(epsilon float64) *runfile.Spec {
	spec := runfile.DefaultSpec()
	spec.Name, spec.Schema, spec.Pipeline, spec.Teachers = "suite", "schema.yaml", s.p.Name, 200
	spec.Privacy.Epsilon, spec.Privacy.Delta = epsilon, 1e-5
	return spec
}

// Defaults are valid, and a field that is not there is refused by its name.
func (s *suite) options(t *testing.T) {
	if err := s.p.Options().Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	if err := s.spec(1).Validate(); err != nil {
		t.Errorf("a run with the defaults is not valid: %v", err)
	}
	checkStrict(t, s.p.Name, fmt.Sprintf("pipeline: %s\n", s.p.Name))
}

// checkStrict requires that a section of a run.yaml refuses unknown fields.
func checkStrict(t *testing.T, section, more string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	text := "name: suite\nschema: schema.yaml\nprivacy: {epsilon: 1, delta: 1e-5}\nteachers: 200\n" + more
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	if _, err := runfile.Load(path); err != nil {
		t.Errorf("without the section: %v", err)
	}
	testkit.Must(t, os.WriteFile(path, []byte(text+section+": {no_such_option: 1}\n"), 0o600))
	if _, err := runfile.Load(path); err == nil || !strings.Contains(err.Error(), `unknown field "no_such_option"`) {
		t.Errorf("an unknown field of %s: error %v", section, err)
	}
}

// Reports, certificates and policies know the pipeline.
func (s *suite) words(t *testing.T) {
	if s.p.Words.Answers == "" || s.p.Words.Baseline == "" {
		t.Errorf("words are missing: %+v", s.p.Words)
	}
	if len(s.p.Asks) == 0 || !slices.Contains(sitepolicy.Pipelines(), s.p.Name) {
		t.Errorf("a site's policy cannot allow %s, which asks %q", s.p.Name, s.p.Asks)
	}
	for _, kind := range pipelines.Asks(s.p) {
		if _, known := kinds.All()[kind]; !known {
			t.Errorf("nodes do not answer %s", kind)
		}
	}
	keeper, keeps := s.p.Options().(pipeline.Keeper)
	if keeps == (s.p.NoDiscriminator != "") {
		t.Errorf("discriminators are kept: %v, and there are none: %q", keeps, s.p.NoDiscriminator)
	}
	if keeps && keeper.Kept() < 1 {
		t.Error("no discriminators are kept by default")
	}
}

// A plan is within any budget, and every component computes the same price.
func (s *suite) plan(t *testing.T) {
	for name, schema := range s.schemas(t) {
		for _, epsilon := range []float64{0.5, 2, 8} {
			t.Run(fmt.Sprintf("%s, epsilon %v", name, epsilon), func(t *testing.T) {
				spec := s.spec(epsilon)
				p, err := run.NewPlan(spec, schema)
				testkit.Must(t, err)
				planned := p.Planned()
				testkit.Must(t, planned.Validate())
				for _, entry := range planned {
					if !slices.Contains(pipelines.Asks(s.p), entry.Kind) {
						t.Errorf("the plan has %s, and the pipeline asks %q", entry.Kind, pipelines.Asks(s.p))
					}
				}
				claim, err := privacy.Account(planned.Events(), spec.Privacy.Delta)
				if err != nil || claim.Epsilon > epsilon || claim.Epsilon < epsilon/2 {
					t.Errorf("the plan costs %v of %v (%v)", claim.Epsilon, epsilon, err)
				}
				f, err := run.NewForecast(spec, schema, someNode)
				if err != nil || f.Claim.Epsilon != claim.Epsilon {
					t.Errorf("the forecast costs %v, the plan %v (%v)", f.Claim.Epsilon, claim.Epsilon, err)
				}
				registered, err := runspec.Plan(run.RunSpec(p, spec, schema, "d", false))
				if err != nil || !slices.Equal(registered, planned) {
					t.Errorf("the aggregator is told %v, the plan is %v (%v)", registered, planned, err)
				}
			})
		}
	}
}

// Nodes read the largest questions, and answers have the announced shape.
func (s *suite) questions(t *testing.T) {
	for name, schema := range s.schemas(t) {
		_, questions, err := run.Questions(s.spec(2), schema, someNode)
		testkit.Must(t, err)
		for _, q := range questions {
			checked, err := kinds.All().Read(question.NewPublic(schema, 10, 1), q.Round.GetKind(), q.Round.GetParams())
			if err != nil {
				t.Errorf("%s: a node refuses %s: %v", name, q.Round.GetKind(), err)
				continue
			}
			if err := checked.Shape.Check(q.Round); err != nil {
				t.Errorf("%s: %s: %v", name, q.Round.GetKind(), err)
			}
			if q.Answer.Name == "" || q.Answer.Content == "" || q.Answer.Bytes == 0 || q.Answer.Times < 1 {
				t.Errorf("%s: %s has no words or no size: %+v", name, q.Round.GetKind(), q.Answer)
			}
		}
	}
}

// checkCertificate makes a certificate of a pipeline and requires that it verifies.
func checkCertificate(t *testing.T, pipeline, path, ledgerPath string) {
	t.Helper()
	c, err := certificate.Read(path)
	testkit.Must(t, err)
	ledger, err := os.Open(ledgerPath)
	testkit.Must(t, err)
	defer ledger.Close()
	if err := c.Verify(ledger); err != nil || c.Pipeline != pipeline {
		t.Errorf("the certificate is of %s (%v)", c.Pipeline, err)
	}
}
