package tabular

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	writer "github.com/parquet-go/parquet-go"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// folderOf writes files, whose names may have folders in them.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// visitsInParts are rows of people, some of them equal, as one file and in parts of three rows as Spark names them.
func visitsInParts(t *testing.T) (s *partition.Schema, file, folder string) {
	t.Helper()
	s = partitiontest.Schema(t, `
columns:
  - {name: clinic, kind: categorical, categories: [north, south], role: site}
  - {name: age, kind: integer, lower: 0, upper: 120}
`)
	const header = "clinic,age\n"
	whole, parts := header, map[string]string{"_SUCCESS": "", ".part-1.csv.crc": "x", "part-1.csv.manifest.json": "{}",
		"part-1.csv.crc": "x",
		"_committed_1":   "{}"}
	for part := range 12 {
		text := ""
		for i := range 3 {
			text += fmt.Sprintf("%s,%d\n", []string{"north", "south"}[(part+i)%2], (part*7+i)%9)
		}
		whole += text
		parts[fmt.Sprintf("part-%d.csv", part)] = header + text
	}
	parts["part-13.csv"] = header // as Spark writes a part without a row
	folder = folderOf(t, parts)
	file = filepath.Join(folderOf(t, map[string]string{"whole.csv": whole}), "whole.csv")
	return s, file, folder
}

func TestPartsAreOneTable(t *testing.T) {
	s, file, folder := visitsInParts(t)
	for _, o := range []Options{{}, {Site: "south"}, {From: 0, To: 0.3}, {From: 0.3, To: 1}, {Site: "north", To: 0.5}} {
		want, err := Read(s, file, o)
		testkit.Must(t, err)
		for _, path := range []string{folder, folder + "/", filepath.Join(folder, "part-*.csv")} {
			got, err := Read(s, path, o)
			testkit.Must(t, err)
			partitiontest.SameTables(t, want, got)
		}
	}
}

func TestPartsHaveANaturalOrder(t *testing.T) {
	folder := folderOf(t, map[string]string{"p10.csv": "", "p2.csv": "", "p02.csv": "", "p1.csv": "", "P3.csv": "",
		"p2-b.csv": "", "p": ""})
	files, err := Files(folder)
	testkit.Must(t, err)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	testkit.Same(t, "order", []string{"P3.csv", "p", "p1.csv", "p2-b.csv", "p02.csv", "p2.csv", "p10.csv"}, files)
}

func TestPartsInParquet(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: x, kind: integer, lower: 0, upper: 9}]")
	part := func(rows ...string) string {
		var table [][]string
		for _, cell := range rows {
			table = append(table, []string{cell})
		}
		return string(writeParquet(t, map[string]parquetColumn{"x": asInt64}, []string{"x"}, table,
			writer.Compression(&writer.Snappy)))
	}
	folder := folderOf(t, map[string]string{"data_0.parquet": part("1", "2"), "data_1.parquet": part(),
		"data_10.parquet": part("4"), "data_2.parquet": part("3")})
	got, err := Read(s, folder, Options{})
	testkit.Must(t, err)
	want, err := DecodeCSV(s, strings.NewReader("x\n1\n2\n3\n4\n"), "", Options{})
	testkit.Must(t, err)
	partitiontest.SameTables(t, want, got)
}

func TestPartsOfWeightedRows(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: x, kind: integer, lower: 0, upper: 9}]")
	folder := folderOf(t, map[string]string{"1.csv": "x,weight\n1,0.5\n", "2.csv": "x,weight\n2,1.5\n"})
	got, err := Read(s, folder, Options{Weights: true})
	testkit.Must(t, err)
	testkit.Same(t, "weights", []float64{0.5, 1.5}, got.Weights())
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "3.csv"), []byte("x\n3\n"), 0o600))
	wantProblem(t, s, folder, Options{Weights: true}, "3.csv", "some parts have this column")
}

