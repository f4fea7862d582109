package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var clusterDir = filepath.Join("..", "..", "examples", "cluster")

func TestTheDemosRunIsValid(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.CopyFS(dir, flchain.Files))
	s, err := runfile.Load(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	if _, err := run.Prepare(s); err != nil {
		t.Error(err)
	}
	if len(s.Data) != 2 {
		t.Errorf("%d sites, want 2", len(s.Data))
	}
}

// The example can run every pipeline within its budget.
func TestTheExampleIsARunOfEveryPipeline(t *testing.T) {
	for _, name := range pipelines.Names(nil) {
		dir := filepath.Join(t.TempDir(), "example")
		testkit.Must(t, os.CopyFS(dir, flchain.Files))
		path := filepath.Join(dir, "run.yaml")
		testkit.Must(t, flchain.SetPipeline(path, name))
		s, err := runfile.Load(path)
		testkit.Must(t, err)
		if s.Pipeline != name {
			t.Errorf("%s: the run trains with %s", name, s.Pipeline)
		}
		schema, err := s.LoadSchema()
		testkit.Must(t, err)
		if _, err := run.NewPlan(s, schema); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The files of the example cluster are consistent and load.
func TestTheExampleClusterFitsTogether(t *testing.T) {
	agg, err := aggregator.LoadConfig(filepath.Join(clusterDir, "aggregator.yaml"))
	testkit.Must(t, err)
	learner, err := student.LoadConfig(filepath.Join(clusterDir, "student.yaml"))
	testkit.Must(t, err)
	worker, err := student.LoadConfig(filepath.Join(clusterDir, "worker.yaml"))
	testkit.Must(t, err)
	if !worker.Queue || worker.Dataset != learner.Dataset || worker.Aggregator != learner.Aggregator ||
		worker.TLS != learner.TLS || worker.Out == learner.Out {
		t.Errorf("the worker is %+v, the student %+v", worker, learner)
	}
	spec, err := runfile.Load(learner.Run)
	testkit.Must(t, err)
	if want := pategan.DefaultOptions(); !reflect.DeepEqual(*runfile.Section[pategan.Options](spec), want) {
		t.Errorf("the example's options are %+v, the defaults %+v", runfile.Section[pategan.Options](spec), want)
	}
	job, err := run.Prepare(spec)
	testkit.Must(t, err)
	dataset := agg.Datasets[0]
	if learner.Dataset != dataset.Name || learner.Aggregator != agg.Listen {
		t.Errorf("the student asks dataset %s at %s, the aggregator has %s at %s", learner.Dataset, learner.Aggregator,
			dataset.Name, agg.Listen)
	}
	if dataset.Unit != spec.Privacy.Unit || dataset.Budget.Epsilon < spec.Privacy.Epsilon ||
		dataset.Budget.Delta < spec.Privacy.Delta {
		t.Errorf("the run wants %+v, the dataset offers %+v for unit %s", spec.Privacy, dataset.Budget, dataset.Unit)
	}
	teachers, end := 0, 0.0
	for _, site := range []string{"north", "south"} {
		config, err := node.LoadConfig(filepath.Join(clusterDir, "teacher-"+site+".yaml"))
		testkit.Must(t, err)
		if config.Site != site || config.Dataset != dataset.Name || config.Aggregator != agg.Listen ||
			config.Unit != dataset.Unit {
			t.Errorf("node %+v does not fit the aggregator", config)
		}
		if !strings.HasSuffix(config.TLS.Cert, "node-"+site+".crt") {
			t.Errorf("node %s has certificate %s", site, config.TLS.Cert)
		}
		for _, file := range []string{config.Schema, config.Data} {
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
		if !sameFile(t, config.Schema, spec.Schema) || !sameFile(t, config.Schema, dataset.Schema) {
			t.Errorf("node %s has another schema", site)
		}
		if config.Share[0] != end {
			t.Errorf("site %s begins at %v of the file, the one before ends at %v", site, config.Share[0], end)
		}
		teachers, end = teachers+config.Teachers, config.Share[1]
	}
	if teachers != spec.Teachers || end != 1 {
		t.Errorf("the nodes have %d teachers of %d and %v of the file", teachers, spec.Teachers, end)
	}
	if job.Plan.Rounds < 1 {
		t.Errorf("plan %+v", job.Plan)
	}
}

// The example policy is valid for the example's dataset.
func TestTheExamplesPolicyIsOne(t *testing.T) {
	p, err := sitepolicy.Read(filepath.Join(clusterDir, "policy.yaml"))
	testkit.Must(t, err)
	config, err := node.LoadConfig(filepath.Join(clusterDir, "teacher-north.yaml"))
	testkit.Must(t, err)
	if p.Dataset(config.Dataset) == nil || config.Policy != "" {
		t.Errorf("the policy does not name %s, or the node uses it", config.Dataset)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	testkit.Must(t, err)
	y, err := os.Stat(b)
	testkit.Must(t, err)
	return os.SameFile(x, y)
}

// Every field that a file may have is in its example, set or commented out, after a comment that explains it.
func TestTheExamplesShowEveryField(t *testing.T) {
	for name, of := range map[string]reflect.Type{
		"aggregator.yaml": reflect.TypeFor[aggregator.Config](), "teacher-north.yaml": reflect.TypeFor[node.Config](),
		"teacher-south.yaml": reflect.TypeFor[node.Config](), "student.yaml": reflect.TypeFor[student.Config](),
		"run.yaml": runfile.FileType(), "policy.yaml": reflect.TypeFor[sitepolicy.Policy](),
	} {
		raw := testkit.Read(t, filepath.Join(clusterDir, name))
		for _, field := range fieldNames(of, reflect.TypeFor[pategan.Teacher](), reflect.TypeFor[pategan.Student]()) {
			if ok, err := regexp.Match(fmt.Sprintf(`(?m)(^|[ {])%s:`, field), raw); err != nil || !ok {
				t.Errorf("%s does not show %s (%v)", name, field, err)
			}
		}
	}
}

// fieldNames lists the YAML names of a struct and its nested structs, except some.
func fieldNames(t reflect.Type, but ...reflect.Type) (names []string) {
	for t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(but, t) {
		return nil
	}
	for i := range t.NumField() {
		name, how, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		if how == "inline" {
			names = append(names, fieldNames(t.Field(i).Type, but...)...)
			continue
		}
		if name == "" {
			name = strings.ToLower(t.Field(i).Name)
		}
		names = append(append(names, name), fieldNames(t.Field(i).Type, but...)...)
	}
	return names
}
