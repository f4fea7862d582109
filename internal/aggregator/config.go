package aggregator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/tracing"
)

// Config is the YAML file of an aggregator. Paths are relative to the file's folder.
type Config struct {
	// Name is the aggregator's name in etcd and logs. A process that starts under the leader's name takes over at
	// once, so that a restart is fast; a standby needs another name.
	Name string `yaml:"name"`
	// Listen is the host:port for nodes and students. `:7443` listens on every interface, `127.0.0.1:0` on a free port
	// of this machine.
	Listen string `yaml:"listen"`
	// Advertise is the host:port at which standbys reach this process. They check five times a second whether it
	// listens, and take over when it no longer does. Without it they wait until the lease ends. Default: `listen`, if
	// that names a host and a port.
	Advertise string `yaml:"advertise"`
	// Datasets lists the datasets that are served, at least one.
	Datasets []DatasetConfig `yaml:"datasets"`
	// TLS names the files of mutual TLS.
	TLS certs.Files `yaml:"tls"`
	// Etcd says where the ledger is kept.
	Etcd EtcdConfig `yaml:"etcd"`
	// HTTP says where probes and metrics are served.
	HTTP monitor.Config `yaml:"http"`
	// AuditLog is the path of a file that gets a line for every join, run, release and refusal: see
	// docs/audit-log.md. While it cannot be written, nothing new is released. Default: none.
	AuditLog string `yaml:"audit_log"`
	// Traces says where spans of rounds are sent.
	Traces tracing.Config `yaml:"traces"`
	// Drain is how long rounds in progress at nodes may continue after SIGTERM; see docs/upgrade.md#stopping. With
	// less, the next leader begins sooner and asks those rounds again. With 0 they end at once.
	Drain time.Duration `yaml:"drain"`
	// WorkerGrace is how long a run of the queue stays with a worker that is not connected; see docs/workers.md.
	// With less, another worker takes it sooner. With too little, a short pause of the network or a change of leader
	// moves it.
	WorkerGrace time.Duration `yaml:"worker_grace"`
	// QuorumPatience is how long a worker waits for a quorum with a run while other runs of the dataset could begin.
	// Then that run goes to the end of the queue. With less, the others begin sooner. With too little, runs that wait
	// for approvals move from worker to worker.
	QuorumPatience time.Duration `yaml:"quorum_patience"`
	// MaxConnections is the number of connections that one certificate may have at the same time. Each takes memory. A
	// node has one, and so has a student or worker for each run. If a site has more nodes under one certificate, the
	// others cannot connect; see docs/hostile-nodes.md.
	MaxConnections int `yaml:"max_connections"`
	// MaxOpenRuns is the number of runs that one student may have open at the same time.
	MaxOpenRuns int `yaml:"max_open_runs"`
	// MaxRuns is the number of runs that one student, by its certificate's name, may ever open on all datasets.
	// Closed and removed runs count, because the ledger keeps them. Runs of the queue count from their submission,
	// unless they were removed before they were opened. At the limit the student can submit no more.
	MaxRuns int `yaml:"max_runs"`
	// MaxPlanEntries is the number of entries in the plans of all runs that one student ever opened or submitted on
	// one dataset. A run has one to six. See docs/limits.md#why-plan-entries-are-limited.
	MaxPlanEntries int `yaml:"max_plan_entries"`
	// MaxQuestions is the number of questions that may ever be charged to all runs of one student, released or not.
	// Each is an entry of the ledger, of some 600 bytes: a larger limit needs room in etcd.
	MaxQuestions int `yaml:"max_questions"`
	// LeastDeadline is the shortest deadline that the rounds of a run may have. A student that could set a shorter
	// one could learn from releases which nodes are fast.
	LeastDeadline time.Duration `yaml:"least_deadline"`
	// Fetch bounds the transfer of finished runs to their submitters.
	Fetch FetchConfig `yaml:"fetch"`
	// Log says what is logged.
	Log logging.Config `yaml:"log"`
}

