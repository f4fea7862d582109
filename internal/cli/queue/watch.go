package queue

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/requester"
	"github.com/conclave-dp/conclave/internal/run"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func watchCommand() *cobra.Command {
	return connected(&cobra.Command{
		Use:               "watch --config student.yaml NAME",
		Short:             "follow a run until it ends",
		Args:              cli.OneArgument("the name of a run"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}, watch)
}

func watch(ctx context.Context, q *client, name string) error {
	display := progress.New(os.Stderr)
	defer func() { display.Close() }()
	said := ""
	var problem error
	last, err := q.Watch(ctx, name, func(m *conclavev1.WatchRunResponse) {
		if q.json {
			line := shownRun{runStatus: runOf(m.GetRun())}
			if m.GetProgress().GetRounds() > 0 {
				line.Progress = progressOf(m.GetProgress())
			}
			problem = errors.Join(problem, cli.PrintJSON(line))
			return
		}
		if now := requester.Standing(m.GetRun()); now != said {
			display.Close() // a bar and lines would mix
			display = progress.New(os.Stderr)
			fmt.Fprintf(os.Stderr, "%s: %s\n", name, now)
			said = now
		}
		if p := m.GetProgress(); p.GetRounds() > 0 && m.GetRun().GetState() == conclavev1.RunState_RUN_STATE_RUNNING {
			display.Update(run.Status{
				Round: int(p.GetRound()), Rounds: int(p.GetRounds()), Of: p.GetOf(),
				EpsilonSpent: p.GetEpsilonSpent(), Epsilon: p.GetEpsilon(),
				Waiting: p.GetWaiting(), Part: p.GetPart(), Halted: p.GetHalted(),
			})
		}
	})
	err = errors.Join(cli.Interrupted(ctx, err, "interrupted; the run continues"), problem)
	if err != nil {
		return err
	}
	ended := fmt.Errorf("run %s: %s", name, requester.Standing(last))
	switch last.GetState() {
	case conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET:
		return &cli.ExitError{Code: codeOutOfBudget, Err: ended}
	case conclavev1.RunState_RUN_STATE_CANCELLED:
		return &cli.ExitError{Code: codeCancelled, Err: ended}
	case conclavev1.RunState_RUN_STATE_FAILED:
		return ended
	}
	if q.json {
		return nil
	}
	display.Close()
	display = progress.New(os.Stderr)
	return printRun(last, nil)
}
