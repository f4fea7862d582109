package student

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/tracing"
)

// Config is the YAML file of a student. Paths are relative to the file's folder.
type Config struct {
	// Aggregator is the host:port to dial. With standbys it is a comma-separated list that includes all of them, or one
	// name that has all their addresses; the leader answers. Required.
	Aggregator string `yaml:"aggregator"`
	// ServerName is the host name that the aggregator's certificate must carry at every address, for tunnels and
	// proxies. Default: the host of `aggregator`.
	ServerName string `yaml:"server_name"`
	// Dataset is the name of the dataset whose budget pays. Required.
	Dataset string `yaml:"dataset"`
	// Run is the path of the run.yaml (docs/run-yaml.md). Required, except for a worker, which has none. Default: none.
	Run string `yaml:"run"`
	// Queue makes the student a worker: it takes runs from the dataset's queue (docs/runs.md), one after the other,
	// until it is stopped. Default: false.
	Queue bool `yaml:"queue"`
	// Worker is the worker's name: 1 to 100 letters, digits, dots, dashes and underscores. A worker that returns under
	// its name continues the run that it had; two processes need two names. Default: the name of the machine.
	Worker string `yaml:"worker"`
	// Workers is the number of runs that a worker takes at the same time. More need more memory and processors.
	Workers int `yaml:"workers"`
	// KeepResults is how long a worker keeps the folder of a finished run, at least 1h, with all that is in it. Until
	// then the submitter can fetch the results (docs/fetching.md#fetching). With 0 it keeps the folder until somebody
	// removes it.
	KeepResults time.Duration `yaml:"keep_results"`
	// Out is the folder of results and checkpoint. Give every run, in every cluster, a folder of its own. A worker
	// makes one for each run in it, and workers that share it continue each other's checkpoints.
	Out string `yaml:"out"`
	// TLS names the files of mutual TLS.
	TLS certs.Files `yaml:"tls"`
	// Retry is the longest pause between attempts to reach the aggregator.
	Retry time.Duration `yaml:"retry"`
	// Patience is how long the student tries to reach an aggregator that never answered, and how long it repeats a
	// request that fails. Once a run is open, the student waits without end for an aggregator that is away.
	Patience time.Duration `yaml:"patience"`
	// Traces says where spans of rounds are sent.
	Traces tracing.Config `yaml:"traces"`
	// Log says what is logged.
	Log logging.Config `yaml:"log"`
}

// keepResults is the default of a worker's keep_results.
const keepResults = 30 * 24 * time.Hour

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{Out: "out", Workers: 1, KeepResults: keepResults, Retry: 2 * time.Second, Patience: 30 * time.Second,
		Log: logging.DefaultConfig()}
}

// LoadConfig reads a student's YAML file over the defaults and the environment
// over both, and validates the result.
func LoadConfig(path string) (Config, error) { return loadConfig(path, Config.Validate) }

// LoadConnection is LoadConfig for callers that only query the aggregator: the file need not say what to run.
func LoadConnection(path string) (Config, error) { return loadConfig(path, Config.validateConnection) }

func loadConfig(path string, validate func(Config) error) (Config, error) {
	c := DefaultConfig()
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	for _, p := range []*string{&c.Run, &c.Out, &c.TLS.CA, &c.TLS.Cert, &c.TLS.Key, &c.TLS.Revoked, &c.Traces.CA} {
		*p = config.Resolve(path, *p)
	}
	if c.Queue && c.Worker == "" {
		c.Worker = machine()
	}
	if err := validate(c); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// machine is the name of this machine, shortened to a valid worker name.
func machine() string {
	name, err := os.Hostname()
	name = strings.Trim(notInNames.ReplaceAllString(name, "-"), "-._")
	if err != nil || name == "" {
		return "worker"
	}
	return name[:min(len(name), maxWorker)]
}

var (
	workerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

const (
	// maxWorker leaves room for a number after the name.
	maxWorker  = 100
	maxWorkers = 64
)

// Validate reports every invalid field.
func (c Config) Validate() error {
	var errs config.Problems
	need := errs.Need
	if c.Queue {
		need(c.Run == "", "run: a worker (queue: true) gets its runs from the queue; leave it out")
		need(len(c.Worker) <= maxWorker && workerName.MatchString(c.Worker),
			"worker: %q is not a name; use 1 to %d letters, digits, dots, dashes and underscores", c.Worker, maxWorker)
		need(c.Workers >= 1 && c.Workers <= maxWorkers, "workers: %d is not between 1 and %d", c.Workers, maxWorkers)
		need(c.KeepResults == 0 || c.KeepResults >= time.Hour,
			"keep_results: %v is less than an hour; give a longer time, or 0s to keep them", c.KeepResults)
	} else {
		need(c.Run != "", "run: missing; give the path of a run.yaml")
		need(c.Worker == "" && c.Workers == 1 && c.KeepResults == keepResults,
			"worker, workers, keep_results: only for queue: true; leave them out, or set it")
	}
	need(c.Out != "", "out: missing; give a folder for the results")
	return errors.Join(c.validateConnection(), errors.Join(errs...))
}

// validateConnection reports every field that prevents a connection to the aggregator.
func (c Config) validateConnection() error {
	var errs config.Problems
	need := errs.Need
	_, err := dial.Parse(c.Aggregator, c.ServerName)
	need(err == nil, "aggregator: %w", err)
	need(c.Dataset != "", "dataset: missing; give the name of a dataset at the aggregator")
	need(c.TLS.CA != "" && c.TLS.Cert != "" && c.TLS.Key != "",
		"tls: ca, cert and key are all needed; `conclave certs` makes them")
	need(c.Retry > 0, "retry: %v is not above 0", c.Retry)
	need(c.Patience > 0, "patience: %v is not above 0", c.Patience)
	return errors.Join(append(errs, c.Traces.Validate(), c.Log.Validate())...)
}
