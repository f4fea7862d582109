package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/requester"
	"github.com/conclave-dp/conclave/internal/student"
)

func submitCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "submit --config student.yaml [--overcommit] run.yaml",
		Short: "queue a run",
		Args:  cli.OneArgument("the path of a run.yaml"),
	}
	overcommit := c.Flags().Bool("overcommit", false, "queue the run even if the budget may not suffice after all "+
		"earlier runs; in that case it ends as out of budget, at no cost")
	return connected(c, func(ctx context.Context, q *client, path string) error {
		return submit(ctx, q, path, *overcommit)
	})
}

func submit(ctx context.Context, q *client, path string, overcommit bool) error {
	r, err := requester.Submit(ctx, q.Queue, q.dataset, path, overcommit)
	if errors.Is(err, student.ErrOverBudget) {
		return &cli.ExitError{Code: codeOutOfBudget, Err: err}
	}
	if err != nil {
		return err
	}
	if q.json {
		return cli.PrintJSON(submittedRun{
			runOf(r.GetRun()), r.GetExisting(), r.GetFits(), r.GetEpsilonLeft(), budgetOf(r.GetBudget()),
			quorumOf(r.GetQuorum()),
		})
	}
	what := "queued"
	if r.GetExisting() {
		what = "already in the queue"
	}
	fmt.Printf("%s is %s on dataset %s: %s\n", r.GetRun().GetName(), what, q.dataset, requester.Standing(r.GetRun()))
	fmt.Println(requester.BudgetText(r.GetBudget()))
	for _, note := range requester.Notes(r) {
		fmt.Println(note)
	}
	return nil
}
