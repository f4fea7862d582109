package aggregator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const goodYAML = `
name: agg-1
listen: 127.0.0.1:7443
datasets:
  - name: flchain
    schema: data/schema.yaml
    budget: {epsilon: 10, delta: 1e-5}
  - name: adult
    schema_sha256: ` + roundtest.Schema + `
    unit: patient
    budget: {epsilon: 3, delta: 1e-6}
tls: {ca: certs/ca.crt, cert: certs/agg.crt, key: /abs/agg.key, revoked: certs/revoked.crl}
etcd: {embedded: true, dir: state, lease_ttl: 5s}
http: {listen: "127.0.0.1:9090"}
audit_log: audit.jsonl
drain: 3s
worker_grace: 7s
log: {level: debug}
`

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "aggregator.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLoadConfig(t *testing.T) {
	t.Setenv("CONCLAVE_LISTEN", "127.0.0.1:0")
	path := writeConfig(t, goodYAML)
	dir := filepath.Dir(path)
	got, err := LoadConfig(path)
	testkit.Must(t, err)
	want := Config{
		Name: "agg-1", Listen: "127.0.0.1:0",
		Datasets: []DatasetConfig{
			{Name: "flchain", Schema: filepath.Join(dir, "data/schema.yaml"), Unit: "record",
				Overlap: 1, Budget: privacy.Budget{Epsilon: 10, Delta: 1e-5}},
			{Name: "adult", SchemaSHA256: roundtest.Schema, Unit: "patient",
				Overlap: 1, Budget: privacy.Budget{Epsilon: 3, Delta: 1e-6}},
		},
		TLS: certs.Files{CA: filepath.Join(dir, "certs/ca.crt"), Cert: filepath.Join(dir, "certs/agg.crt"),
			Key: "/abs/agg.key", Revoked: filepath.Join(dir, "certs/revoked.crl")},
		Etcd: EtcdConfig{Embedded: true, Dir: filepath.Join(dir, "state"), LeaseTTL: 5 * time.Second},
		HTTP: monitor.Config{Listen: "127.0.0.1:9090"}, AuditLog: filepath.Join(dir, "audit.jsonl"),
		Drain: 3 * time.Second, WorkerGrace: 7 * time.Second, QuorumPatience: 5 * time.Minute,
		MaxConnections: 8192, MaxOpenRuns: 64, MaxRuns: 1000, MaxPlanEntries: 2000,
		MaxQuestions: 1e6, LeastDeadline: time.Second,
		Fetch: FetchConfig{MaxBytes: 1 << 30, MaxAtOnce: 16, Patience: time.Minute},
		Log:   logging.Config{Level: "debug", Format: "auto"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadConfigRefuses(t *testing.T) {
	replace := func(old, new string) string {
		if !strings.Contains(goodYAML, old) {
			t.Fatalf("%q is not in the config", old)
		}
		return strings.Replace(goodYAML, old, new, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "datasets"},
		"unknown field":  {replace("listen:", "lsten:"), "lsten"},
		"unknown budget": {replace("{epsilon: 10,", "{epsilon: 10, sigma: 1,"), "sigma"},
		"bad name":       {replace("name: agg-1", "name: a/b"), "a/b"},
		"bad address":    {replace("127.0.0.1:7443", "localhost"), "listen"},
		"advertise no port": {replace("listen: 127.0.0.1:7443", "listen: 127.0.0.1:7443\nadvertise: host:0"),
			"advertise"},
		"no datasets":    {"name: a\ntls: {ca: a, cert: b, key: c}\netcd: {endpoints: [http://a]}\n", "datasets"},
		"dataset twice":  {replace("name: adult", "name: flchain"), "twice"},
		"no node's name": {replace("name: adult", "name: Adult"), "with a letter or digit at both ends"},
		"no value":       {replace("drain: 3s", "drain:"), "drain: has no value"},
		"two schemas": {replace("schema: data/schema.yaml", "schema: a\n    schema_sha256: "+roundtest.Schema),
			"either schema"},
		"no schema":        {replace("schema: data/schema.yaml", "unit: record"), "either schema"},
		"bad hash":         {replace(roundtest.Schema, "abc"), "64 lower-case"},
		"upper-case hash":  {replace(roundtest.Schema, strings.ToUpper(roundtest.Schema)), "64 lower-case"},
		"epsilon 0":        {replace("epsilon: 10", "epsilon: 0"), "epsilon"},
		"delta 1":          {replace("delta: 1e-6", "delta: 1"), "delta"},
		"unknown filter":   {replace("delta: 1e-6}", "delta: 1e-6, filter: best}"), "filter"},
		"no tls":           {replace("ca: certs/ca.crt, ", ""), "tls"},
		"no etcd":          {replace("etcd: {embedded: true, dir: state, lease_ttl: 5s}", ""), "etcd"},
		"etcd without dir": {replace("dir: state, ", ""), "dir"},
		"both etcds": {replace("dir: state", "dir: state, endpoints: [http://a]"),
			"either embedded or endpoints"},
		"plain etcd elsewhere": {replace("embedded: true, dir: state",
			`endpoints: ["http://localhost:2379", "http://10.0.0.1:2379"]`), "http://10.0.0.1:2379 is plain TCP"},
		"etcd by name":      {replace("embedded: true, dir: state", `endpoints: ["etcd:2379"]`), "insecure: true"},
		"half an etcd pair": {replace("embedded: true, dir: state", "endpoints: [https://a], cert: a"), "cert and key"},
		"short lease":       {replace("5s", "5ms"), "lease_ttl"},
		"bad http address":  {replace("127.0.0.1:9090", "9090"), "http: listen"},
		"unknown in http":   {replace("{listen: \"127.0.0.1:9090\"}", "{port: 9090}"), "port"},
		"bad traces": {replace("drain: 3s", "drain: 3s\ntraces: {endpoint: a:1, insecure: true, ca: ca.crt}"),
			"traces: set either"},
		"bad drain":  {replace("drain: 3s", "drain: -1s"), "drain: -1s"},
		"long drain": {replace("drain: 3s", "drain: 1h"), "is not between 0s and 10m0s"},
		"short grace": {replace("worker_grace: 7s", "worker_grace: 10ms"),
			"worker_grace: 10ms is not between 1s and 10m0s"},
		"no patience": {replace("worker_grace: 7s", "quorum_patience: 0s"),
			"quorum_patience: 0s is not between 1s and 24h"},
		"no entries": {replace("worker_grace: 7s", "max_plan_entries: 0"), "max_plan_entries: 0 is below 1"},
		"no connection": {replace("drain: 3s", "drain: 3s\nmax_connections: 0"),
			"max_connections: 0 is below 1"},
		"bad level":  {replace("debug", "loud"), "loud"},
		"bad format": {replace("level: debug", "format: xml"), "xml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadConfig(writeConfig(t, c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := LoadConfig(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a missing file was read")
	}
}

// All problems of a dataset are named at once.
func TestProblemsOfADatasetComeTogether(t *testing.T) {
	bad := DatasetConfig{Name: "flchain", Schema: "a", SchemaSHA256: "b", Overlap: -1, Students: []string{"a/b"}}
	text := errors.Join(bad.validate("datasets[3]")...).Error()
	for _, want := range []string{"either schema", "64 lower-case", "unit is empty", "students, workers", "budget: "} {
		if !strings.Contains(text, `datasets[3]: dataset "flchain": `) || !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestWhatIsAdvertised(t *testing.T) {
	for _, c := range []struct{ listen, advertise, want string }{
		{":7443", "", ""}, {"0.0.0.0:7443", "", ""}, {"[::]:7443", "", ""}, {"127.0.0.1:0", "", ""},
		{"10.0.0.7:7443", "", "10.0.0.7:7443"}, {"agg.example:7443", "", "agg.example:7443"},
		{":7443", "agg-0.agg:7443", "agg-0.agg:7443"},
	} {
		config := DefaultConfig()
		config.Listen, config.Advertise = c.listen, c.advertise
		if got := config.advertised(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
