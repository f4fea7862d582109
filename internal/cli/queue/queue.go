// Package queue has the commands about an aggregator's queued runs.
package queue

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/student"
)

// Exit codes of commands about runs, in addition to those of all commands:
const (
	codeOutOfBudget = 3
	codeCancelled   = 4
)

// Command queues runs at an aggregator, and looks at them.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "run COMMAND",
		Short: "queue, list, watch, fetch, cancel and remove runs at an aggregator",
		Long: `Queues, lists, watches, fetches, cancels and removes runs at an aggregator.
Workers take runs from the queue: student --config FILE, with queue: true in the file.

Exit codes: 0 done, 1 failed or interrupted, 2 wrong usage, 3 out of budget (submit, watch), 4 cancelled (watch).`,
	}
	c.AddCommand(submitCommand(), listCommand(), showCommand(), fetchCommand(), cancelCommand(), removeCommand(),
		watchCommand())
	return c
}

// client is a connection to the queue.
type client struct {
	*student.Queue
	// From the configuration: the dataset, and the path of the authorities' certificates.
	dataset, authority string
	json               bool // print results for programs
}

// connected adds the connection flags to a command, and makes it run with the queue and its argument, or "".
func connected(c *cobra.Command, run func(context.Context, *client, string) error) *cobra.Command {
	path := c.Flags().String("config", "",
		"a student's YAML `file` with the aggregator's address, the dataset and the certificate")
	level, format := cli.LogLevel(c, "is logged"), cli.Format(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *path == "" {
			return cli.Misuse("--config: give a student's YAML file")
		}
		config, err := student.LoadConnection(*path)
		if err != nil {
			return err
		}
		log, err := logging.New(logging.Config{Level: *level, Format: logging.Auto})
		if err != nil {
			return err
		}
		dialled, err := student.Dial(config, log)
		if err != nil {
			return err
		}
		q := &client{dialled.Queue(), config.Dataset, config.TLS.CA, *format == "json"}
		defer q.Close()
		return run(c.Context(), q, strings.Join(args, "")) // there is at most one
	}
	return c
}
