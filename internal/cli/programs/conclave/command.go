// Package conclave is the program for operators, students and first steps.
package conclave

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/cli/accounting"
	"github.com/conclave-dp/conclave/internal/cli/auditing"
	"github.com/conclave-dp/conclave/internal/cli/authority"
	"github.com/conclave-dp/conclave/internal/cli/consoles"
	"github.com/conclave-dp/conclave/internal/cli/proving"
	"github.com/conclave-dp/conclave/internal/cli/queue"
	"github.com/conclave-dp/conclave/internal/cli/rows"
	"github.com/conclave-dp/conclave/internal/cli/schema"
	"github.com/conclave-dp/conclave/internal/cli/study"
	"github.com/conclave-dp/conclave/internal/cli/training"
	"github.com/conclave-dp/conclave/internal/version"
)

// Command has the commands in the order in which people need them.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "conclave COMMAND [flags]",
		Short: "train generative models with differential privacy on federated data",
		Long: `Trains generative models with differential privacy, on one machine or at several sites: runs, sampling,
ledgers and certificates. Results go to standard output, all else to standard error.

Exit codes: 0 done, 1 failed or interrupted, 2 wrong usage; some commands have more.`,
	}
	c.AddCommand(training.Commands()...)
	c.AddCommand(schema.Commands()...)
	c.AddCommand(rows.Commands()...)
	c.AddCommand(proving.Commands()...)
	c.AddCommand(accounting.Commands()...)
	c.AddCommand(auditing.Command())
	c.AddCommand(study.Command())
	c.AddCommand(queue.Command(), consoles.Command())
	c.AddCommand(authority.Commands()...)
	c.AddCommand(versionCommand())
	return c
}

func versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version [--format json]", Short: "print the version"}
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *format == "json" {
			return cli.PrintJSON(struct {
				Software string `json:"software"`
			}{version.Software})
		}
		fmt.Println(version.Software)
		return nil
	}
	return c
}
