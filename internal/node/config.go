package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/node/notify"
	"github.com/conclave-dp/conclave/internal/node/rows"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/tracing"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
)

// Config is the YAML file of a node. Paths are relative to the file's folder.
type Config struct {
	// Aggregator is the host:port to dial. With standbys it is a comma-separated list that includes all of them, or one
	// name that has all their addresses; the leader answers. Required.
	Aggregator string `yaml:"aggregator"`
	// ServerName is the host name that the aggregator's certificate must carry at every address, for tunnels and
	// proxies. Default: the host of `aggregator`.
	ServerName    string `yaml:"server_name"`
	rows.Identity `yaml:",inline"`
	rows.Records  `yaml:",inline"`
	// State is the folder of the partition key, the manifest, the teachers' weights and the ledger of the site's
	// policy. Back it up: without it the node is refused, see docs/failures.md#a-node-that-lost-its-state.
	State string `yaml:"state"`
	// Policy is the path of the site's own rules: which runs the node answers, and how much all of them may cost its
	// records. While the file cannot be used, the node answers nothing. Without one it answers whatever the
	// aggregator's budget allows. See docs/sites-policy.md. Default: none.
	Policy string `yaml:"policy"`
	// Notify says where people are told that a run waits for their approval.
	Notify notify.Config `yaml:"notify"`
	// TLS names the files of mutual TLS.
	TLS certs.Files `yaml:"tls"`
	// Reconnect is the longest pause between attempts to reach the aggregator. A longer pause spares a large cluster, a
	// shorter one recovers faster.
	Reconnect time.Duration `yaml:"reconnect"`
	// HTTP says where probes and metrics are served.
	HTTP monitor.Config `yaml:"http"`
	// AuditLog is the path of a file that gets a line for every join, answer and refusal: see docs/audit-log.md. While
	// it cannot be written, no round is answered. Default: none.
	AuditLog string `yaml:"audit_log"`
	// Traces says where spans of the node's work are sent.
	Traces tracing.Config `yaml:"traces"`
	// MaxSteps is the number of steps that a teacher may train in a round. The node refuses questions for more.
	MaxSteps int `yaml:"max_steps"`
	// MaxTime is how long the node works on one question; it refuses one that takes longer. Work on a round that goes
	// on without the node ends at once.
	MaxTime time.Duration `yaml:"max_time"`
	// Drain is how long the round in progress may continue after SIGTERM, so that it is answered. With less, the round
	// goes on without this node, or waits for it.
	Drain time.Duration `yaml:"drain"`
	// Log says what is logged.
	Log logging.Config `yaml:"log"`
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{
		Identity: rows.Identity{Node: "0"},
		Records: rows.Records{
			Share: [2]float64{0, 1}, SQL: postgres.DefaultConfig(), Unit: "record", Overlap: 1, Teachers: 100,
		},
		State: "state", MaxSteps: maxSteps, MaxTime: time.Hour, Reconnect: 5 * time.Second, Drain: 10 * time.Second,
		Log: logging.DefaultConfig(),
	}
}