// DatasetConfig names a dataset and its budget. Schema, unit and budget with its filter are fixed when the dataset
// is first opened; the aggregator refuses another value later.
type DatasetConfig struct {
	// Name is the dataset's name, the same at nodes and students: small letters, digits, dots and hyphens. Required.
	Name string `yaml:"name"`
	// Schema is the path of the schema file. Only the hash of its bytes is used here. Default: none, with
	// `schema_sha256`.
	Schema string `yaml:"schema"`
	// SchemaSHA256 is the hash of the schema file as `sha256sum` prints it, for aggregators without the file.
	// Default: none, with `schema`.
	SchemaSHA256 string `yaml:"schema_sha256"`
	// Unit is the privacy unit: `record`, or the name of the schema's unit column. A column protects all records of
	// one person at once, and costs quality if persons have many. Default: `record`.
	Unit string `yaml:"unit"`
	// Overlap is the number of sites at which one privacy unit may be, 1 to 1000. Noise grows with it: see
	// docs/privacy-overlap.md. It never changes. Runs state the same in `privacy.overlap`.
	// Default: `1`, and the sites' units are disjoint.
	Overlap int `yaml:"overlap"`
	// Study is the path of the study.yaml that all runs must belong to, word for word by its SHA-256: see
	// docs/config-aggregator.md#a-dataset-with-a-study. Default: none.
	Study string `yaml:"study"`
	// Budget is the budget of all runs on the dataset together.
	Budget privacy.Budget `yaml:"budget"`
	// Students lists the names of the certificates that may open and submit runs on the dataset. Default: all
	// students of the authority.
	Students []string `yaml:"students"`
	// Workers lists the names of the certificates that may take runs of others from the queue, and so see what is
	// released to them. Default: those of `students`; if neither is listed, all students of the authority, and the
	// log warns.
	Workers []string `yaml:"workers"`
}

// maxDrain bounds how long a stopping leader may delay the next one.
const maxDrain = 10 * time.Minute

// DefaultConfig holds the defaults. It is not valid by itself: datasets, TLS
// files and etcd have none.
func DefaultConfig() Config {
	return Config{
		Name:   "aggregator",
		Listen: ":7443",
		Drain:  10 * time.Second,

		WorkerGrace:    30 * time.Second,
		QuorumPatience: 5 * time.Minute,
		MaxConnections: 8192, MaxOpenRuns: 64, MaxRuns: 1000, MaxPlanEntries: 2000,
		MaxQuestions: 1e6, LeastDeadline: time.Second,
		Fetch: FetchConfig{MaxBytes: 1 << 30, MaxAtOnce: 16, Patience: time.Minute},
		Log:   logging.DefaultConfig(),
	}
}

