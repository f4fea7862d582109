// Package teacher is the program of a site: its node, and the commands of its people.
package teacher

import (
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

// Command is the node itself; the commands of the site's people are below it.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "teacher [COMMAND] --config FILE",
		Short: "run a site's node: train its teachers and answer the aggregator's rounds",
		Long: `Runs a site's node: it trains the site's teachers and answers the aggregator's rounds.
The node connects to the aggregator; the aggregator never connects to the node.
The commands show people at the site what a node needs, what would leave the site, and which runs asked.

Exit codes: 0 done or stopped by a signal, 1 failed or problems found, 2 wrong usage.`,
	}
	config := new(string)
	root.RunE = func(c *cobra.Command, _ []string) error { return work(c.Context(), *config) }
	configured(root, config)
	for _, c := range []*cobra.Command{
		preflightCommand(config), dryRunCommand(config), runsCommand(config),
		approveCommand(config), denyCommand(config),
		acceptCommand(config), consoleCommand(config),
	} {
		configured(c, config)
		root.AddCommand(c)
	}
	root.AddCommand(joinCommand())
	return root
}

// configured gives a command the flag for the node's file, and refuses to run it without.
func configured(c *cobra.Command, config *string) {
	c.Flags().StringVar(config, "config", "", "the node's YAML `file`")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if *config == "" {
			return cli.Misuse("--config: name the node's YAML file")
		}
		return run(c, args)
	}
}
