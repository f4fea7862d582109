package runfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// other is a pipeline whose release is a warm start of others, by an option of its own section.
type otherOptions struct {
	WarmStart float64 `yaml:"warm_start"`
}

func (otherOptions) Validate() error { return nil }

func registerOther(t *testing.T) {
	t.Helper()
	all := pipelines.All
	t.Cleanup(func() { pipelines.All = all })
	pipelines.All = append(slices.Clone(all), pipeline.Pipeline{
		Name: "other", Options: pipeline.Defaults(func() otherOptions { return otherOptions{} }),
		Warm: &pipeline.WarmStart{
			Section: "other", Kind: "sums of others",
			Share: func(o pipeline.Options) plan.Share {
				return plan.Share{Field: "other.warm_start", Value: o.(*otherOptions).WarmStart}
			},
		},
	})
}

// A pipeline registers its release as a warm start: no other pipeline and no list is edited.
func TestAnotherWarmStart(t *testing.T) {
	registerOther(t)
	for text, want := range map[string]struct{ of, field, wrong string }{
		"pipeline: pategan":                           {of: "embed", field: "warm_start.embed"},
		"pipeline: pategan\nwarm_start: {embed: 0.3}": {of: "embed", field: "warm_start.embed"},
		"pipeline: pategan\nwarm_start: {embed: 0}":   {},
		"pipeline: pategan\nother: {warm_start: 0.3}": {of: "other", field: "other.warm_start"},
		"pipeline: dpgan\nother: {warm_start: 0.3}":   {of: "other", field: "other.warm_start"},
		"pipeline: embed":                             {},
		"pipeline: embed\nother: {warm_start: 0.3}":   {wrong: "pipeline embed takes no warm start"},
		"pipeline: other\nother: {warm_start: 0.3}": {wrong: "pipeline other needs no warm " +
			"start"},
		"pipeline: gpate\nwarm_start: {embed: 0.1}\nother: {warm_start: 0.1}": {wrong: "a run has one warm start"},
	} {
		s := DefaultSpec()
		s.Name, s.Schema, s.Privacy.Epsilon, s.Privacy.Delta = "r", "schema.yaml", 1, 1e-5
		testkit.Must(t, s.Parse(text))
		err := s.Validate()
		if want.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), want.wrong) {
				t.Errorf("%s: error %v", text, err)
			}
			continue
		}
		if of, share := s.WarmStart(); err != nil || of.Name != want.of || share.Field != want.field {
			t.Errorf("%s begins with %q by %q (%v)", text, of.Name, share.Field, err)
		}
	}
	gan, _ := pipelines.Named("dpgan")
	whole, _ := pipelines.Named("embed")
	const kind = "sums of others"
	if !slices.Contains(pipelines.Asks(gan), kind) || slices.Contains(pipelines.Asks(whole), kind) {
		t.Errorf("dpgan asks %q, embed asks %q", pipelines.Asks(gan), pipelines.Asks(whole))
	}
}

// image is the schema of images of so many pixels a side, with classes.
func image(side, classes int) string {
	return fmt.Sprintf("label: y\nformat: idx\nimage: {height: %[1]d, width: %[1]d, channels: 1}\ncolumns:\n"+
		"  - {name: y, kind: categorical, categories: %[3]s}\n"+
		"  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: %[2]d}\n", side, side*side,
		[]string{"[a]", "[a, b]"}[classes-1])
}

// numbers is the schema of so many numbers and a label.
func numbers(n int, label string) string {
	return fmt.Sprintf("label: y\ncolumns:\n  - {name: x, kind: continuous, lower: 0, upper: 1, repeat: %d}\n"+
		"  - %s\n", n, label)
}

