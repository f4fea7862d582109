package local

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// A sum over all sites is exactly the same, for any number of sites, and so are the noise and its cost: for
// tables and images, records and people. At rate 1 the first step is such a sum.
func TestSumsDoNotDependOnTheNumberOfSites(t *testing.T) {
	t.Parallel()
	seven := []float64{0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.25}
	discriminator := func(options string) string {
		at := strings.Index(steps, "discriminator: ")
		return steps[:at] + "discriminator: " + options + ", student: {hidden: 8, batch: 20, steps: 1}}\n"
	}
	who := func(i int) string { // some have many records
		if i >= 50 {
			return fmt.Sprint("p", i*i%101%50)
		}
		return fmt.Sprint("p", i)
	}
	const unit = "privacy: {epsilon: 2, delta: 1e-5, unit: who}\n"
	for name, c := range map[string]struct {
		file, lines string
		units       int64 // as the class counts count them
		who         func(i int) string
		sites       []float64
	}{
		"steps":             {"table.csv", steps, 250, nil, seven},
		"steps over people": {"table.csv", steps + unit, 50, who, nil},
		"cosines": {"the-images.idx", discriminator("{layers: 1, hidden: 6, cosines: 3, generated: 40}"), 240, nil,
			nil},
		"convolutions": {"the-images.idx",
			discriminator("{kind: convolution, layers: 2, hidden: 4, classes: told, generated: 40}"), 240, nil, nil},
		"an embedding":        {"table.csv", embedding, 0, nil, []float64{0.25, 0.25, 0.5}},
		"an embedding of all": {"the-images.idx", embedding, 0, nil, nil},
		"one over people":     {"table.csv", embedding + unit, 0, who, nil},
	} {
		if testing.Short() && name != "steps" && name != "an embedding" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first []int64
			var mechanisms any
			for _, shares := range [][]float64{{1}, c.sites} {
				spec, dir, out := begin(t, runOn(c.file, c.lines, shares...))
				if c.who != nil {
					people(t, dir, c.who)
				}
				var sums [][]int64
				var last run.Status
				result, err := Run(t.Context(), spec, Options{Out: out,
					Hooks: aggregator.Hooks{Sums: func(_ string, number uint64, counts []int64) {
						if number != uint64(len(sums)) {
							t.Errorf("round %d after %d", number, len(sums))
						}
						sums = append(sums, slices.Clone(counts))
					}},
					Watch: func(s run.Status) { last = s },
				})
				testkit.Must(t, err)
				kinds := map[string]int{"embedding": 1}
				if c.units > 0 {
					kinds = map[string]int{"class-counts": 1, "discriminator": 6}
					if n := sums[0][0] + sums[0][1]; n > c.units<<16 || n < c.units<<16-250 ||
						c.who == nil && n != c.units<<16 {
						t.Errorf("class counts %v of %d units", sums[0], c.units)
					}
				} else if last.Of != "step" || last.Round != 20 || last.Rounds != 20 ||
					last.EpsilonSpent != result.EpsilonSpent {
					t.Errorf("at last it said %+v", last)
				}
				certificate := check(t, spec, result, out, kinds)
				sum := sums[min(1, len(sums)-1)]
				if first == nil {
					first, mechanisms = sum, certificate.Mechanisms
				}
				if !slices.Equal(sum, first) || slices.Max(first) == 0 && slices.Min(first) == 0 {
					t.Errorf("%d sites add up to %v, one to %v", len(spec.Data), sum, first)
				}
				testkit.Same(t, "mechanisms", mechanisms, any(certificate.Mechanisms))
			}
		})
	}
}

// Tables without a label or of one column, and classes without rows, can be embedded. The first numbers of the
// classes are in the ratio of the numbers of their records.
func TestEmbeddingsOfOddTables(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	const a = "name: p\ncolumns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n"
	for _, c := range []struct {
		schema string
		cells  []string // of the second column, one after the other
		counts []float64
	}{
		{a + "  - {name: c, kind: categorical, categories: [x, y]}\n", []string{",x", ",y"}, []float64{120}},
		{a, []string{""}, []float64{120}},
		{"label: c\n" + a + "  - {name: c, kind: categorical, categories: [x, none, y]}\n",
			[]string{",x", ",y", ",y"}, []float64{40, 0, 80}},
	} {
		spec, dir, out := begin(t, runOn("table.csv", embedding))
		rows := "a"
		if len(c.cells) > 1 {
			rows += ",c"
		}
		for i := range 120 {
			rows += fmt.Sprintf("\n%.4f%s", float64(i*37%120)/120, c.cells[i%len(c.cells)])
		}
		files(t, dir, map[string]string{"schema.yaml": c.schema, "table.csv": rows + "\n"})
		var sum []int64
		result, err := Run(t.Context(), spec, Options{Out: out,
			Hooks: aggregator.Hooks{Sums: func(_ string, _ uint64, counts []int64) { sum = slices.Clone(counts) }}})
		testkit.Must(t, err)
		check(t, spec, result, out, map[string]int{"embedding": 1})
		each := len(sum) / len(c.counts)
		for class, n := range c.counts {
			got, want := float64(sum[class*each])*c.counts[0], float64(sum[0])*n
			if sum[0] == 0 || math.Abs(got-want) > 1e-2*math.Abs(float64(sum[0]))*c.counts[0] {
				t.Errorf("class %d adds up to %d, the first to %d", class, sum[class*each], sum[0])
			}
		}
	}
}

func TestNodesGetTeachersByPublicShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		teachers int
		shares   []float64
		want     []int
	}{
		{30, []float64{0.5, 0.5}, []int{15, 15}},
		{31, []float64{0.5, 0.5}, []int{16, 15}},
		{10, []float64{0.6, 0.2, 0.2}, []int{6, 2, 2}},
		{3, []float64{1, 1, 1}, []int{1, 1, 1}},
		{3, []float64{1, 0.5, 0.5}, []int{1, 1, 1}},
		{7, []float64{1}, []int{7}},
	} {
		schema, err := partition.ParseSchema([]byte("name: x\ncolumns: [{name: a, kind: binary}]\n"))
		testkit.Must(t, err)
		spec := &runfile.Spec{Teachers: c.teachers, Schema: "schema.yaml", Privacy: runfile.Privacy{Unit: "record"}}
		for i, share := range c.shares {
			spec.Data = append(spec.Data,
				runfile.Data{Site: string(rune('a' + i)), File: string(rune('a'+i)) + ".csv", Share: share})
		}
		configs, err := nodeConfigs(spec, schema, "state", 0)
		testkit.Must(t, err)
		var got []int
		for _, n := range configs {
			got = append(got, n.Teachers)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d teachers for %v: got %v, want %v", c.teachers, c.shares, got, c.want)
		}
	}
}

// The sites of a local cluster divide a file of images as they divide a table, and truncated labels are found
// before anything is written.
func TestSitesShareAFileOfImages(t *testing.T) {
	t.Parallel()
	spec, dir, out := begin(t, runOn("the-images.idx", embedding, 0.75, 0.25))
	schema, err := partition.LoadSchema(spec.Schema)
	testkit.Must(t, err)
	configs, err := nodeConfigs(spec, schema, filepath.Join(dir, "state"), 0)
	testkit.Must(t, err)
	if configs[0].Teachers != 11 || configs[1].Teachers != 3 || configs[1].Share != [2]float64{0.75, 1} {
		t.Errorf("nodes %+v", configs)
	}
	sites, err := readSites(configs, func(string) {})
	if err != nil || len(sites) != 2 {
		t.Errorf("%d sites, %v", len(sites), err)
	}
	labels := filepath.Join(dir, "the-labels.idx")
	raw := testkit.Read(t, labels)
	testkit.Must(t, os.WriteFile(labels, raw[:len(raw)/2], 0o600))
	var input *partition.InputError
	if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.As(err, &input) ||
		!strings.Contains(err.Error(), "site s0: "+labels+": ") {
		t.Errorf("cut labels: %v", err)
	}
}

// Mistakes are found before anything is written.
func TestMistakesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	const missing = "none.csv: cannot read the table: no such file"
	table, images := runOn("table.csv", votes), runOn("the-images.idx", gradients)
	for name, c := range map[string]struct{ text, old, new, want string }{
		"too many teachers":      {table, "teachers: 14", "teachers: 9000", partition.ErrTooManyPartitions.Error()},
		"too few for sites":      {table, "teachers: 14", "teachers: 1", "1 are too few for 2 sites"},
		"no such file":           {table, "file: table.csv", "file: none.csv", missing},
		"second site only":       {table, "s1, file: table.csv", "s1, file: none.csv", missing},
		"no such test file":      {table, "name:", "evaluate: {test: none.csv}\nname:", missing},
		"an option":              {table, "labels: 64", "noise: 0.5, labels: 64", "pategan.noise: 0.5"},
		"no images":              {images, "pipeline: gpate", "pipeline: pategan", "images are not available with"},
		"images of another size": {images, "", "", "the-images.idx"},
		"k above the dimension": {images, "rounds: 5", "answers: winner, directions: 300, rounds: 5",
			"gpate.directions: 300 are more than the"},
	} {
		spec, dir, out := begin(t, c.text)
		if c.old == "" {
			squares(t, dir, 6)
		} else {
			spec = load(t, dir, strings.ReplaceAll(c.text, c.old, c.new))
		}
		if _, err := Run(t.Context(), spec, Options{Out: out}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the output folder was made (%v)", name, err)
		}
	}
}

func TestTheStateIsSecretAndTheResultsAreNot(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	state := filepath.Join(out, "state")
	testkit.Must(t, makeFolders(out, state))
	for path, want := range map[string]os.FileMode{out: 0o755, state: 0o700} {
		info, err := os.Stat(path)
		testkit.Must(t, err)
		if got := info.Mode().Perm(); got&^want != 0 {
			t.Errorf("%s has mode %o, want at most %o", path, got, want)
		}
	}
}
