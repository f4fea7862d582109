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

// Config is the configuration of a node. Relative paths in a file are relative
// to that file.
type Config struct {
	// Aggregator is the address to dial, host:port, or those of an aggregator
	// and its standbys, with commas between them; whichever leads answers. No
	// default.
	Aggregator string `yaml:"aggregator"`
	// ServerName is the host name the aggregator's certificate must carry, at
	// every address. Default: the host of the address.
	ServerName    string `yaml:"server_name"`
	rows.Identity `yaml:",inline"`
	rows.Records  `yaml:",inline"`
	// State is the folder for the partition key, the manifest and the
	// teachers' weights. Losing it loses the right to take part: new
	// partitions of old data are refused. Default: "state".
	State string `yaml:"state"`
	// Policy is the path of the site's policy: which runs are answered, and how much all
	// of them may cost the records of this node. Default: none, and whatever the
	// aggregator's budget allows is answered. With one that cannot be used nothing is.
	Policy string `yaml:"policy"`
	// Notify says where people are told that a run waits for their approval. Default: nowhere.
	Notify notify.Config `yaml:"notify"`
	// TLS names the files of the mutual TLS connection.
	TLS certs.Files `yaml:"tls"`
	// Reconnect bounds the pause between attempts to reach the aggregator.
	// Default: 5s. Longer is kinder to a large cluster, shorter recovers faster.
	Reconnect time.Duration `yaml:"reconnect"`
	// HTTP says where probes and metrics are served, and where the log's level can be
	// changed, on ports of their own. Default: nowhere. Its times and memory tell roughly how many records
	// there are: keep it within the site.
	HTTP monitor.Config `yaml:"http"`
	// AuditLog is the path of a file that gets a line for every join, answer and
	// refusal. Default: none. While it cannot be written no round is answered.
	AuditLog string `yaml:"audit_log"`
	// Traces says where spans of the node's work are sent. Default: nowhere. Their times
	// tell roughly how many records there are: keep them within the site.
	Traces tracing.Config `yaml:"traces"`
	// MaxSteps is the most steps that a teacher trains in a round; questions for more are
	// refused. Default 10000, which is also the most.
	MaxSteps int `yaml:"max_steps"`
	// MaxTime is how long the node works on one question; what takes longer is refused. Default 1h.
	MaxTime time.Duration `yaml:"max_time"`
	// Drain is how long the round that the teachers work on may go on after the process
	// is told to stop, so that it is answered. Default: 10s. With 0 its work is lost to
	// this round; the aggregator then goes on without the node, or waits for it.
	Drain time.Duration `yaml:"drain"`
	// Log says what is logged to standard error.
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

// ReadConfig is [LoadConfig] without the validation, for who looks for all problems.
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

// Validate reports every field that cannot work.
func (c Config) Validate() error {
	return errors.Join(checkAddress(c.Aggregator), c.validateSite())
}

// checkAddress wants the addresses of an aggregator.
func checkAddress(aggregator string) error {
	if _, err := dial.Parse(aggregator, ""); err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	return nil
}

// validateSite reports the fields that are needed before an aggregator is.
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
	need(c.State != "", "state: missing; give a folder that lives as long as the dataset")
	need(c.TLS.CA != "" && c.TLS.Cert != "" && c.TLS.Key != "",
		"tls: ca, cert and key are all needed; `conclave certs` makes them")
	need(1 <= c.MaxSteps && c.MaxSteps <= maxSteps, "max_steps: %d is not between 1 and %d", c.MaxSteps, maxSteps)
	need(time.Second <= c.MaxTime && c.MaxTime <= maxTime, "max_time: %v is not between 1s and %v", c.MaxTime, maxTime)
	need(c.Reconnect > 0, "reconnect: %v is not above 0", c.Reconnect)
	need(0 <= c.Drain && c.Drain <= maxDrain, "drain: %v is not between 0s and %v", c.Drain, maxDrain)
	return errors.Join(append(errs, c.HTTP.Validate(), c.Traces.Validate(), c.Log.Validate(), c.Notify.Validate())...)
}

// maxTeachers is what an aggregator takes from one node.
const maxTeachers = 1 << 16

// maxSteps is the most that any node takes.
const maxSteps = 10_000

// maxTime bounds how long a node works on a question: no round has a longer deadline.
const maxTime = 24 * time.Hour

// maxDrain bounds how long a node that stops may work on.
const maxDrain = 10 * time.Minute

// checkSource reports what is wrong with where the rows come from.
func (c Config) checkSource() error {
	switch {
	case c.Data != "" && c.SQL.Set():
		return errors.New("data: sql is given too; keep one of them")
	case c.SQL.Pushdown && c.Stream:
		return errors.New("stream: sql.pushdown is given too, with which no rows are read; keep one of them")
	case c.SortedBy != "" && c.SortedBy != rows.SortedByUnit:
		return fmt.Errorf("sorted_by: %q is not known; use %s, or leave it out", c.SortedBy, rows.SortedByUnit)
	case c.SortedBy != "" && (c.Data == "" || !c.Stream || c.Unit == partition.UnitRecord):
		return errors.New("sorted_by: it is for data that is streamed and whose unit is a column; set stream and " +
			"unit, or leave it out")
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
