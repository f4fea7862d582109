package node

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/postgres"
)

func TestValidateNamesTheFieldAndTheFix(t *testing.T) {
	testkit.Must(t, smallConfig(t, 4).Validate())
	for want, spoil := range map[string]func(*Config){
		"aggregator: missing":  func(c *Config) { c.Aggregator = "" },
		"aggregator: \"host\"": func(c *Config) { c.Aggregator = "host" },
		"aggregator: \"b\" is": func(c *Config) { c.Aggregator = "a:1, b" },
		"listed twice":         func(c *Config) { c.Aggregator = "a:1,a:1" },
		"dataset: \"\"":        func(c *Config) { c.Dataset = "" },
		"site: \"North\"":      func(c *Config) { c.Site = "North" },
		"node: \"a/b\"":        func(c *Config) { c.Node = "a/b" },
		"schema: missing":      func(c *Config) { c.Schema = "" },
		"data: missing; give the path of the site's CSV, Parquet, .xlsx or idx file": func(c *Config) {
			c.Data = ""
		},
		"data: sql is set too":  func(c *Config) { c.SQL.Query = "table visits" },
		"sql.dsn_file: missing": func(c *Config) { c.Data, c.SQL.Query = "", "table visits" },
		"sql.query: missing":    func(c *Config) { c.Data, c.SQL.DSNFile = "", "dsn" },
		"sql.timeout: 0s": func(c *Config) {
			c.Data, c.SQL = "", postgres.Config{DSNEnv: "DSN", Query: "table visits"}
		},
		"share: [0.5, 0.5]":           func(c *Config) { c.Share = [2]float64{0.5, 0.5} },
		"share: [NaN, 1]":             func(c *Config) { c.Share = [2]float64{math.NaN(), 1} },
		"unit: empty":                 func(c *Config) { c.Unit = "" },
		"teachers: 0":                 func(c *Config) { c.Teachers = 0 },
		"teachers: 65537":             func(c *Config) { c.Teachers = maxTeachers + 1 },
		"state: missing":              func(c *Config) { c.State = "" },
		"tls: ca, cert and key":       func(c *Config) { c.TLS.Key = "" },
		"max_steps: 0":                func(c *Config) { c.MaxSteps = 0 },
		"max_time: 0s":                func(c *Config) { c.MaxTime = 0 },
		"max_time: 25h0m0s":           func(c *Config) { c.MaxTime = 25 * time.Hour },
		"max_steps: 10001":            func(c *Config) { c.MaxSteps = 10001 },
		"reconnect: 0s":               func(c *Config) { c.Reconnect = 0 },
		"drain: -1s is":               func(c *Config) { c.Drain = -time.Second },
		"drain: 1h0m0s is":            func(c *Config) { c.Drain = time.Hour },
		"http: listen \"9090\"":       func(c *Config) { c.HTTP.Listen = "9090" },
		"traces: endpoint is missing": func(c *Config) { c.Traces.Insecure = true },
		"log.level: \"loud\"":         func(c *Config) { c.Log.Level = "loud" },
	} {
		c := smallConfig(t, 4)
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

func TestLoadConfigResolvesPathsAndKeepsDefaults(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "teacher.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(`aggregator: host:7443
dataset: d
site: north
schema: schema.yaml
data: /data/table.csv
tls: {ca: certs/ca.crt, cert: certs/n.crt, key: certs/n.key}
http: {listen: "127.0.0.1:9090"}
audit_log: audit.jsonl
`), 0o600))
	c, err := LoadConfig(path)
	testkit.Must(t, err)
	if c.Schema != filepath.Join(dir, "schema.yaml") || c.Data != "/data/table.csv" ||
		c.State != filepath.Join(dir, "state") || c.TLS.Key != filepath.Join(dir, "certs", "n.key") {
		t.Errorf("paths %s, %s, %s, %s", c.Schema, c.Data, c.State, c.TLS.Key)
	}
	if c.HTTP.Listen != "127.0.0.1:9090" || c.AuditLog != filepath.Join(dir, "audit.jsonl") ||
		c.Drain != 10*time.Second {
		t.Errorf("http %+v, audit log %s, drain %v", c.HTTP, c.AuditLog, c.Drain)
	}
	if d := DefaultConfig(); c.Teachers != d.Teachers || c.Reconnect != d.Reconnect || c.Node != d.Node ||
		c.Unit != d.Unit {
		t.Errorf("%+v does not keep the defaults", c)
	}
	// There is no field for the connection string, because config files are passed around.
	testkit.Must(t, os.WriteFile(path, []byte("sql: {dsn: 'postgres://u:hush@db/d', query: table visits}\n"), 0o600))
	if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), "dsn") ||
		strings.Contains(err.Error(), "hush") {
		t.Errorf("a connection string: error %v", err)
	}
	testkit.Must(t, os.WriteFile(path, []byte("aggregator: host:7443\nteecher: 3\n"), 0o600))
	if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), "teecher") {
		t.Errorf("an unknown field: error %v", err)
	}
	testkit.Must(t, os.WriteFile(path, []byte("aggregator: host:7443\n"), 0o600))
	if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "dataset") {
		t.Errorf("a missing field: error %v", err)
	}
}