// A run of a table with many columns that names neither pipeline nor stages gives its rows new labels, where that
// works.
func TestTablesOfManyColumnsHaveAStage(t *testing.T) {
	const label = "{name: y, kind: categorical, categories: [a, b]}"
	for _, c := range []struct {
		schema, lines string
		want          []string
	}{
		{numbers(450, label), "", []string{"relabel"}},
		{numbers(450, label), "marginals: {cells: 1}", nil},
		{numbers(450, label), "marginals: {cells: -2}", nil},
		{numbers(450, label), "privacy: {records: 4000}", nil},
		{numbers(450, label), "post: []", []string{}},
		{numbers(450, label), "pipeline: marginals", nil},
		{numbers(300, label), "", nil},
		{numbers(34, label), "", []string{"relabel"}},
		{numbers(34, label), "privacy: {epsilon: 10}", nil},     // noise hides few pairs
		{numbers(34, label), "privacy: {epsilon: 0.1}", nil},    // and here the rule, too
		{numbers(34, label), "privacy: {records: 200000}", nil}, // noise hides few pairs
		{numbers(34, label), "privacy: {records: 4000}", nil},   // it may hide the rule
		{numbers(28, label), "", nil},                           // pairs tell enough
		{numbers(34, "{name: y, kind: continuous, lower: 0, upper: 1}"), "", nil},
		{numbers(450, "{name: y, kind: categorical, categories: [a]}"), "", nil},
		{numbers(450, "{name: y, kind: continuous, lower: 0, upper: 1}"), "", nil},
		{numbers(450, label) + "constraints:\n  - {if: {x_1: \"<0.5\"}, then: {y: a}}\n", "", []string{"relabel"}},
	} {
		s := DefaultSpec()
		s.ByData()
		s.Privacy.Epsilon, s.Privacy.Records = 1, 5000
		testkit.Must(t, s.Parse(c.lines))
		s.Choose(testkit.Value(partition.ParseSchema([]byte(c.schema))))
		if s.Pipeline != "marginals" || !slices.Equal(s.Post, c.want) {
			t.Errorf("%s\n%s: pipeline %s, post %q, want %q", c.schema, c.lines, s.Pipeline, s.Post, c.want)
		}
	}
}

// A run that names no pipeline has the default of its data. A run without a number of teachers has many if its
// pipeline trains them, else one for each site that it names.
func TestWhatTheDataChoose(t *testing.T) {
	for text, want := range map[string][]string{
		image(8, 2): {"relabel"}, image(4, 2): nil, image(8, 1): nil,
	} {
		for lines, want := range map[string][]string{
			"": want, "post: []": {}, "pipeline: embed": nil,
			"relabel: {directions: -1}": {"relabel"}, // for Validate to refuse
		} {
			s := DefaultSpec()
			s.ByData()
			testkit.Must(t, s.Parse(lines))
			s.Choose(testkit.Value(partition.ParseSchema([]byte(text))))
			if s.Pipeline != "embed" || !slices.Equal(s.Post, want) {
				t.Errorf("%s\n%s: pipeline %s, post %q", text, lines, s.Pipeline, s.Post)
			}
		}
	}
	for _, stages := range [][]string{nil, {"relabel"}} { // of a study
		s := DefaultSpec()
		s.ByData()
		s.Agreed = &Agreed{Study: &study.Study{Stages: stages}}
		if s.Choose(testkit.Value(partition.ParseSchema([]byte(image(8, 2))))); !slices.Equal(s.Post, stages) {
			t.Errorf("a study allows %q, and the run has %q", stages, s.Post)
		}
	}
	before := pipelines.Default
	t.Cleanup(func() { pipelines.Default = before })
	pipelines.Default.Tables, pipelines.Default.Images = "pategan", "dpgan"
	const images = `name: bars
label: y
format: idx
image: {height: 2, width: 2, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 4}
  - {name: y, kind: categorical, categories: [left, right]}
`
	const table = "name: t\nlabel: y\ncolumns:\n  - {name: x, kind: binary}\n  - {name: y, kind: binary}\n"
	const sites = "data: [{site: a, file: a.csv}, {site: b, file: b.csv}]\n"
	for _, c := range []struct {
		schema, lines, pipeline string
		teachers                int
	}{
		{table, "", "pategan", 1000},
		{images, sites, "dpgan", 2},
		{"", sites, "pategan", 1000},
		{images, "pipeline: gpate", "gpate", 1000},
		{table, sites + "pipeline: embed", "embed", 2},
		{table, sites + "pipeline: marginals\nteachers: 7", "marginals", 7},
		{table, sites + "pipeline: marginals\nteachers: 0", "marginals", 2},
		{table, "pipeline: embed", "", 0},
	} {
		dir := t.TempDir()
		if c.schema != "" {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "schema.yaml"), []byte(c.schema), 0o600))
		}
		path := filepath.Join(dir, "run.yaml")
		testkit.Must(t, os.WriteFile(path, fmt.Appendf(nil,
			"name: r\nschema: schema.yaml\nprivacy: {epsilon: 1, delta: 1e-5}\n%s\n", c.lines), 0o600))
		s, err := Load(path)
		if c.teachers == 0 {
			if err == nil || !strings.Contains(err.Error(), "teachers: missing; give the total number of all nodes") {
				t.Errorf("%q: error %v", c.lines, err)
			}
			continue
		}
		testkit.Must(t, err)
		if s.Pipeline != c.pipeline || s.Teachers != c.teachers {
			t.Errorf("%.11s, %q: %s with %d teachers, want %s with %d", c.schema, c.lines, s.Pipeline, s.Teachers,
				c.pipeline, c.teachers)
		}
	}
}
