package pipeline

import (
	"bytes"
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

// A model that was saved and loaded draws the same rows, to the byte.
func TestSavedModelDrawsTheSameRows(t *testing.T) {
	m, dir := testModel(t, 0.7, 0.3), filepath.Join(t.TempDir(), "model")
	testkit.Must(t, m.Save(dir))
	loaded, err := loaded(dir)
	testkit.Must(t, err)
	if a, b := csvOf(t, m, 1500, anyClass, 3), csvOf(t, loaded, 1500, anyClass, 3); a != b {
		t.Error("the loaded model draws other rows")
	}
	if a, b := csvOf(t, m, 20, anyClass, 3), csvOf(t, m, 20, anyClass, 4); a == b {
		t.Error("two seeds draw the same rows")
	}
}

// Of a dense generator model.json says what it always said, without a kind.
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

// Another program computes the network from the file as docs/formats.md says:
// weights of shape [outputs, inputs], leaky rectifiers between layers.
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

// Rows are of the wanted class, or of all in their shares, and the schema's own
// reader takes every one of them.
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
		!strings.Contains(err.Error(), `a model of kind "tree" is not known to this program, which knows network`) {
		t.Errorf("error %v", err)
	}
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
		// What the noise cannot tell from a rare class is one.
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
	m := testModel(t, 0.7, 0.3)
	const spec, shares = `{"noise": 4, "hidden": 8, "layers": 2, "classes": 2}`, `[0.7, 0.3]`
	// model is a model.json with the right digests.
	model := func(format int, spec, shares string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			weights := testkit.Read(t, filepath.Join(dir, weightsFile))
			write(t, dir, modelFile,
				fmt.Sprintf(`{"format": %d, "generator": %s, "class_shares": %s, "schema_sha256": %q, `+
					`"weights_sha256": %q}`,
					format, spec, shares, m.Schema().SHA256, sha256Hex(weights)))
		}
	}
	file := func(name, content string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { write(t, dir, name, content) }
	}
	for _, c := range []struct {
		name, says string // says nothing: it is as it should be
		damage     func(t *testing.T, dir string)
	}{
		{"nothing", "", model(1, spec, shares)},
		{"not JSON", "model.json", file(modelFile, "{")},
		{"other format", "format 2", model(2, spec, shares)},
		{"too large", "too large", model(1, strings.Replace(spec, "8", "900000000", 1), shares)},
		{"too many layers", "too large", model(1, strings.Replace(spec, `"layers": 2`, `"layers": 900`, 1), shares)},
		{"too many weights", "too large", model(1, strings.Replace(spec, "8", "65536", 1), shares)},
		{"a kind by name", "", model(1, strings.Replace(spec, "{", `{"kind": "dense", `, 1), shares)},
		{"unknown kind", `model.json: a generator of kind "gru" is not known`,
			model(1, strings.Replace(spec, "{", `{"kind": "gru", `, 1), shares)},
		{"kind not a word", "kind", model(1, strings.Replace(spec, "{", `{"kind": 1, `, 1), shares)},
		{"images of a table", "model.json: a generator of kind convolution needs a schema of images",
			model(1, strings.Replace(spec, "{", `{"kind": "convolution", `, 1), shares)},
		{"negative", "-4", model(1, strings.Replace(spec, "4", "-4", 1), shares)},
		{"other shape", "has shape", model(1, strings.Replace(spec, "8", "9", 1), shares)},
		{"shares above 1", "class shares", model(1, spec, "[0.7, 0.7]")},
		{"a share below 0", "class share", model(1, spec, "[1.5, -0.5]")},
		{"one share", "class shares", model(1, spec, "[1]")},
		{"no digests", "schema_sha256 or weights_sha256 is missing",
			file(modelFile, `{"format": 1, "generator": `+spec+`, "class_shares": `+shares+`}`)},
		{"no schema", "schema.yaml", file(schemaFile, "")},
		{"an edited schema", "schema.yaml: the file was changed", func(t *testing.T, dir string) {
			write(t, dir, schemaFile, string(m.Schema().Raw())+"# harmless\n")
		}},
		{"no weights", "generator.safetensors: the file was changed", file(weightsFile, "")},
		{"other weights", "generator.safetensors: the file was changed", func(t *testing.T, dir string) {
			raw := testkit.Read(t, filepath.Join(dir, weightsFile))
			raw[len(raw)-1] ^= 1
			write(t, dir, weightsFile, string(raw))
		}},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		testkit.Must(t, m.Save(dir))
		c.damage(t, dir)
		_, err := loaded(dir)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.says)
		}
	}
	if _, err := loaded(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "model")
	testkit.Must(t, m.Save(dir))
	testkit.Must(t, os.Remove(filepath.Join(dir, weightsFile)))
	if _, err := loaded(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder without weights: %v", err)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}
