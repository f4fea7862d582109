package student

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/certs"
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
	must(t, err)
	want := DefaultConfig()
	want.Aggregator, want.Dataset, want.Run, want.Out = "agg.example:7443", "data", filepath.Join(dir, "run.yaml"), filepath.Join(dir, "out")
	want.TLS = certs.Files{CA: filepath.Join(dir, "ca.crt"), Cert: "/etc/s.crt", Key: filepath.Join(dir, "s.key"), Revoked: filepath.Join(dir, "revoked.crl")}
	want.Patience = 5 * time.Second
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConfigsThatCannotWork(t *testing.T) {
	for field, text := range map[string]string{
		"aggregator:": strings.Replace(good, "aggregator: agg.example:7443", "", 1),
		"dataset:":    strings.Replace(good, "dataset: data", "", 1),
		"run:":        strings.Replace(good, "run: run.yaml", "", 1),
		"tls:":        strings.Replace(good, ", key: s.key", "", 1),
		"retry:":      good + "retry: 0s\n",
		"patience:":   good + "patience: -1s\n",
		"log:":        good + "log: {level: loud}\n",
		"out:":        good + "out: \"\"\n",
		"traces:":     good + "traces: {endpoint: collector}\n",
		`"agregator"`: good + "agregator: x\n",
	} {
		path := filepath.Join(t.TempDir(), "student.yaml")
		write(t, path, text)
		_, err := LoadConfig(path)
		if err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v; want one that names %s and %s", err, path, field)
		}
	}
}
