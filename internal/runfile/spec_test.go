package runfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
)

func TestLoadOverDefaults(t *testing.T) {
	dir := write(t, map[string]string{"run.yaml": good + `
data:
  - {site: north, file: data/north.csv}
  - {site: south, file: /abs/south.csv, share: 0.25}
evaluate: {test: test.csv}
pategan: {queries: 32, student: {memory: 1}}
`})
	path := filepath.Join(dir, "run.yaml")
	got, err := Load(path)
	testkit.Must(t, err)
	want := DefaultSpec()
	want.Name, want.Schema = "r1", filepath.Join(dir, "schema.yaml")
	want.Privacy.Epsilon, want.Privacy.Delta = 1, 1e-5
	want.Data = []Data{dataOf("north", filepath.Join(dir, "data", "north.csv"), 1),
		dataOf("south", "/abs/south.csv", 0.25)}
	want.Evaluate.Test = filepath.Join(dir, "test.csv")
	Section[pategan.Options](want).Queries, Section[pategan.Options](want).Student.Memory = 32, 1
	want.Path, want.Text = path, got.Text
	testkit.Same(t, "", want, got)
	if raw, err := os.ReadFile(path); err != nil || got.Text != string(raw) {
		t.Errorf("Text is not the file's (%v)", err)
	}
	if want.Teachers != 1000 || want.Release.Rows != 6000 || want.Seed != 1 || want.Privacy.Unit != "record" {
		t.Errorf("the defaults are not those of the fields' documentation: %+v", want)
	}
}

