package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// result is the object that a student prints, with the fields in docs/formats.md.
type result struct {
	Name         string  `json:"name"`
	Pipeline     string  `json:"pipeline"`
	Epsilon      float64 `json:"epsilon"`
	Delta        float64 `json:"delta"`
	Guarantee    string  `json:"guarantee"`
	EpsilonSpent float64 `json:"epsilon_spent"`
	Rounds       int     `json:"rounds"`
	Queries      int64   `json:"queries"`
	Answered     int64   `json:"answered"`
	Teachers     int     `json:"teachers"`
	// TeachersLeast is set if a round had fewer.
	TeachersLeast int               `json:"teachers_least"`
	Rows          int               `json:"rows"`
	Outputs       map[string]string `json:"outputs"`
}

// finish waits for a student to succeed and checks its results: the printed object, the files, and the ledger with
// exactly one release for each round of j.
func finish(t *testing.T, student *process, out string, j job) result {
	t.Helper()
	if code := student.wait(); code != 0 {
		t.Fatalf("the student ended with exit code %d", code)
	}
	r := parseResult(t, student.Stdout.Bytes())
	rounds := j.rounds + 1 // round 0 asks for the class shares
	want := result{
		Name: j.name, Pipeline: "pategan", Epsilon: 10, Delta: 1e-5, Guarantee: "data-independent",
		EpsilonSpent: r.EpsilonSpent, Rounds: rounds, Queries: int64(16*j.rounds + 1), Answered: int64(16*j.rounds + 1),
		Teachers: allTeachers, TeachersLeast: r.TeachersLeast, Rows: 200,
		Outputs: map[string]string{
			"synthetic": filepath.Join(out, "synthetic.csv"), "model": filepath.Join(out, "model"),
			"ledger": filepath.Join(out, "ledger.jsonl"), "certificate": filepath.Join(out, "certificate.json"),
			"report": filepath.Join(out, "report.html"), "report_md": filepath.Join(out, "report.md"),
			"report_json": filepath.Join(out, "report.json"),
			"manifest":    filepath.Join(out, "manifest.json"), "signatures": filepath.Join(out, "signatures.json"),
			"shared": filepath.Join(out, "shared"),
		},
	}
	testkit.Same(t, "the student's result", want, r)
	if r.EpsilonSpent <= 9 || r.EpsilonSpent > 10 {
		t.Errorf("the student says it spent epsilon %v", r.EpsilonSpent)
	}
	checkFiles(t, out, r)
	checkLedger(t, filepath.Join(out, "ledger.jsonl"), j.name, rounds)
	if stdout, stderr, code := called("conclave", "ledger", "verify",
		"--ledger", r.Outputs["ledger"], "--certificate", r.Outputs["certificate"]); code != 0 {
		t.Errorf("ledger verify: exit code %d\n%s%s", code, stdout, stderr)
	}
	return r
}

func parseResult(t *testing.T, stdout []byte) result {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(stdout), []byte("\n"))
	last := lines[len(lines)-1]
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(last, &fields); err != nil {
		t.Fatalf("the last line on stdout is no JSON object: %v\n%s", err, stdout)
	}
	delete(fields, "utility_not_private") // only with real test rows
	delete(fields, "teachers_least")      // only if a node was away
	want := []string{
		"answered", "delta", "epsilon", "epsilon_spent", "guarantee", "name", "outputs", "pipeline", "queries",
		"rounds", "rows", "teachers",
	}
	testkit.Same(t, "the result's fields", want, slices.Sorted(maps.Keys(fields)))
	var r result
	testkit.Must(t, json.Unmarshal(last, &r))
	return r
}

