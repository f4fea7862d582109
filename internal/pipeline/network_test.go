package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/resolved"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func csvOf(t *testing.T, m *NetworkModel, rows, class int, seed uint64) string {
	t.Helper()
	table, err := m.sample(rows, class, rand.New(rand.NewPCG(seed, 0)))
	testkit.Must(t, err)
	var b bytes.Buffer
	testkit.Must(t, tabular.WriteCSV(&b, table))
	return b.String()
}

// A saved and loaded model draws the same rows, byte for byte, for any kind of generator.
func TestSavedModelsDrawTheSameRows(t *testing.T) {
	warped := GeneratorSpec{Noise: 3, Hidden: 6, Layers: 1, Classes: 2, Warp: 2}
	for name, m := range map[string]*NetworkModel{
		"dense": testModel(t, 0.7, 0.3), "convolution": smallConvolution(t),
		"warp": modelOf(t, imageSchema(t, 8, 8, 1), warped, 0.5, 0.5),
	} {
		dir := filepath.Join(t.TempDir(), "model")
		testkit.Must(t, m.Save(dir))
		loaded, err := loaded(dir)
		testkit.Must(t, err)
		if loaded.Generator.spec != m.Generator.spec {
			t.Errorf("%s: %+v became %+v", name, m.Generator.spec, loaded.Generator.spec)
		}
		if a, b := csvOf(t, m, 1100, anyClass, 3), csvOf(t, loaded, 1100, anyClass, 3); a != b {
			t.Errorf("%s: the loaded model draws other rows", name)
		}
		if a, b := csvOf(t, m, 20, anyClass, 3), csvOf(t, m, 20, anyClass, 4); a == b {
			t.Errorf("%s: two seeds draw the same rows", name)
		}
	}
}

// The model.json of a dense generator is unchanged, without a kind.
func TestDenseModelFileIsAsBefore(t *testing.T) {
	m, dir := testModel(t, 0.7, 0.3), filepath.Join(t.TempDir(), "model")
	testkit.Must(t, m.Save(dir))
	raw := testkit.Read(t, filepath.Join(dir, modelFile))
	const want = `"generator": {
    "noise": 4,
    "hidden": 8,
    "layers": 2,
    "classes": 2
  },`
	if !strings.Contains(string(raw), want) {
		t.Errorf("the generator in %s, want %s", raw, want)
	}
}

// Another program computes the network from the file as docs/formats-model.md describes: weights of shape [outputs,
// inputs], leaky rectifiers between layers.
func TestWeightsFileIsAsDocumented(t *testing.T) {
	m, dir := testModel(t, 0.7, 0.3), filepath.Join(t.TempDir(), "model")
	testkit.Must(t, m.Save(dir))
	file, err := safetensors.Load(filepath.Join(dir, weightsFile))
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(4, 4))
	in := make([]float32, m.Generator.Net.In())
	x := make([]float64, len(in))
	for i := range in {
		in[i] = float32(rng.NormFloat64())
		x[i] = float64(in[i])
	}
	layers := m.Generator.spec.Layers + 1
	for l := range layers {
		w, b := file.ByName[fmt.Sprintf("layer%d.weight", l)], file.ByName[fmt.Sprintf("layer%d.bias", l)]
		if !slices.Equal(w.Shape, []int{len(b.Data), len(x)}) {
			t.Fatalf("layer %d has shape %v for %d inputs and %d outputs", l, w.Shape, len(x), len(b.Data))
		}
		y := make([]float64, len(b.Data))
		for o := range y {
			y[o] = float64(b.Data[o])
			for i, v := range x {
				y[o] += float64(w.Data[o*len(x)+i]) * v
			}
			if l < layers-1 && y[o] < 0 {
				y[o] *= 0.2
			}
		}
		x = y
	}
	for i, got := range m.Generator.Net.Forward(in, 1) {
		if math.Abs(float64(got)-x[i]) > 1e-4*(1+math.Abs(x[i])) {
			t.Errorf("output %d is %v, from the file %v", i, got, x[i])
		}
	}
}

