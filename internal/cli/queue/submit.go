package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func submitCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "submit --config student.yaml [--overcommit] run.yaml",
		Short: "queue a run",
		Args:  cli.OneArgument("the path of a run.yaml"),
	}
	overcommit := c.Flags().Bool("overcommit", false, "queue it even if it would not fit once all runs before it "+
		"have spent their budgets; if so it ends as out of budget, at no cost")
	return connected(c, func(ctx context.Context, q *client, path string) error {
		return submit(ctx, q, path, *overcommit)
	})
}

func submit(ctx context.Context, q *client, path string, overcommit bool) error {
	submission, job, err := run.NewSubmission(path)
	if err != nil {
		return err
	}
	if err := job.Spec.CheckDataset(q.dataset); err != nil {
		return err
	}
	r, err := q.Submit(ctx, &conclavev1.SubmitRunRequest{
		Spec:    run.RunSpec(job.Plan, job.Spec, job.Schema, q.dataset, false),
		RunYaml: submission.RunFile, SchemaYaml: submission.Schema, StudyYaml: submission.Study,
		Overcommit: overcommit,
	})
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
		what = "in the queue's books already"
	}
	fmt.Printf("%s is %s on dataset %s: %s\n", r.GetRun().GetName(), what, q.dataset, standing(r.GetRun()))
	fmt.Println(budgetText(r.GetBudget()))
	if r.GetRun().GetState() == conclavev1.RunState_RUN_STATE_WAITING {
		fmt.Print(quorumText(r.GetQuorum()))
	}
	fmt.Printf("one more run at delta %g could have epsilon %.6g\n", r.GetRun().GetDelta(), r.GetEpsilonLeft())
	if !r.GetFits() {
		fmt.Println("it does not fit if all runs before it spend what they may: " +
			"it ends as out of budget then, and nothing is spent for it")
	}
	if r.GetRun().GetState() == conclavev1.RunState_RUN_STATE_WAITING && r.GetBudget().GetWorkers() == 0 {
		fmt.Println("no worker is connected: it waits until one is (student --config FILE, with queue: true)")
	}
	return nil
}

// quorumText says what a run waits for at present, with a line break; empty if enough nodes are connected.
func quorumText(q *conclavev1.Quorum) string {
	for _, of := range []struct {
		needed, live uint32
		what         string
	}{
		{q.GetTeachersNeeded(), q.GetTeachersLive(), "teachers"},
		{q.GetSitesNeeded(), q.GetSitesLive(), "member sites"},
	} {
		if of.live < of.needed {
			return fmt.Sprintf("of the %d %s that it needs %d are connected now: it cannot begin before more are\n",
				of.needed, of.what, of.live)
		}
	}
	return ""
}