func TestSpecsThatCannotWork(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no name":           {replaced(t, good, "name: r1\n", ""), `name: "" is not a name`},
		"bad name":          {replaced(t, good, "r1", "R 1"), `name: "R 1" is not a name; use`},
		"path in a name":    {replaced(t, good, "r1", "../r1"), "is not a name"},
		"no schema":         {replaced(t, good, "schema: schema.yaml\n", ""), "schema: missing; give"},
		"no privacy":        {"name: r1\nschema: s\n", "privacy: epsilon is 0"},
		"epsilon 0":         {replaced(t, good, "epsilon: 1", "epsilon: 0"), "privacy: epsilon is 0"},
		"epsilon negative":  {replaced(t, good, "epsilon: 1", "epsilon: -3"), "privacy: epsilon is -3"},
		"epsilon infinite":  {replaced(t, good, "epsilon: 1", "epsilon: .inf"), "privacy: epsilon is +Inf"},
		"epsilon not a one": {replaced(t, good, "epsilon: 1", "epsilon: .nan"), "privacy: epsilon is NaN"},
		"delta 0":           {replaced(t, good, "1e-5", "0"), "privacy: delta is 0"},
		"delta 1":           {replaced(t, good, "1e-5", "1"), "privacy: delta is 1"},
		"purpose of lines":  {good + "purpose: \"a\\nb\"\n", "purpose has a character that is not printable"},
		"no unit":           {replaced(t, good, "1e-5", `1e-5, unit: ""`), "privacy.unit: empty; use"},
		"data-dependent": {replaced(t, good, "1e-5", "1e-5, guarantee: data-dependent"),
			`privacy.guarantee: "data-dependent" is not available; use`},
		"teachers negative": {replaced(t, good, "1000", "-5"), "teachers: -5 is not between"},
		"too many teachers": {replaced(t, good, "1000", "10000000"), "teachers: 10000000 is not between"},
		"other pipeline":    {good + "pipeline: medgan\n", `pipeline: "medgan" is not available; use pategan`},
		"warm start of 1": {good + "warm_start: {embed: 1}\n",
			"warm_start.embed: 1 is not a share of the budget, above 0 and below 1"},
		"warm start below 0": {good + "warm_start: {embed: -0.5}\n", "warm_start.embed: -0.5 is not a share"},
		"warm start of NaN":  {good + "warm_start: {embed: .nan}\n", "warm_start.embed: NaN is not a share"},
		"other warm start":   {good + "warm_start: {mst: 0.3}\n", `unknown field "mst"`},
		"embed with a start": {good + "pipeline: embed\nwarm_start: {embed: 0.3}\n",
			"pipeline embed needs no warm start; leave it out"},
		"post":    {good + "post: [pgb]\n", "post: pgb: there is no discriminator after marginals"},
		"weights": {good + "weights: mst\n", `weights: "mst" is not a method; use none`},
		"no rows": {good + "release: {rows: 0}\n", "release.rows: 0 is not between"},
		"another format": {good + "release: {format: feather}\n",
			`release.format: "feather" is not available; use csv or parquet`},
		"train without test": {good + "evaluate: {train: x.csv}\n", "evaluate.train: set without evaluate.test"},
		"unknown field":      {good + "epsilon: 1\n", `line 5, column 1: unknown field "epsilon"`},
		"two documents":      {good + "---\nname: x\n", "more than one YAML document"},
		"site's name": {good + "data: [{site: North Wing, file: a}]\n",
			`data[0].site: "North Wing" is not a name`},
		"site twice": {good + "data: [{site: a, file: a}, {site: a, file: b}]\n",
			`data[1].site: "a" appears twice`},
		"no file":        {good + "data: [{site: a}]\n", "data[0].file: missing; give"},
		"share negative": {good + "data: [{site: a, file: a, share: -0.1}]\n", "data[0].share: -0.1 is not"},
		"share above 1":  {good + "data: [{site: a, file: a, share: 1.5}]\n", "data[0].share: 1.5 is not"},
		"sorted by a column": {good + "data: [{site: a, file: a, stream: true, sorted_by: who}]\n",
			`data[0].sorted_by: "who" is unknown; use unit`},
		"sorted in memory": {good + "data: [{site: a, file: a, sorted_by: unit}]\n",
			"data[0].sorted_by: only for streamed files"},
		"sorted records": {good + "data: [{site: a, file: a, stream: true, sorted_by: unit}]\n",
			"data[0].sorted_by: only for streamed files"},
		"share 0":         {good + "data: [{site: a, file: a, share: 0}]\n", "data[0].share: 0 is not"},
		"unknown in data": {good + "data: [{site: a, file: a, part: 1}]\n", "part"},
		"bad option":      {good + "pategan: {queries: 1}\n", "pategan.queries: 1 is not between"},
		"bad mechanism":   {good + "pategan: {mechanism: magic}\n", `pategan.mechanism: "magic" is not one of`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "run.yaml: ") {
				t.Errorf("error %v; want one that names the file and says %q", err, c.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil ||
		!strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a missing file: error %v", err)
	}
}

func TestAllMistakesAreNamedAtOnce(t *testing.T) {
	_, err := load(t, "name: R\nteachers: -1\npipeline: x\n")
	for _, want := range []string{"name:", "schema:", "privacy:", "teachers:", "pipeline:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestLoadSchemaChecksTheSpecAgainstIt(t *testing.T) {
	for unit, want := range map[string]string{"record": "", "patient": "", "age": "run.yaml: privacy.unit:",
		"nobody": "run.yaml: privacy.unit:"} {
		s, err := load(t, replaced(t, good, "1e-5", "1e-5, unit: "+unit))
		testkit.Must(t, err)
		_, err = s.LoadSchema()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("unit %s: error %v, want %q", unit, err, want)
		}
	}
	s, err := load(t, replaced(t, good, "schema: schema.yaml", "schema: none.yaml"))
	testkit.Must(t, err)
	if _, err := s.LoadSchema(); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a missing schema: error %v", err)
	}
}

func TestSharesOfAFileMustNotOverlap(t *testing.T) {
	for _, files := range [][2]string{{"a.csv", "a.csv"}, {"a.csv", "x/../a.csv"}} {
		s, err := load(t, fmt.Sprintf("%sdata: [{site: a, file: %s, share: 0.6}, {site: b, file: %s, share: 0.6}]\n",
			good, files[0], files[1]))
		testkit.Must(t, err)
		if _, err := s.LoadSchema(); err == nil ||
			!strings.Contains(err.Error(), "run.yaml: data[1].share: the shares of") {
			t.Errorf("%v: error %v", files, err)
		}
	}
}

func dataOf(site, file string, share float64) Data { return Data{Site: site, File: file, Share: share} }