// LoadConfig reads a config file over the defaults, applies the environment
// (CONCLAVE_LISTEN, CONCLAVE_ETCD_DIR, ...; see package config) and validates.
// The errors name the field.
// overrides, such as a command's flags, win over both.
func LoadConfig(path string, overrides ...func(*Config)) (Config, error) {
	c := DefaultConfig()
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	for i := range c.Datasets {
		c.Datasets[i].Unit = cmp.Or(c.Datasets[i].Unit, "record")
		c.Datasets[i].Overlap = cmp.Or(c.Datasets[i].Overlap, 1)
		c.Datasets[i].Schema = config.Resolve(path, c.Datasets[i].Schema)
		c.Datasets[i].Study = config.Resolve(path, c.Datasets[i].Study)
	}
	for _, p := range []*string{&c.TLS.CA, &c.TLS.Cert, &c.TLS.Key, &c.TLS.Revoked, &c.Etcd.Dir, &c.Etcd.CA,
		&c.Etcd.Cert, &c.Etcd.Key, &c.AuditLog, &c.Traces.CA,
		&c.HTTP.Control.TokenFile} {
		*p = config.Resolve(path, *p)
	}
	for _, override := range overrides {
		override(&c)
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Validate checks everything that can be checked without opening a file. It
// reports all problems at once.
func (c Config) Validate() error {
	var errs config.Problems
	need := errs.Need
	_, _, err := net.SplitHostPort(c.Listen)
	need(err == nil, "listen %q: %w; write host:port, or :port for every interface", c.Listen, err)
	if c.Advertise != "" {
		if host, port, err := net.SplitHostPort(c.Advertise); err != nil || host == "" || port == "" || port == "0" {
			need(false, "advertise: %q is not an address that standbys can reach; write host:port", c.Advertise)
		}
	}
	need(len(c.Datasets) > 0, "datasets: missing; list at least one dataset with its schema and budget")
	seen := map[string]bool{}
	for i, d := range c.Datasets {
		need(!seen[d.Name], "datasets[%d]: %q is listed twice", i, d.Name)
		seen[d.Name] = true
		errs = append(errs, d.validate(fmt.Sprintf("datasets[%d]", i))...)
	}
	need(c.TLS.CA != "" && c.TLS.Cert != "" && c.TLS.Key != "",
		"tls: set ca, cert and key; `conclave certs` makes them")
	need(0 <= c.Drain && c.Drain <= maxDrain, "drain: %v is not between 0s and %v", c.Drain, maxDrain)
	need(time.Second <= c.WorkerGrace && c.WorkerGrace <= maxDrain, "worker_grace: %v is not between 1s and %v",
		c.WorkerGrace, maxDrain)
	need(time.Second <= c.QuorumPatience && c.QuorumPatience <= 24*time.Hour,
		"quorum_patience: %v is not between 1s and 24h", c.QuorumPatience)
	for _, most := range []struct {
		field string
		value int
	}{{"max_connections", c.MaxConnections}, {"max_open_runs", c.MaxOpenRuns}, {"max_runs", c.MaxRuns},
		{"max_plan_entries", c.MaxPlanEntries}, {"max_questions", c.MaxQuestions}} {
		need(most.value >= 1, "%s: %d is below 1", most.field, most.value)
	}
	need(0 <= c.LeastDeadline && c.LeastDeadline <= 24*time.Hour, "least_deadline: %v is not between 0s and 24h",
		c.LeastDeadline)
	return errors.Join(append(errs, spec.CheckName("name", c.Name), c.Etcd.validate(), c.HTTP.Validate(),
		c.Traces.Validate(), c.Fetch.validate(), c.Log.Validate())...)
}

// advertised is the address at which standbys check this process; empty if none is configured.
func (c Config) advertised() string {
	if c.Advertise != "" {
		return c.Advertise
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || port == "" || port == "0" || ip != nil &&
		ip.IsUnspecified() {
		return ""
	}
	return c.Listen
}

func (d DatasetConfig) validate(at string) config.Problems {
	var errs config.Problems
	need := func(ok bool, format string, args ...any) {
		errs.Need(ok, "%s: dataset %q: %w", at, d.Name, fmt.Errorf(format, args...))
	}
	err := config.CheckName(d.Name)
	errs.Need(err == nil, "%s: name: %w", at, err)
	need((d.Schema == "") != (d.SchemaSHA256 == ""), "set either schema (a path) or schema_sha256")
	sum, err := hex.DecodeString(d.SchemaSHA256)
	need(d.SchemaSHA256 == "" || err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == d.SchemaSHA256,
		"schema_sha256 must be 64 lower-case hex digits")
	need(d.Unit != "", "unit is empty; use record or the name of a column")
	for _, name := range slices.Concat(d.Students, d.Workers) {
		err := (certs.Identity{Role: certs.RoleStudent, Name: name}).Validate()
		need(err == nil, "students, workers: %w", err)
	}
	err = privacy.CheckOverlap(cmp.Or(d.Overlap, 1))
	need(err == nil, "%w", err)
	err = d.Budget.Validate()
	need(err == nil, "budget: %w", err)
	return errs
}

// record is the dataset's record in etcd. It reads the schema file.
func (d DatasetConfig) record() (coordinator.Dataset, error) {
	sum := d.SchemaSHA256
	if d.Schema != "" {
		raw, err := os.ReadFile(d.Schema)
		if err != nil {
			return coordinator.Dataset{}, fmt.Errorf("dataset %q: schema: %w", d.Name, err)
		}
		hash := sha256.Sum256(raw)
		sum = hex.EncodeToString(hash[:])
	}
	return coordinator.Dataset{
		Name: d.Name, Budget: d.Budget.WithOverlap(d.Overlap), SchemaSHA256: sum, Unit: d.Unit,
	}, nil
}
