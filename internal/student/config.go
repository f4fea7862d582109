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

// Config is the configuration of a student process. Relative paths in a file
// are relative to that file.
type Config struct {
	// Aggregator is the address to dial, host:port, or those of an aggregator
	// and its standbys, with commas between them; whichever leads answers. No
	// default.
	Aggregator string `yaml:"aggregator"`
	// ServerName is the host name the aggregator's certificate must carry, at
	// every address. Default: the host of the address.
	ServerName string `yaml:"server_name"`
	// Dataset names the dataset at the aggregator whose budget pays.
	Dataset string `yaml:"dataset"`
	// Run is the path of the run.yaml. A worker has none.
	Run string `yaml:"run"`
	// Queue makes the student a worker: it takes runs from the dataset's queue, one after the
	// other, until it is stopped. Default: false.
	Queue bool `yaml:"queue"`
	// Worker is the worker's name. One that comes back under its name goes on with the run
	// that it held. Default: the name of the machine.
	Worker string `yaml:"worker"`
	// Workers is how many runs a worker takes at the same time. Default: 1.
	Workers int `yaml:"workers"`
	// KeepResults is how long a worker keeps the folder of a run that is done, which who submitted it can fetch
	// meanwhile. Then it is removed. 0 keeps it until somebody removes it. Default: 720h, 30 days.
	KeepResults time.Duration `yaml:"keep_results"`
	// Out is the folder for the synthetic data and all that goes with it. A worker makes a
	// folder for each run there. Default: "out".
	Out string `yaml:"out"`
	// TLS names the files of the mutual TLS connection.
	TLS certs.Files `yaml:"tls"`
	// Retry bounds the pause between attempts to reach the aggregator.
	// Default: 2s.
	Retry time.Duration `yaml:"retry"`
	// Patience is how long the student tries to reach an aggregator that has
	// never answered, and how long it repeats a request at which the aggregator
	// fails. For one that is away while a run is open it waits without end.
	// Default: 30s.
	Patience time.Duration `yaml:"patience"`
	// Traces says where spans of rounds are sent. Default: nowhere.
	Traces tracing.Config `yaml:"traces"`
	// Log says what is logged to standard error.
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
		need(c.Run == "", "run: a worker (queue: true) takes its runs from the queue; leave it out")
		need(len(c.Worker) <= maxWorker && workerName.MatchString(c.Worker),
			"worker: %q is not a name; use 1 to %d letters, digits, dots, dashes and underscores", c.Worker, maxWorker)
		need(c.Workers >= 1 && c.Workers <= maxWorkers, "workers: %d is not between 1 and %d", c.Workers, maxWorkers)
		need(c.KeepResults == 0 || c.KeepResults >= time.Hour,
			"keep_results: %v is less than an hour; give a longer time, or 0s to keep them", c.KeepResults)
	} else {
		need(c.Run != "", "run: missing; give the path of a run.yaml")
		need(c.Worker == "" && c.Workers == 1 && c.KeepResults == keepResults,
			"worker, workers, keep_results: are for queue: true; leave them out, or set it")
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