// LoadConfig reads a node's YAML file over the defaults and the environment
// over both, and validates the result.
func LoadConfig(path string) (Config, error) {
	c, err := ReadConfig(path)
	if err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ReadConfig is [LoadConfig] without validation, for callers that collect all problems.
func ReadConfig(path string) (Config, error) {
	c := DefaultConfig()
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	for _, p := range []*string{
		&c.Schema, &c.Data, &c.SQL.DSNFile, &c.State, &c.TLS.CA, &c.TLS.Cert, &c.TLS.Key, &c.TLS.Revoked,
		&c.AuditLog, &c.Policy, &c.Traces.CA, &c.HTTP.Control.TokenFile, &c.Notify.TokenFile,
	} {
		*p = config.Resolve(path, *p)
	}
	return c, nil
}

// Validate reports every invalid field.
func (c Config) Validate() error {
	return errors.Join(checkAddress(c.Aggregator), c.validateSite())
}

// checkAddress checks the addresses of an aggregator.
func checkAddress(aggregator string) error {
	if _, err := dial.Parse(aggregator, ""); err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	return nil
}

// validateSite reports problems of the fields that are needed without an aggregator.
func (c Config) validateSite() error {
	var errs config.Problems
	need := errs.Need
	for _, n := range []struct{ field, value string }{{"dataset", c.Dataset}, {"site", c.Site}, {"node", c.Node}} {
		err := config.CheckName(n.value)
		need(err == nil, "%s: %w", n.field, err)
	}
	need(c.Schema != "", "schema: missing; give the path of the public schema.yaml")
	errs = append(errs, c.checkSource())
	need(0 <= c.Share[0] && c.Share[0] < c.Share[1] && c.Share[1] <= 1,
		"share: [%v, %v] is not a part of [0, 1]", c.Share[0], c.Share[1])
	need(c.Unit != "", "unit: empty; use record or the name of the unit column")
	if err := privacy.CheckOverlap(c.Overlap); err != nil {
		errs = append(errs, err)
	}
	need(c.Teachers >= 1 && c.Teachers <= maxTeachers, "teachers: %d is not between 1 and %d", c.Teachers, maxTeachers)
	need(c.State != "", "state: missing; give a persistent folder")
	need(c.TLS.CA != "" && c.TLS.Cert != "" && c.TLS.Key != "",
		"tls: ca, cert and key are all needed; `conclave certs` makes them")
	need(1 <= c.MaxSteps && c.MaxSteps <= maxSteps, "max_steps: %d is not between 1 and %d", c.MaxSteps, maxSteps)
	need(time.Second <= c.MaxTime && c.MaxTime <= maxTime, "max_time: %v is not between 1s and %v", c.MaxTime, maxTime)
	need(c.Reconnect > 0, "reconnect: %v is not above 0", c.Reconnect)
	need(0 <= c.Drain && c.Drain <= maxDrain, "drain: %v is not between 0s and %v", c.Drain, maxDrain)
	return errors.Join(append(errs, c.HTTP.Validate(), c.Traces.Validate(), c.Log.Validate(), c.Notify.Validate())...)
}

// maxTeachers is the most teachers of one node that an aggregator accepts.
const maxTeachers = 1 << 16

// maxSteps is the most steps that any node accepts.
const maxSteps = 10_000

// maxTime bounds how long a node works on a question: no round has a longer deadline.
const maxTime = 24 * time.Hour

// maxDrain bounds how long a stopping node may continue to work.
const maxDrain = 10 * time.Minute

// checkSource reports problems with the source of the rows.
func (c Config) checkSource() error {
	switch {
	case c.Data != "" && c.SQL.Set():
		return errors.New("data: sql is set too; keep only one")
	case c.SQL.Pushdown && c.Stream:
		return errors.New("stream: sql.pushdown is set too, which reads no rows; keep only one")
	case c.SortedBy != "" && c.SortedBy != rows.SortedByUnit:
		return fmt.Errorf("sorted_by: %q is unknown; use %s, or leave it out", c.SortedBy, rows.SortedByUnit)
	case c.SortedBy != "" && (c.Data == "" || !c.Stream || c.Unit == partition.UnitRecord):
		return errors.New("sorted_by: only for streamed data whose unit is a column; set stream and unit, or leave " +
			"it out")
	case c.SQL.Set():
		return c.SQL.Validate()
	case c.Data == "":
		return errors.New("data: missing; give the path of the site's CSV, Parquet, .xlsx or idx file, or of a " +
			"folder of parts, or a query in sql")
	}
	return nil
}

// Rows says what rows the node has.
func (c Config) Rows() rows.Config {
	return rows.Config{Identity: c.Identity, Records: c.Records, State: c.State}
}