// Rows are of the wanted class, or of all classes in their shares, and the schema's own reader accepts every
// one of them.
func TestSampledRowsFitTheSchema(t *testing.T) {
	m := testModel(t, 0.7, 0.3)
	const rows = 4000
	text := csvOf(t, m, rows, anyClass, 1)
	path := filepath.Join(t.TempDir(), "rows.csv")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	if table, err := tabular.ReadCSV(m.Schema(), path, tabular.Options{}); err != nil || table.Len() != rows {
		t.Fatalf("the rows cannot be read again: %v", err)
	}
	// 5 standard deviations of a binomial share: a false failure in 1.7 million.
	if got := float64(strings.Count(text, ",no\n")) / rows; math.Abs(got-0.7) > 5*math.Sqrt(0.7*0.3/rows) {
		t.Errorf("%.3f of the rows are of class no, want 0.7", got)
	}
	for class, name := range []string{"no", "yes"} {
		if got := strings.Count(csvOf(t, m, 100, class, 1), ","+name+"\n"); got != 100 {
			t.Errorf("%d of 100 rows asked of class %s are of it", got, name)
		}
	}
}

func TestSampleRefuses(t *testing.T) {
	m, rng := testModel(t, 0.5, 0.5), rand.New(rand.NewPCG(1, 1))
	for _, c := range [][2]int{{0, anyClass}, {-1, 0}, {1, 2}, {1, -2}} {
		if _, err := m.sample(c[0], c[1], rng); err == nil {
			t.Errorf("%d rows of class %d were drawn", c[0], c[1])
		}
	}
	if class, err := m.class(Condition{"label", "=", "yes"}); err != nil || class != 1 {
		t.Errorf("class of label=yes is %d, %v", class, err)
	}
	for _, c := range [][2]string{{"label", "maybe"}, {"a", "1"}} {
		if _, err := m.class(Condition{c[0], "=", c[1]}); !errors.Is(err, ErrCondition) {
			t.Errorf("%s=%s: error %v", c[0], c[1], err)
		}
	}
}

// A network takes classes of the label as conditions, and nothing else.
func TestNetworksTakeTheLabel(t *testing.T) {
	m := testModel(t, 0.5, 0.5)
	for _, c := range []struct {
		where []string
		taken bool
	}{
		{nil, true}, {[]string{"label=yes"}, true}, {[]string{"label=yes", "label=yes"}, true},
		{[]string{"label=yes", "label=no"}, false}, {[]string{"label>no"}, false}, {[]string{"c=x"}, false},
		{[]string{"a>0"}, false}, {[]string{"label=maybe"}, false},
	} {
		var where []Condition
		for _, text := range c.where {
			condition, err := ParseCondition(text)
			testkit.Must(t, err)
			where = append(where, condition)
		}
		_, err := m.Sample(3, where, rand.New(rand.NewPCG(1, 1)))
		if c.taken && err != nil || !c.taken && !errors.Is(err, ErrCondition) {
			t.Errorf("%v: %v", c.where, err)
		}
	}
}

// A model of a kind that no pipeline of the program has is refused by name.
func TestLoadModelNamesAnUnknownKind(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, SaveModel(dir, "tree", testModel(t, 1, 0).Schema(), safetensors.New(), func(h ModelHeader) any {
		return h
	}))
	if _, err := loaded(dir); err == nil ||
		!strings.Contains(err.Error(), `a model of kind "tree" is unknown; this program supports network`) {
		t.Errorf("error %v", err)
	}
}

// Programs without a YAML reader read the schema in model.json.
func TestModelFilesSayWhatTheSchemaMeans(t *testing.T) {
	dir, model := t.TempDir(), testModel(t, 1, 0)
	testkit.Must(t, model.Save(dir))
	var j struct {
		Schema json.RawMessage `json:"schema"`
	}
	testkit.Must(t, json.Unmarshal(testkit.Read(t, filepath.Join(dir, modelFile)), &j))
	var got bytes.Buffer
	testkit.Must(t, json.Compact(&got, j.Schema))
	want, err := json.Marshal(resolved.Of(model.Schema()))
	testkit.Must(t, err)
	testkit.Same(t, "the schema of model.json", string(want), got.String())
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		counts []float64
		scale  float64
		want   []float64
	}{
		{[]float64{30, 10}, 0, []float64{0.75, 0.25}},
		{[]float64{-5, 10}, 0, []float64{0, 1}},
		{[]float64{-5, -1}, 0, []float64{0.5, 0.5}},
		{[]float64{3}, 0, []float64{1}},
		// The noise hides whether this class is rare.
		{[]float64{-5, 30}, 10, []float64{0.25, 0.75}},
		{[]float64{9, 30}, 10, []float64{0.25, 0.75}},
		{[]float64{-50, -1}, 10, []float64{0.5, 0.5}},
	} {
		if got := Shares(c.counts, c.scale); !slices.Equal(got, c.want) {
			t.Errorf("shares of %v are %v, want %v", c.counts, got, c.want)
		}
	}
}

