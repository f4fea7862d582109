package student

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const good = `aggregator: agg.example:7443
dataset: data
run: run.yaml
tls: {ca: ca.crt, cert: /etc/s.crt, key: s.key, revoked: revoked.crl}
`

func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "student.yaml")
	write(t, path, good)
	t.Setenv("CONCLAVE_PATIENCE", "5s")
	got, err := LoadConfig(path)
	testkit.Must(t, err)
	want := DefaultConfig()
	want.Aggregator, want.Dataset, want.Run, want.Out = "agg.example:7443", "data", filepath.Join(dir, "run.yaml"),
		filepath.Join(dir, "out")
	want.TLS = certs.Files{CA: filepath.Join(dir, "ca.crt"), Cert: "/etc/s.crt", Key: filepath.Join(dir, "s.key"),
		Revoked: filepath.Join(dir, "revoked.crl")}
	want.Patience = 5 * time.Second
	testkit.Same(t, "", want, got)
}

func TestConfigsThatCannotWork(t *testing.T) {
	for field, text := range map[string]string{
		"aggregator:":                     strings.Replace(good, "aggregator: agg.example:7443", "", 1),
		"dataset:":                        strings.Replace(good, "dataset: data", "", 1),
		"run:":                            strings.Replace(good, "run: run.yaml", "", 1),
		"tls:":                            strings.Replace(good, ", key: s.key", "", 1),
		"run: a worker":                   good + "queue: true\n",
		"worker: ":                        strings.Replace(good, "run: run.yaml", "queue: true\nworker: a/b", 1),
		"workers: 0 ":                     strings.Replace(good, "run: run.yaml", "queue: true\nworkers: 0", 1),
		"workers: 65 ":                    strings.Replace(good, "run: run.yaml", "queue: true\nworkers: 65", 1),
		"worker, workers, keep_results: ": good + "workers: 2\n",
		"keep_results: 1m0s":              strings.Replace(good, "run: run.yaml", "queue: true\nkeep_results: 1m", 1),
		"retry:":                          good + "retry: 0s\n",
		"patience:":                       good + "patience: -1s\n",
		"log.level:":                      good + "log: {level: loud}\n",
		"out:":                            good + "out: \"\"\n",
		`"agregator"`:                     good + "agregator: x\n",
		"traces:":                         good + "traces: {endpoint: collector}\n",
	} {
		path := filepath.Join(t.TempDir(), "student.yaml")
		write(t, path, text)
		_, err := LoadConfig(path)
		if err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v; want one that names %s and %s", err, path, field)
		}
	}
}

// A worker has a default name. A connection needs neither a run nor a queue.
func TestWorkersAndConnections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "student.yaml")
	write(t, path, strings.Replace(good, "run: run.yaml", "queue: true", 1))
	got, err := LoadConfig(path)
	testkit.Must(t, err)
	if got.KeepResults != 720*time.Hour {
		t.Errorf("a worker keeps results for %v", got.KeepResults)
	}
	write(t, path, strings.Replace(good, "run: run.yaml", "queue: true\nkeep_results: 0s", 1))
	if always, err := LoadConfig(path); err != nil || always.KeepResults != 0 {
		t.Errorf("with 0s a worker keeps results for %v, %v", always.KeepResults, err)
	}
	if !got.Queue || got.Workers != 1 || !workerName.MatchString(got.Worker) {
		t.Errorf("a worker is %+v", got)
	}
	write(t, path, strings.Replace(good, "run: run.yaml", "", 1))
	if _, err := LoadConnection(path); err != nil {
		t.Errorf("for a connection: %v", err)
	}
	write(t, path, strings.Replace(good, "dataset: data", "", 1))
	if _, err := LoadConnection(path); err == nil || !strings.Contains(err.Error(), "dataset:") {
		t.Errorf("without a dataset: %v", err)
	}
}
