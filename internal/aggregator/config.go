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

// Config is the YAML file of an aggregator. Unknown fields are errors. Paths
// are relative to the file's folder.
type Config struct {
	// Name is the aggregator's name in etcd, logs and welcomes. Default "aggregator". Standbys need names of their own:
	// a server that starts under the leader's name takes over from it at once, which is right for a restart.
	Name string `yaml:"name"`
	// Listen is the host and port for nodes and students. Default ":7443":
	// every interface. "127.0.0.1:0" takes a free port of this machine.
	Listen string `yaml:"listen"`
	// Advertise is the host and port at which standbys reach this process. They
	// look whether it listens, five times a second, and take over when it no longer
	// does, instead of when the lease ends. Default: listen, where that names a
	// host and a port; otherwise standbys wait for the lease.
	Advertise string `yaml:"advertise"`
	// Datasets lists what may be asked here, at least one.
	Datasets []DatasetConfig `yaml:"datasets"`
	// TLS names the files of the CA, the certificate and its key. All three
	// are needed: nothing is served without mutual TLS.
	TLS certs.Files `yaml:"tls"`
	// Etcd says where the ledger is kept.
	Etcd EtcdConfig `yaml:"etcd"`
	// HTTP says where probes and metrics are served, and where the log's level can be
	// changed, on ports of their own. Default: nowhere.
	HTTP monitor.Config `yaml:"http"`
	// AuditLog is the path of a file that gets a line for every join, run, release and
	// refusal. Default: none. While it cannot be written nothing new is released.
	AuditLog string `yaml:"audit_log"`
	// Traces says where spans of rounds are sent. Default: nowhere.
	Traces tracing.Config `yaml:"traces"`
	// Drain is how long rounds in progress may continue after the process is told to stop. Default 10s. With 0 they end
	// at once, and the next leader asks them again. A longer time loses less work and delays the next leader.
	Drain time.Duration `yaml:"drain"`
	// WorkerGrace is how long a run stays with a worker that is not connected. Default 30s. With less, another worker
	// takes it sooner; with too little, a short pause of the network moves it.
	WorkerGrace time.Duration `yaml:"worker_grace"`
	// QuorumPatience is how long a worker waits for a quorum with a run while other runs of its queue
	// could begin. Default 5m. Then that run goes to the end of the line, from where it goes on. Less: others
	// begin sooner, and runs that wait for approvals move more often.
	QuorumPatience time.Duration `yaml:"quorum_patience"`
	// MaxConnections is the number of connections that one certificate may have. Default 8192: a site may have as many
	// nodes in a dataset. Each may take some 250 KiB, in addition to the 128 MiB that a certificate's incomplete
	// messages may take.
	MaxConnections int `yaml:"max_connections"`
	// MaxOpenRuns is the number of open runs that one student may have. Default 64.
	MaxOpenRuns int `yaml:"max_open_runs"`
	// MaxRuns is the number of runs that one student may ever open, including closed and removed ones, because they
	// stay in the ledger. Default 1000.
	MaxRuns int `yaml:"max_runs"`
	// MaxPlanEntries is the number of plan entries in all runs that one student ever opened on one dataset. Default
	// 2000. A dataset's spending is one value in etcd, with up to 180 bytes for each different mechanism.
	MaxPlanEntries int `yaml:"max_plan_entries"`
	// MaxQuestions is the number of charged questions, released or not, in all runs of one student. Default 1000000.
	// Each is an entry of the ledger, some 600 bytes.
	MaxQuestions int `yaml:"max_questions"`
	// LeastDeadline is the shortest deadline that the rounds of a run may have. Default 1s. A student that could set a
	// shorter one could learn from releases which nodes are fast.
	LeastDeadline time.Duration `yaml:"least_deadline"`
	// Fetch bounds the transfer of finished runs to their submitters.
	Fetch FetchConfig `yaml:"fetch"`
	// Log configures logging.
	Log logging.Config `yaml:"log"`
}