func checkFiles(t *testing.T, out string, r result) {
	t.Helper()
	schema, err := partition.LoadSchema(built.schema)
	testkit.Must(t, err)
	// Reading checks bounds, categories and the order of the columns.
	table, err := tabular.ReadCSV(schema, filepath.Join(out, "synthetic.csv"), tabular.Options{})
	if err != nil {
		t.Errorf("the synthetic table: %v", err)
	} else if table.Len() != r.Rows {
		t.Errorf("%d synthetic rows, want %d", table.Len(), r.Rows)
	}
	for path, want := range map[string]os.FileMode{"report.html": 0o600, "report.md": 0o600, "report.json": 0o600,
		"shared/report.html": 0o644, "synthetic.csv": 0o644, "certificate.json": 0o644} {
		info, err := os.Stat(filepath.Join(out, path))
		testkit.Must(t, err)
		if mode := info.Mode().Perm(); mode&^want != 0 {
			t.Errorf("%s has mode %o, want at most %o", path, mode, want)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || !bytes.Contains(page, []byte(r.Name)) {
		t.Errorf("the report does not name the run (%v)", err)
	}
	raw := testkit.Read(t, filepath.Join(out, "certificate.json"))
	var c map[string]any
	testkit.Must(t, json.Unmarshal(raw, &c))
	for _, field := range []string{
		"run", "schema_sha256", "pipeline", "epsilon", "delta", "epsilon_spent", "guarantee", "neighbouring", "unit",
		"accountant", "mechanisms", "ledger_head", "rows", "created", "software",
	} {
		if v, ok := c[field]; !ok || v == "" || v == nil {
			t.Errorf("certificate.json has no %s", field)
		}
	}
	if c["run"] != r.Name || c["epsilon_spent"] != r.EpsilonSpent || c["unit"] != "record" ||
		c["rows"] != float64(r.Rows) {
		t.Errorf("certificate.json is not of this run: %v", c)
	}
}

// checkLedger checks that a ledger has the opening of the dataset and of one run, its roster, each round once and in
// order, and the run's end.
func checkLedger(t *testing.T, path, run string, rounds int) {
	t.Helper()
	raw := testkit.Read(t, path)
	var got []string
	for _, e := range parseLedger(t, raw) {
		entry := e.Type
		if e.Run != "" {
			entry += " " + e.Run
		}
		if e.Round != nil {
			entry += " " + e.Kind
			if want := uint64(len(got) - 3); *e.Round != want {
				t.Errorf("ledger entry %d is of round %d, want %d", e.Seq, *e.Round, want)
			}
		}
		got = append(got, entry)
	}
	want := []string{"open", "run " + run, "roster " + run, "release " + run + " class-counts"}
	for range rounds - 1 {
		want = append(want, "release "+run+" votes")
	}
	want = append(want, "close "+run)
	testkit.Same(t, "the ledger's entries", want, got)
}

func parseLedger(t *testing.T, raw []byte) []ledger.Entry {
	t.Helper()
	if _, err := ledger.Verify(bytes.NewReader(raw)); err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		t.Fatalf("the ledger does not verify: %v", err)
	}
	var entries []ledger.Entry
	for line := range strings.Lines(string(raw)) {
		var e ledger.Entry
		testkit.Must(t, json.Unmarshal([]byte(line), &e))
		entries = append(entries, e)
	}
	return entries
}

// repeat lets a second student with only the run.yaml repeat the whole finished run. No node is needed, because none
// is asked.
func (c *cluster) repeat(runFile, out string, j job) {
	c.t.Helper()
	c.paced = "" // nothing happens in the middle of this run
	again := c.out(j.name + "-again")
	finish(c.t, c.startStudent(c.studentFile(runFile, again)), again, j)
	sameAnswers(c.t, out, again)
}

// sameAnswers compares the results of two students with one run.yaml. Training is deterministic, so they ask the same
// questions; a single different answer would give another model, table and checkpoint, which contains every answer.
func sameAnswers(t *testing.T, out, other string) {
	t.Helper()
	for _, file := range []string{"synthetic.csv", "ledger.jsonl", "state/student.safetensors"} {
		first := testkit.Read(t, filepath.Join(out, file))
		second := testkit.Read(t, filepath.Join(other, file))
		if !bytes.Equal(first, second) {
			t.Errorf("%s of two students of one run differ in %s and %s", file, out, other)
		}
	}
}
