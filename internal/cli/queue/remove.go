package queue

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

func removeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove --config student.yaml NAME",
		Short: "drop what the aggregator stores of a run that has ended",
		Long: `Drops what the aggregator stores of a run that has ended: its answers, its files and its place in the
queue. Its entries in the ledger stay, and what it spent stays spent. No other run can have its name.

Students remove their own runs. The certificate of an operator removes the runs of all.`,
		Args:              cli.OneArgument("the name of a run"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	return connected(c, func(ctx context.Context, q *client, name string) error {
		if err := q.Remove(ctx, name); err != nil {
			return err
		}
		if q.json {
			return cli.PrintJSON(struct {
				Removed string `json:"removed"`
			}{name})
		}
		fmt.Printf("%s is removed; its entries in the ledger stay\n", name)
		return nil
	})
}
