package reference

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var root = filepath.Join("..", "..")

// The pages of the repository have the tables that the code says.
func TestPagesAreThoseOfTheCode(t *testing.T) {
	pages, err := Update(root)
	testkit.Must(t, err)
	for path, text := range pages {
		raw, err := os.ReadFile(filepath.Join(root, path))
		testkit.Must(t, err)
		if text != string(raw) {
			t.Errorf("%s is out of date; run: go generate ./internal/reference", path)
		}
	}
}

// Each registered section has its heading and rows.
func TestThePageOfARunHasEverySection(t *testing.T) {
	text, err := runYAML(&comments{root: root, packages: map[string]map[string]string{}})
	testkit.Must(t, err)
	for name := range pipelines.Sections() {
		if !strings.Contains(text, "\n## "+name+"\n") || !strings.Contains(text, "| `"+name+".") {
			t.Errorf("the section %s is missing", name)
		}
	}
	for _, row := range []string{
		"| `privacy.dataset.epsilon` | number | required |",
		"| `data[].share` | above 0 and at most 1 | `1` |",
		"| `pipeline` | `pategan`, `gpate`, `dpgan`, `embed`, `marginals` | `marginals` for tables, " +
			"`embed` for images |",
		"| `gpate.rounds` | 0 to 1000000 | `0`: chosen, `20` for tables, `80` for images |",
		"| `pategan.mechanism` | `gnmax`, `lnmax`, `confident-gnmax` | `gnmax` |",
		"| `pgb.rounds` | 1 to 100000 | `400` |",
		"| `weighting.mlp.hidden` | 0 to 1024 | `16` |",
	} {
		if !strings.Contains(text, row) {
			t.Errorf("no row begins with %s", row)
		}
	}
}

// The files of roles have bounds of durations, defaults of lists and rows of inlined structs.
func TestPagesOfRoles(t *testing.T) {
	c := &comments{root: root, packages: map[string]map[string]string{}}
	for _, row := range []struct {
		make func(*comments) (string, error)
		want string
	}{
		{aggregatorYAML, "| `etcd.lease_ttl` | duration, 1s to 10m | `10s`; with `embedded` `5m`"},
		{aggregatorYAML, "| `datasets[].budget.epsilon` | number | required |"},
		{teacherYAML, "| `share` | list of 2 numbers | `[0, 1]` |"},
		{teacherYAML, "| `sql.timeout` | duration, 1s to 576h | `10m` |"},
		{studentYAML, "| `workers` | 1 to 64 | `1` |"},
		{policyYAML, "| `datasets[].approval` | `by-hand`, `automatic` | `by-hand` |"},
		{studyYAML, "| `budget.filter` | text | `gdp` |"},
	} {
		text, err := row.make(c)
		testkit.Must(t, err)
		if !strings.Contains(text, row.want) {
			t.Errorf("no row begins with %s", row.want)
		}
	}
	parts, err := sharedYAML(c)
	testkit.Must(t, err)
	for _, file := range []struct {
		make func(*comments) (string, error)
		of   reflect.Type
	}{
		{aggregatorYAML, reflect.TypeFor[aggregator.Config]()}, {teacherYAML, reflect.TypeFor[node.Config]()},
		{studentYAML, reflect.TypeFor[student.Config]()}, {policyYAML, reflect.TypeFor[sitepolicy.Policy]()},
		{studyYAML, reflect.TypeFor[study.Study]()},
	} {
		text, err := file.make(c)
		testkit.Must(t, err)
		text += parts
		for _, name := range tags(file.of) {
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "."+name+"`") {
				t.Errorf("%v: no row has %s", file.of, name)
			}
		}
	}
}

// The page of shared parts holds for every role that has them.
func TestSharedPartsAreEqual(t *testing.T) {
	c := &comments{root: root, packages: map[string]map[string]string{}}
	want, err := sharedYAML(c)
	testkit.Must(t, err)
	for role, make := range map[string]func(*comments) (string, error){
		"node":    configuration(node.DefaultConfig, validateDatabase, shared),
		"student": configuration(student.DefaultConfig, validateWorker, shared),
	} {
		text, err := make(c)
		testkit.Must(t, err)
		for _, part := range strings.Split("\n"+strings.TrimSpace(text), "\n## ")[1:] {
			if !strings.Contains(want, part) {
				t.Errorf("%s has another part %s", role, part)
			}
		}
	}
}

// tags are the names of the fields that have no fields of their own, at any depth.
func tags(of reflect.Type) (names []string) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
		below := tags(of.Field(i).Type)
		if names = append(names, below...); name != "-" && name != "" && len(below) == 0 {
			names = append(names, name)
		}
	}
	return names
}

func TestProse(t *testing.T) {
	for _, c := range []struct{ comment, want string }{
		{"Steps is the number\nof steps.", "The number of steps."},
		{"Steps sets them; see docs/masked.md#fingerprints.", "Sets them; see [fingerprints](masked.md#fingerprints)."},
		{"Stepsize differs.", "Stepsize differs."},
	} {
		if got := prose(c.comment, "Steps"); got != c.want {
			t.Errorf("%q: %q, want %q", c.comment, got, c.want)
		}
	}
	for _, c := range []struct{ text, rest, value string }{
		{"A path. Required.", "A path.", "required"},
		{"A path. Default: that of the file, a.yaml.", "A path.", "that of the file, a.yaml"},
		{"A path. Default: one. More of it.", "A path. Default: one. More of it.", ""},
	} {
		if rest, value := statedDefault(c.text); rest != c.rest || value != c.value {
			t.Errorf("%q: %q and %q", c.text, rest, value)
		}
	}
}

// The example at the top of each page of a role is a file that the program takes.
func TestExamplesOfPages(t *testing.T) {
	read := map[string]func(path string) error{
		"config-aggregator": func(path string) error { _, err := aggregator.LoadConfig(path); return err },
		"config-teacher":    func(path string) error { _, err := node.LoadConfig(path); return err },
		"config-student":    func(path string) error { _, err := student.LoadConfig(path); return err },
		"config-policy":     func(path string) error { _, err := sitepolicy.Read(path); return err },
	}
	for page, read := range read {
		_, text, _ := strings.Cut(string(testkit.Read(t, filepath.Join(root, "docs", page+".md"))), "```yaml\n")
		text, _, ok := strings.Cut(text, "```")
		path := filepath.Join(t.TempDir(), page+".yaml")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if err := read(path); err != nil || !ok {
			t.Errorf("%s: %v", page, err)
		}
	}
}

type unexplained struct {
	Field int `yaml:"field"`
}

// A field without a comment and a page without a place are errors that say what to do.
func TestWhatIsMissingIsAnError(t *testing.T) {
	w := &writer{comments: &comments{root: root, packages: map[string]map[string]string{}},
		defaults: func() reflect.Value { return reflect.New(reflect.TypeFor[unexplained]()).Elem() }}
	_, err := w.fields(reflect.TypeFor[unexplained](), start(""), false)
	if err == nil || !strings.Contains(err.Error(), "unexplained.Field has no comment") {
		t.Errorf("error %v", err)
	}
	_, err = replace("a page", "x.yaml", "text")
	if err == nil || !strings.Contains(err.Error(), "the page has no place for the fields of x.yaml") {
		t.Errorf("error %v", err)
	}
}
