// Command tables measures what synthetic rows and images are worth: every run is one of a
// real cluster on this machine, repeated over seeds, beside the same run without what its sites
// know, beside real rows, and beside the figures of papers. Its commands are the experiments;
// README.md says of each what it measures, docs/results.md what came out: the command results writes it.
//
//	go run ./bench/tables embed --data DIR --log embed.jsonl   # all of it, an hour
//	go run ./bench/tables embed --only 'flchain-*' --seeds 5   # needs no DIR
//	go run ./bench/tables embed --log embed.jsonl --tables     # what was measured
//	go run ./bench/tables results                              # writes the pages
//
// DIR holds the data sets, each in a folder with its schema.yaml; flchain is part of the
// project. Figures come from real rows and are NOT PRIVATE.
package main

import (
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/cli"
)

func main() { cli.Main(command()) }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "tables COMMAND [flags]",
		Short: "measure what synthetic data is worth (NOT PRIVATE)",
	}
	for _, e := range experiments() {
		root.AddCommand(e.command())
	}
	root.AddCommand(resultsCommand())
	return root
}

// resultsCommand writes the pages. To add a measurement, give a command a log in bench/figures/logs with --log, and
// run this one again.
func resultsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "results",
		Short: "write docs/results.md and the tables of other pages from the logs in bench/figures/logs",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return figures.WritePages(".") },
	}
}

func experiments() []*experiment {
	return []*experiment{quality(), marginals(), embed(), pategan(), dpgan(), gpate(), boost(), weights(), everyset()}
}
