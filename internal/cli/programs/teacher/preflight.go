package teacher

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/node/preflight"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// preflightCommand reports what to fix before a node is started, with exit code 1 if there is anything.
func preflightCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "preflight --config FILE [--offline] [--structure] [--format json]",
		Short: "check everything that a node needs, and say what to fix",
	}
	format := cli.Format(c)
	offline := c.Flags().Bool("offline", false, "skip the checks of the network")
	structure := c.Flags().Bool("structure", false,
		"read no rows, of tables that are not loaded into memory: takes seconds")
	c.RunE = func(c *cobra.Command, _ []string) error {
		report := preflight.Run(c.Context(), preflight.Options{Config: *config, Offline: *offline,
			Structure: *structure})
		if *format == "json" {
			if err := cli.PrintJSON(report); err != nil {
				return err
			}
		} else {
			showReport(report)
		}
		if !report.OK {
			return &cli.ExitError{Code: 1} // the problems have been shown
		}
		return nil
	}
	return c
}

func showReport(r *preflight.Report) {
	w := cli.Columns()
	problems, warnings := 0, 0
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Status, c.Name, c.Detail)
		if c.Fix != "" {
			fmt.Fprintf(w, "\t\tfix: %s\n", c.Fix)
		}
		switch c.Status {
		case preflight.Problem:
			problems++
		case preflight.Warning:
			warnings++
		}
	}
	_ = w.Flush()
	fmt.Printf("%s, %s\n", text.Several(problems, "problem"), text.Several(warnings, "warning"))
}