// wantProblem reads and wants an error that names a file.
func wantProblem(t *testing.T, s *partition.Schema, path string, o Options, file, problem string) {
	t.Helper()
	_, err := Read(s, path, o)
	var bad *partition.InputError
	if !errors.As(err, &bad) {
		t.Errorf("%s: %v is no InputError", path, err)
		return
	}
	if !strings.HasSuffix(bad.File, file) || !strings.Contains(bad.Problem, problem) || bad.Fix == "" {
		t.Errorf("%s: %v, want %q of %s", path, err, problem, file)
	}
}

func TestPartsThatCannotBeRead(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: x, kind: integer, lower: 0, upper: 9}]")
	columnar := string(writeParquet(t, map[string]parquetColumn{"x": asInt64}, []string{"x"}, [][]string{{"1"}}))
	for name, c := range map[string]struct {
		files               map[string]string
		path, file, problem string
	}{
		"nothing":         {map[string]string{"_SUCCESS": ""}, "", "", "there is no file of rows"},
		"no match":        {map[string]string{"a.csv": "x\n1\n"}, "*.parquet", "*.parquet", "there is no file of rows"},
		"no pattern":      {map[string]string{"a.csv": "x\n1\n"}, "[a", "[a", "not a pattern"},
		"no row":          {map[string]string{"a.csv": "x\n", "b.csv": "x\n"}, "", "", "there is no row in any part"},
		"Hive":            {map[string]string{"year=2024/a.csv": "x\n1\n"}, "", "year=2024", "holds a column"},
		"Hive by pattern": {map[string]string{"year=2024/a.csv": "x\n1\n"}, "*/*.csv", "year=2024", "holds a column"},
		"a folder":        {map[string]string{"a.csv": "x\n1\n", "old/a.csv": "x\n1\n"}, "", "old", "a folder among"},
		"unfinished":      {map[string]string{"a.csv": "x\n1\n", "_temporary/0": ""}, "", "", "has not finished"},
		"Delta":           {map[string]string{"a.parquet": columnar, "_delta_log/0": ""}, "", "", "a Delta table"},
		"two kinds": {map[string]string{"a.csv": "x\n1\n", "b": columnar}, "", "b",
			"the parts of the table are CSV and Parquet"},
		"an empty file":  {map[string]string{"a.csv": "x\n1\n", "b.csv": ""}, "", "b.csv", "the file is empty"},
		"another header": {map[string]string{"a.csv": "x\n1\n", "b.csv": "x,y\n1,2\n"}, "", "b.csv", "not in the"},
		"a bad row":      {map[string]string{"a.csv": "x\n1\n", "b.csv": "x\n1\n77\n"}, "", "b.csv", "outside the"},
	} {
		folder := folderOf(t, c.files)
		want := c.file
		if want == "" {
			want = filepath.Base(folder)
		}
		t.Run(name, func(t *testing.T) { wantProblem(t, s, filepath.Join(folder, c.path), Options{}, want, c.problem) })
	}
	folder := folderOf(t, map[string]string{"a.csv": "x\n1\n"})
	testkit.Must(t, os.Symlink("a.csv", filepath.Join(folder, "b.csv")))
	wantProblem(t, s, folder, Options{}, "b.csv", "the same file under another name")
	testkit.Must(t, os.Remove(filepath.Join(folder, "b.csv")))
	testkit.Must(t, os.Link(filepath.Join(folder, "a.csv"), filepath.Join(folder, "b.csv")))
	wantProblem(t, s, folder, Options{}, "b.csv", "the same file under another name")
}

func TestABracketInANameIsNoPattern(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: x, kind: integer, lower: 0, upper: 9}]")
	folder := folderOf(t, map[string]string{"a[1].csv": "x\n1\n"})
	got, err := Read(s, filepath.Join(folder, "a[1].csv"), Options{})
	testkit.Must(t, err)
	testkit.Same(t, "rows", 1, got.Len())
}