// DatasetConfig names a dataset and its budget. Both are fixed when the
// dataset is first opened; another value later is refused.
type DatasetConfig struct {
	// Name is the dataset's name, the same at every node.
	Name string `yaml:"name"`
	// Schema is the path of the schema file. Its bytes are hashed and nothing
	// else of it is used here. Set it or schema_sha256.
	Schema string `yaml:"schema"`
	// SchemaSHA256 is the hash of the schema file in hex, for aggregators
	// that do not have the file.
	SchemaSHA256 string `yaml:"schema_sha256"`
	// Unit is the privacy unit: "record", or the name of the column that
	// holds it. Default "record". A column protects all records of one
	// person at once and costs quality where persons have many.
	Unit string `yaml:"unit"`
	// Overlap is at how many sites one privacy unit may be at most, 1 to 1000. Default 1: the sites' units are
	// disjoint. Noise grows with it.
	Overlap int `yaml:"overlap"`
	// Study is the path of the study.yaml that all runs must be of, until it ends. The dataset's schema, unit,
	// budget and students must fit it. Default: none.
	Study string `yaml:"study"`
	// Budget is the budget of all runs on the dataset together. It has no default: it is the promise to the people in
	// the data. Its filter, by default gdp, is rdp if runs take samples, and pld for one run with a plan.
	Budget privacy.Budget `yaml:"budget"`
	// Students lists the names of the certificates that may open and submit runs on the
	// dataset. Default: all students of the authority.
	Students []string `yaml:"students"`
	// Workers lists the names of the certificates that may take runs from its queue, which other students submitted:
	// workers see the releases of these runs. Default: those of students, or all of the authority if neither is listed.
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
		Etcd:   EtcdConfig{LeaseTTL: 10 * time.Second},
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
	need(len(c.Datasets) > 0, "datasets: name at least one dataset with its schema and budget")
	seen := map[string]bool{}
	for i, d := range c.Datasets {
		need(!seen[d.Name], "datasets[%d]: %q is listed twice", i, d.Name)
		seen[d.Name] = true
		err := d.validate()
		need(err == nil, "datasets[%d]: %w", i, err)
	}
	need(c.TLS.CA != "" && c.TLS.Cert != "" && c.TLS.Key != "",
		"tls: set ca, cert and key; `conclave certs` makes them")
	need(0 <= c.Drain && c.Drain <= maxDrain, "drain %v must be 0s to %v", c.Drain, maxDrain)
	need(time.Second <= c.WorkerGrace && c.WorkerGrace <= maxDrain, "worker_grace %v must be 1s to %v", c.WorkerGrace,
		maxDrain)
	need(time.Second <= c.QuorumPatience && c.QuorumPatience <= 24*time.Hour, "quorum_patience %v must be 1s to 24h",
		c.QuorumPatience)
	for _, most := range []struct {
		field string
		value int
	}{{"max_connections", c.MaxConnections}, {"max_open_runs", c.MaxOpenRuns}, {"max_runs", c.MaxRuns},
		{"max_plan_entries", c.MaxPlanEntries}, {"max_questions", c.MaxQuestions}} {
		need(most.value >= 1, "%s %d must be at least 1", most.field, most.value)
	}
	need(0 <= c.LeastDeadline && c.LeastDeadline <= 24*time.Hour, "least_deadline %v must be 0s to 24h",
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

func (d DatasetConfig) validate() error {
	if err := config.CheckName(d.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if (d.Schema == "") == (d.SchemaSHA256 == "") {
		return fmt.Errorf("dataset %q: set either schema (a path) or schema_sha256", d.Name)
	}
	if sum, err := hex.DecodeString(d.SchemaSHA256); d.SchemaSHA256 != "" &&
		(err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != d.SchemaSHA256) {
		return fmt.Errorf("dataset %q: schema_sha256 must be 64 lower-case hex digits", d.Name)
	}
	if d.Unit == "" {
		return fmt.Errorf("dataset %q: unit is empty; set record or a column's name", d.Name)
	}
	for _, name := range slices.Concat(d.Students, d.Workers) {
		if err := (certs.Identity{Role: certs.RoleStudent, Name: name}).Validate(); err != nil {
			return fmt.Errorf("dataset %q: students, workers: %w", d.Name, err)
		}
	}
	if err := privacy.CheckOverlap(cmp.Or(d.Overlap, 1)); err != nil {
		return fmt.Errorf("dataset %q: %w", d.Name, err)
	}
	if err := d.Budget.Validate(); err != nil {
		return fmt.Errorf("dataset %q: budget: %w", d.Name, err)
	}
	return nil
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
