// Package queue has the commands about the runs of an aggregator's queue.
package queue

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/student"
)

// Exit codes of commands about runs, besides those of all commands.
const (
	codeOutOfBudget = 3
	codeCancelled   = 4
)

// Command queues runs at an aggregator, and looks at them.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "run COMMAND",
		Short: "queue runs at an aggregator, list, watch, cancel and remove them",
		Long: `Queues runs at an aggregator, lists, watches, cancels and removes them.
Workers take runs from the queue: student --config FILE, with queue: true in the file.

Exit codes: 0 done, 1 failed or interrupted, 2 wrong usage, 3 out of budget (submit, watch), 4 cancelled (watch).`,
	}
	c.AddCommand(submitCommand(), listCommand(), showCommand(), cancelCommand(), removeCommand(), watchCommand())
	return c
}

// connection is how a command reaches the aggregator.
type connection struct {
	config           string
	logLevel, format *string
}

// connected adds the flags of a connection to a command, and makes it run with
// the queue and its argument, "" for none.
func connected(c *cobra.Command, run func(context.Context, *client, string) error) *cobra.Command {
	var f connection
	c.Flags().StringVar(&f.config, "config", "",
		"a student's YAML `file`: where the aggregator is, the dataset, and the certificate")
	f.logLevel = cli.LogLevel(c, "is logged")
	f.format = cli.Format(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.config == "" {
			return cli.Misuse("--config: name a student's YAML file")
		}
		q, err := f.open()
		if err != nil {
			return err
		}
		defer q.Close()
		argument := ""
		if len(args) > 0 {
			argument = args[0]
		}
		return run(c.Context(), q, argument)
	}
	return c
}

type client struct {
	*student.Queue
	dataset string // that of the file
	json    bool   // results are for programs
}

// open dials the aggregator.
func (f *connection) open() (*client, error) {
	config, err := student.LoadConnection(f.config)
	if err != nil {
		return nil, err
	}
	log, err := logging.New(logging.Config{Level: *f.logLevel, Format: logging.Auto})
	if err != nil {
		return nil, err
	}
	dialled, err := student.Dial(config, log)
	if err != nil {
		return nil, err
	}
	return &client{dialled.Queue(), config.Dataset, *f.format == "json"}, nil
}