func TestLoadModelRefusesDamage(t *testing.T) {
	table, images := testModel(t, 0.7, 0.3), smallConvolution(t)
	for _, c := range []struct {
		m                    *NetworkModel
		file, old, new, says string // an empty says: it is valid
	}{
		{table, modelFile, `{`, `{`, ""},
		{table, modelFile, `{`, `[`, "model.json"},
		{table, modelFile, `"format": 1`, `"format": 2`, "format 2"},
		{table, modelFile, `"hidden": 8`, `"hidden": 900000000`, "too large"},
		{table, modelFile, `"hidden": 8`, `"hidden": 65536`, "too large"},
		{table, modelFile, `"hidden": 8`, `"hidden": 9`, "has shape"},
		{table, modelFile, `"layers": 2`, `"layers": 900`, "too large"},
		{table, modelFile, `"noise": 4`, `"noise": -4`, "-4"},
		{table, modelFile, `"noise": 4`, `"kind": "dense", "noise": 4`, ""},
		{table, modelFile, `"noise": 4`, `"kind": "gru", "noise": 4`,
			`model.json: a generator of kind "gru" is unknown`},
		{table, modelFile, `"noise": 4`, `"kind": 1, "noise": 4`, "kind"},
		{table, modelFile, `"noise": 4`, `"kind": "convolution", "noise": 4`,
			"model.json: a generator of kind convolution needs a schema of images"},
		{table, modelFile, `0.3`, `0.7`, "class shares"},
		{table, modelFile, `0.7`, `-0.7`, "class share"},
		{table, modelFile, `0.7,`, ``, "class shares"},
		{table, modelFile, `"schema_sha256"`, `"of"`, "schema_sha256 or weights_sha256 is missing"},
		{table, modelFile, `"weights_sha256"`, `"of"`, "schema_sha256 or weights_sha256 is missing"},
		{table, schemaFile, "name: test", "", "schema.yaml: the file was changed"},
		{table, weightsFile, "layer0.weight", "layer0.height", "generator.safetensors: the file was changed"},
		{images, modelFile, `"kind": "convolution"`, `"kind": "dense"`, "has shape"},
		{images, modelFile, `"kind": "convolution",`, ``, "has shape"},
		{images, modelFile, `"kind": "convolution"`, `"kind": "Convolution"`, "unknown"},
		{images, modelFile, `"hidden": 6`, `"hidden": 7`, "has shape"},
		{images, modelFile, `"hidden": 6`, `"hidden": 60000`, "too large"},
		{images, modelFile, `"layers": 2`, `"layers": 1`, "has shape"},
		{images, modelFile, `"layers": 2`, `"layers": 3`, "halved 2 times"},
		{images, modelFile, `"layers": 2`, `"layers": -2`, "layers -2"},
		{images, modelFile, `"noise": 5`, `"noise": 50000000`, "too large"},
		{images, modelFile, `"classes": 2`, `"classes": 3`, "has shape"},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		testkit.Must(t, c.m.Save(dir))
		raw := string(testkit.Read(t, filepath.Join(dir, c.file)))
		damaged := strings.Replace(raw, c.old, c.new, 1)
		if damaged == raw && c.old != c.new {
			t.Fatalf("%s has no %s", raw, c.old)
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, c.file), []byte(damaged), 0o600))
		_, err := loaded(dir)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) ||
			c.m == images && !strings.Contains(err.Error(), dir)) {
			t.Errorf("%s as %s: error is %v, want %q", c.old, c.new, err, c.says)
		}
	}
	dir := filepath.Join(t.TempDir(), "model")
	testkit.Must(t, table.Save(dir))
	for _, missing := range []string{weightsFile, modelFile} {
		testkit.Must(t, os.Remove(filepath.Join(dir, missing)))
		if _, err := loaded(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a folder without %s: %v", missing, err)
		}
	}
}
