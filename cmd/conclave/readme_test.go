package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/cli/programs/conclave"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// known is what a person knows about patients.csv without looking at its rows.
var known = map[string]string{
	"sex": "categories: [F, M]", "ward": "categories: [A, B, ICU, S]", "score": "lower: 0, upper: 10",
}

// unknown is what `schema propose` leaves to the person: all of a line after the kind, without the comment.
var unknown = regexp.MustCompile(`(?m)^(  - \{name: (\w+), kind: \w+), .*(?:TODO|source: rows)[^}]*\}.*$`)

// The README's block about an own table is typed. After the first command the person makes the edit that the text asks
// for: they replace each TODO, and what has `source: rows`.
func TestReadmeOwnTable(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole run, slow with a race detector, and nothing concurrent in it")
	}
	_, text, _ := strings.Cut(string(testkit.Read(t, filepath.Join("..", "..", "README.md"))), "## Your own table\n")
	lines := strings.Split(block.FindStringSubmatch(text)[2], "\n")
	if lines[0] != "go build -o bin/ ./cmd/..." {
		t.Fatalf("the block begins with %q", lines[0])
	}
	dir := t.TempDir()
	at := clitest.At{Folder: dir, State: filepath.Join(t.TempDir(), "state")}
	rows := "age,sex,ward,score,died\n"
	for i := range 5000 {
		rows += fmt.Sprintf("%d,%c,%s,%d.5,%d\n", 30+i%60, "FM"[i%2], []string{"A", "B", "S"}[i%3], i%9, i%60/45)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "patients.csv"), []byte(rows), 0o600))
	schema := filepath.Join(dir, "schema.yaml")
	for i, line := range lines[1 : len(lines)-1] {
		command, _, _ := strings.Cut(line, "#")
		args, isOurs := strings.CutPrefix(command, "bin/conclave ")
		code, stdout, stderr := clitest.Call(conclave.Command(), at, strings.Fields(args)...)
		if !isOurs || code != 0 {
			t.Fatalf("%q ended with %d:\n%s%s", line, code, stdout, stderr)
		}
		if i > 0 {
			continue
		}
		proposed := string(testkit.Read(t, schema))
		code, _, stderr = clitest.Call(conclave.Command(), at,
			strings.Fields("schema check --schema schema.yaml patients.csv")...)
		if code != 1 || !strings.Contains(stderr, "TODO") {
			t.Errorf("a schema with TODO is checked with %d: %s", code, stderr)
		}
		edited := 0
		proposed = unknown.ReplaceAllStringFunc(proposed, func(line string) string {
			edited++
			m := unknown.FindStringSubmatch(line)
			return m[1] + ", " + known[m[2]] + "}"
		})
		if edited != 2 {
			t.Errorf("%d columns are left to do in\n%s", edited, proposed)
		}
		testkit.Must(t, os.WriteFile(schema, []byte(proposed), 0o600))
	}
	var certificate struct {
		Epsilon float64
		Outside []string `json:"columns_from_rows"`
	}
	testkit.Must(t, json.Unmarshal(testkit.Read(t, filepath.Join(dir, "first-try", "certificate.json")), &certificate))
	if certificate.Epsilon != 1 || certificate.Outside != nil {
		t.Errorf("the certificate is %+v", certificate)
	}
	if _, err := os.Stat(filepath.Join(dir, "patients.zip")); err != nil {
		t.Error(err)
	}
}
