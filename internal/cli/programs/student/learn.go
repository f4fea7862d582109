// Package student is the program that executes runs.
package student

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/worker"
)

// Command executes one run, or queued runs until a signal.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "student [COMMAND] --config FILE",
		Short: "train a generator from an aggregator's releases, or execute runs of its queue",
		Long: `Trains a generator from an aggregator's releases and writes the synthetic data with its certificate.
With queue: true in its file it is a worker: it takes runs from the aggregator's queue until it is stopped.

Exit codes: 0 done, or a worker was stopped; 1 failed, or a single run was stopped; 2 wrong usage.`,
	}
	config := c.Flags().String("config", "", "the student's YAML `file`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *config == "" {
			return cli.Misuse("--config: name the student's YAML file")
		}
		return learn(c.Context(), *config)
	}
	return c
}

func learn(ctx context.Context, path string) error {
	config, err := student.LoadConfig(path)
	if err != nil {
		return err
	}
	log, err := logging.New(config.Log)
	if err != nil {
		return err
	}
	if config.Queue {
		var printed error
		err := worker.Work(ctx, config, log, func(r *results.Result) {
			printed = errors.Join(printed, cli.PrintJSON(r))
		})
		return errors.Join(err, printed)
	}
	spec, err := runfile.Load(config.Run)
	if err != nil {
		return err
	}
	client, err := student.Dial(config, log)
	if err != nil {
		return err
	}
	defer client.Close()
	display := progress.New(os.Stderr)
	result, err := run.Execute(ctx, spec, run.Options{
		Client: client, Dataset: config.Dataset, Out: config.Out, Log: log, Watch: display.Update,
	})
	display.Close()
	if err != nil {
		return err
	}
	return cli.PrintJSON(result)
}
