package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func job(t *testing.T) *Job {
	t.Helper()
	s, err := load(t, good)
	testkit.Must(t, err)
	j, err := Prepare(s)
	testkit.Must(t, err)
	return j
}

// A folder that cannot take the results is refused before the run is opened:
// there is no client here to open it with.
func TestOutputsAreCheckedBeforeTheRunIsOpen(t *testing.T) {
	j := job(t)
	file := filepath.Join(write(t, map[string]string{"file": ""}), "file")
	for _, out := range []string{file, filepath.Join(file, "out"), "/proc/x"} {
		if _, err := j.Execute(t.Context(), Options{Out: out}); err == nil ||
			!strings.Contains(err.Error(), "output folder") {
			t.Errorf("%s: error %v", out, err)
		}
	}
	for _, name := range []string{
		"synthetic.csv", "ledger.jsonl", "certificate.json", "report.html", "report.html.part", "report.md",
		"report.json",
		"model/model.json", "model/generator.safetensors", "state/student.safetensors",
	} {
		out := t.TempDir()
		for _, dir := range []string{filepath.Join(out, name), results.StateDir(out)} {
			testkit.Must(t, os.MkdirAll(dir, 0o755))
		}
		if _, err := j.Execute(t.Context(), Options{Out: out}); err == nil ||
			!strings.Contains(err.Error(), filepath.Join(out, name)+" is a folder") {
			t.Errorf("%s is a folder: error %v", name, err)
		}
	}
	out := write(t, map[string]string{"model": ""})
	testkit.Must(t, os.Mkdir(results.StateDir(out), 0o755))
	if _, err := j.Execute(t.Context(), Options{Out: out}); err == nil ||
		!strings.Contains(err.Error(), "model is a file") {
		t.Errorf("model is a file: error %v", err)
	}
}

// Foreign results are not overwritten.
func TestForeignResultsStay(t *testing.T) {
	j := job(t)
	for _, name := range []string{"synthetic.csv", "ledger.jsonl", "certificate.json", "report.html", "report.md",
		"report.json", "model"} {
		out := write(t, map[string]string{name: "mine"})
		if _, err := j.Execute(t.Context(), Options{Out: out}); err == nil ||
			!strings.Contains(err.Error(), name+" exists and does not belong to a run") {
			t.Errorf("%s: error %v", name, err)
		}
		if entries, err := os.ReadDir(out); err != nil || len(entries) != 1 {
			t.Errorf("%s: the folder holds %v (%v)", name, entries, err)
		}
	}
}

// Making the folder creates only folders, and keeps existing files.
func TestMakingTheOutputLeavesWhatIsThere(t *testing.T) {
	out := write(t, map[string]string{"synthetic.csv": "old", "notes.txt": "mine"})
	testkit.Must(t, os.Mkdir(results.StateDir(out), 0o755))
	for range 2 {
		testkit.Must(t, results.MakeOutput(out, nil, "csv"))
	}
	entries, err := os.ReadDir(out)
	testkit.Must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "notes.txt state synthetic.csv" {
		t.Errorf("the folder holds %s", got)
	}
	if raw, err := os.ReadFile(filepath.Join(out, "synthetic.csv")); err != nil || string(raw) != "old" {
		t.Errorf("synthetic.csv holds %q (%v)", raw, err)
	}
}

// A stopped student says that it was stopped and how to continue.
func TestAStoppedRunSaysHowItGoesOn(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{authority.Create(dir), authority.Issue(dir, certs.RoleStudent, "s", nil, time.Hour)} {
		testkit.Must(t, err)
	}
	c := student.DefaultConfig()
	c.Aggregator, c.Dataset, c.Run = "127.0.0.1:1", "d", "run.yaml"
	c.TLS = certs.IssuedFiles(dir, certs.RoleStudent, "s")
	client, err := student.Dial(c, zap.NewNop())
	testkit.Must(t, err)
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = job(t).Execute(ctx, Options{Client: client, Out: t.TempDir()})
	if !errors.Is(err, ErrStopped) || !errors.Is(err, context.Canceled) ||
		!strings.HasPrefix(err.Error(), "stopped; start it again") {
		t.Errorf("error %v", err)
	}
}
