// Package consoles has the command that serves the console of operators and students.
package consoles

import (
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/console/cluster"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/student"
)

// Command serves the console.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "console --config operator.yaml|student.yaml [--authority DIR]",
		Short: "serve pages about runs, nodes and budgets to a browser on this machine",
		Long: `Serves pages to a browser on this machine, on a loopback address only. It prints an address that works
once, within five minutes; after that the browser has a cookie. The pages depend on the role of the file's certificate:
an operator sees sites, nodes, runs, budgets and ledgers; a student submits, watches and fetches runs.`,
	}
	path := c.Flags().String("config", "",
		"an operator's or a student's YAML `file`, with the aggregator's address and the certificate")
	authority := c.Flags().String("authority", "",
		"`folder` of the authority, to list its certificates and revoke them")
	listen := console.ListenFlag(c.Flags())
	level := cli.LogLevel(c, "is logged")
	c.RunE = func(c *cobra.Command, _ []string) error {
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
		return cluster.Run(c.Context(), cluster.Options{
			Listen: *listen, Config: config, Authority: *authority, Log: log,
		}, console.Print)
	}
	return c
}
