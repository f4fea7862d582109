package queue

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/requester"
)

func listCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list --config student.yaml [--dataset NAME]",
		Short: "list runs and the budgets of their datasets",
	}
	dataset := c.Flags().String("dataset", "",
		"only runs of this dataset (default: all datasets)")
	return connected(c, func(ctx context.Context, q *client, _ string) error { return list(ctx, q, *dataset) })
}

func list(ctx context.Context, q *client, dataset string) error {
	all, budgets, err := q.List(ctx, dataset)
	if err != nil {
		return err
	}
	if q.json {
		list := runList{Runs: []runStatus{}}
		for _, r := range all {
			list.Runs = append(list.Runs, runOf(r))
		}
		for _, b := range budgets {
			list.Datasets = append(list.Datasets, budgetOf(b))
		}
		return cli.PrintJSON(list)
	}
	w := cli.Columns()
	fmt.Fprintln(w, "NAME\tDATASET\tSTATE\tPIPELINE\tEPSILON\tROUNDS\tBY\tSUBMITTED\tWORKER\tREASON")
	for _, r := range all {
		reason := r.GetReason()
		if !r.GetQueued() {
			reason = "opened by a student without the queue"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.4g/%g\t%d\t%s\t%s\t%s\t%s\n",
			r.GetName(), r.GetDataset(), requester.StateText(r.GetState()), r.GetPipeline(),
			r.GetEpsilonSpent(), r.GetEpsilon(), r.GetRounds(),
			cli.Dash(r.GetBy()), cli.Dash(r.GetSubmitted()), cli.Dash(r.GetWorker()), cli.Dash(reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range budgets {
		fmt.Println(requester.BudgetText(b))
	}
	return nil
}
