package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/cli/programs/conclave"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

var (
	block  = regexp.MustCompile("(?ms)^```(sh|yaml|text)\n(.*?)^```$")
	word   = regexp.MustCompile(`"[^"]*"|\S+`)
	column = regexp.MustCompile(`\{name: [^,]+,`)
)

// The test follows the tutorial for data scientists: it runs the commands, makes the edit, and compares the output
// with the text.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole run, slow with a race detector, and nothing concurrent in it")
	}
	dir, example := t.TempDir(), os.DirFS(filepath.Join("..", "..", "examples", "hospital"))
	testkit.Must(t, os.CopyFS(dir, example))
	where := clitest.At{Folder: dir, State: filepath.Join(t.TempDir(), "state")}
	at := func(name string) string { return filepath.Join(dir, name) }
	if got := testkit.Read(t, at("hospital.csv")); string(got) != string(partitiontest.Hospital(1000)) {
		t.Error("hospital.csv is not what partitiontest.Hospital makes")
	}
	commands, edits, printed := 0, 0, ""
	text := string(testkit.Read(t, filepath.Join("..", "..", "docs", "tutorial-data-scientist.md")))
	for _, b := range block.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(b[2]) {
			line = strings.TrimSuffix(line, "\n")
			switch b[1] {
			case "sh":
				commands++
				code, stdout, stderr := clitest.Call(conclave.Command(), where, arguments(line)...)
				if code != 0 {
					t.Fatalf("%s ended with %d:\n%s", line, code, stderr)
				}
				printed = stdout
			case "text":
				if !strings.Contains("\n"+printed, "\n"+line+"\n") {
					t.Errorf("%q is not printed, but\n%s", line, printed)
				}
			case "yaml":
				edits++
				schema := string(testkit.Read(t, at("schema.yaml")))
				start := strings.Index(schema, column.FindString(line))
				if start < 0 {
					t.Fatalf("the schema has no line for %s", line)
				}
				start = strings.LastIndexByte(schema[:start], '\n') + 1
				end := start + strings.IndexByte(schema[start:], '\n')
				testkit.Must(t, os.WriteFile(at("schema.yaml"), []byte(schema[:start]+line+schema[end:]), 0o600))
			}
		}
	}
	if commands > 5 || edits == 0 {
		t.Errorf("%d commands and %d lines to edit", commands, edits)
	}
	schema, err := partition.LoadSchema(at("schema.yaml"))
	testkit.Must(t, err)
	read := func(name string, rows int) *partition.Table {
		table, err := tabular.Read(schema, at(name), tabular.Options{IgnoreUnit: true})
		testkit.Must(t, err)
		if table.Len() != rows {
			t.Errorf("%s has %d rows, want %d", name, table.Len(), rows)
		}
		return table
	}
	read("result/synthetic.csv", 1000)
	women := read("women.parquet", 200)
	for row := range women.Len() {
		if age := women.Cells(row)[schema.ColumnIndex("alter")]; age < 65 {
			t.Errorf("row %d: age %v", row+1, age)
		}
	}
}
