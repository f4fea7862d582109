package student

import (
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/certs"
	"github.com/conclave-dp/conclave/config"
	"github.com/conclave-dp/conclave/dial"
	"github.com/conclave-dp/conclave/logging"
	"github.com/conclave-dp/conclave/tracing"
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
	// Run is the path of the run.yaml.
	Run string `yaml:"run"`
	// Out is the folder for the synthetic data and all that goes with it.
	// Default: "out".
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

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{Out: "out", Retry: 2 * time.Second, Patience: 30 * time.Second, Log: logging.DefaultConfig()}
}

// LoadConfig reads a student's YAML file over the defaults and the environment
// over both, and validates the result.
func LoadConfig(path string) (Config, error) {
	c := DefaultConfig()
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	for _, p := range []*string{&c.Run, &c.Out, &c.TLS.CA, &c.TLS.Cert, &c.TLS.Key, &c.TLS.Revoked, &c.Traces.CA} {
		*p = config.Resolve(path, *p)
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Validate reports every field that cannot work.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := dial.Parse(c.Aggregator, c.ServerName)
	need(err == nil, "aggregator: %w", err)
	need(c.Dataset != "", "dataset: missing; give the name of a dataset at the aggregator")
	need(c.Run != "", "run: missing; give the path of a run.yaml")
	need(c.Out != "", "out: missing; give a folder for the results")
	need(c.TLS.CA != "" && c.TLS.Cert != "" && c.TLS.Key != "", "tls: ca, cert and key are all needed; `conclave certs` makes them")
	need(c.Retry > 0, "retry: %v is not above 0", c.Retry)
	need(c.Patience > 0, "patience: %v is not above 0", c.Patience)
	if err := c.Traces.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Log.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
