package queue

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/report/text"
)

func cancelCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "cancel --config student.yaml [--force] NAME",
		Short:             "remove a run from the queue, or stop it",
		Args:              cli.OneArgument("the name of a run"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	force := c.Flags().Bool("force", false,
		"also cancel a run that was opened without the queue; its student may still be running")
	return connected(c, func(ctx context.Context, q *client, name string) error {
		return cancel(ctx, q, name, *force)
	})
}

func cancel(ctx context.Context, q *client, name string, force bool) error {
	r, err := q.Cancel(ctx, name, force)
	if err != nil {
		return err
	}
	if q.json {
		return cli.PrintJSON(runOf(r))
	}
	if r.GetQueued() {
		fmt.Printf("%s is cancelled\n", name)
	} else {
		fmt.Printf("%s is closed; a student that still works on it gets no more answers\n", name)
	}
	if r.GetOpened() {
		fmt.Printf("it has spent epsilon %.4g in %s, which stays spent; its last entry in the ledger is %s\n",
			r.GetEpsilonSpent(), text.Several(int64(r.GetRounds()), "round"), r.GetLedgerHead())
	} else {
		fmt.Println("it had not started, and nothing was spent")
	}
	return nil
}

func removeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove --config student.yaml NAME",
		Short: "delete the stored data of a finished run from the aggregator",
		Long: `Deletes what the aggregator stores about a finished run: its answers, its files and its queue entry. Its
ledger entries and its spending remain. No other run can use its name.

Students can remove their own runs; an operator can remove any run.`,
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
		fmt.Printf("%s is removed; its ledger entries remain\n", name)
		return nil
	})
}