func TestSitesTakePartsThatFollowEachOther(t *testing.T) {
	s := &Spec{Data: []Data{
		dataOf("a", "x.csv", 0.5), dataOf("b", "y.csv", 1), dataOf("c", "x.csv", 0.25), dataOf("d", "x.csv", 0.25),
		dataOf("e", "z.csv", 0.1),
	}}
	want := [][2]float64{{0, 0.5}, {0, 1}, {0.5, 0.75}, {0.75, 1}, {0, 0.1}}
	testkit.Same(t, "", want, s.Sites(plainSchema(t)))
	thirds := &Spec{Data: []Data{dataOf("a", "x", 1.0/3), dataOf("b", "x", 1.0/3), dataOf("c", "x", 1.0/3)}}
	if got := thirds.Sites(plainSchema(t))[2][1]; got != 1 {
		t.Errorf("three thirds end at %v; the last records would belong to nobody", got)
	}
}

// A file under two names is one file: its records must not be at two sites.
func TestAFileWithTwoNamesIsOneFile(t *testing.T) {
	dir := write(t, map[string]string{"a.csv": "age\n1\n"})
	real, link := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	if err := os.Symlink(real, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	t.Chdir(dir)
	for _, other := range []string{link, "a.csv", "./b.csv"} {
		s := &Spec{Data: []Data{dataOf("a", real, 0.5), dataOf("b", other, 0.5)}}
		if got, want := s.Sites(plainSchema(t)), [][2]float64{{0, 0.5}, {0.5, 1}}; !cmp.Equal(want, got) {
			t.Errorf("%s: parts %v, want %v", other, got, want)
		}
		s.Data[1].Share = 1
		if s.checkShares() == nil {
			t.Errorf("%s: shares of 1.5 of one file were accepted", other)
		}
	}
}

// For any shares, parts of one file do not overlap, are in [0, 1] and have the width of their share.
func TestSitesNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 12).Draw(t, "weights")
		total := rapid.IntRange(0, 1000).Draw(t, "unused")
		for _, w := range weights {
			total += w
		}
		s := &Spec{}
		for i, w := range weights {
			s.Data = append(s.Data, Data{Site: "s" + string(rune('a'+i)), File: "x",
				Share: float64(w) / float64(total)})
		}
		if errs := s.validateData(); errs != nil {
			t.Fatalf("refused: %v", errs)
		}
		end := 0.0
		for i, part := range s.Sites(plainSchema(t)) {
			if part[0] != end || part[1] <= part[0] || part[1] > 1 ||
				cmpFloat(part[1]-part[0], s.Data[i].Share) > 2e-9 {
				t.Fatalf("part %d is %v after %v, share %v", i, part, end, s.Data[i].Share)
			}
			end = part[1]
		}
	})
}

func plainSchema(t interface {
	Helper()
	Fatal(...any)
}) *partition.Schema {
	t.Helper()
	schema, err := partition.ParseSchema([]byte("name: x\ncolumns: [{name: a, kind: binary}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// A site column tells to which site a record belongs: sites read the whole file.
func TestASiteColumnNeedsNoShares(t *testing.T) {
	schema := "name: x\ncolumns: [{name: a, kind: binary}, {name: s, kind: categorical, categories: [north, south], " +
		"role: site}]\n"
	dir := write(t, map[string]string{"schema.yaml": schema,
		"run.yaml": "name: r\nschema: schema.yaml\nprivacy: {epsilon: 1, delta: 1e-5}\ndata: [{site: north, file: " +
			"x.csv}, {site: south, file: x.csv}]\n"})
	s, err := Load(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	loaded, err := s.LoadSchema()
	testkit.Must(t, err)
	if got, want := s.Sites(loaded), [][2]float64{{0, 1}, {0, 1}}; !cmp.Equal(want, got) {
		t.Errorf("parts %v, want %v", got, want)
	}
}

func cmpFloat(a, b float64) float64 { return max(a-b, b-a) }

func FuzzLoad(f *testing.F) {
	f.Add(good)
	f.Add(good + "data: [{site: a, file: a, share: 0.5}]\npategan: {labels: 3}\n")
	f.Add("name: [\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "run.yaml")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		s, err := Load(path)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Errorf("loaded and not valid: %v", err)
		}
		for _, part := range s.Sites(plainSchema(t)) {
			if !(part[0] >= 0 && part[0] < part[1] && part[1] <= 1) {
				t.Errorf("part %v of a file", part)
			}
		}
	})
}
