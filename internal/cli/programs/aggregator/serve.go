// Package aggregator is the program that serves nodes and students.
package aggregator

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/logging"
)

// options are the values of the flags.
type options struct {
	config, listen string
	embedded       bool
}

// Command serves until a signal.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "aggregator [COMMAND] --config FILE [--embedded-etcd] [--listen HOST:PORT]",
		Short: "serve teachers and students: collect votes, add noise, charge every answer to the ledger",
		Long: `Serves nodes and students: adds up votes and sums, adds noise, and charges every answer to the ledger
in etcd.

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.config == "" {
				return cli.Misuse("--config: name the aggregator's YAML file")
			}
			return serve(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the aggregator's YAML `file`")
	f.BoolVar(&o.embedded, "embedded-etcd", false, "run etcd in this process, regardless of the file")
	f.StringVar(&o.listen, "listen", "", "`address` to listen on, in place of the one in the file")
	return c
}

func serve(ctx context.Context, o options) error {
	config, err := aggregator.LoadConfig(o.config, func(c *aggregator.Config) {
		if o.embedded {
			c.Etcd.Embedded, c.Etcd.Endpoints = true, nil
		}
		if o.listen != "" {
			c.Listen = o.listen
		}
	})
	if err != nil {
		return err
	}
	log, level, err := logging.NewLeveled(config.Log)
	if err != nil {
		return err
	}
	server, err := aggregator.New(ctx, config,
		aggregator.Options{Logger: log, Level: &level, Reducers: kinds.Reducers()})
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		log.Info("stopped before it became the leader")
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(server.Serve(ctx), server.Close())
}
