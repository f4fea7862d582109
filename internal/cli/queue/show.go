package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func showCommand() *cobra.Command {
	return connected(&cobra.Command{
		Use:               "show --config student.yaml NAME",
		Short:             "print everything known about a run",
		Args:              cli.OneArgument("the name of a run"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}, show)
}

func show(ctx context.Context, q *client, name string) error {
	r, err := q.Show(ctx, name)
	if err != nil {
		return err
	}
	if q.json {
		shown := shownRun{runStatus: runOf(r.GetRun()), RunYAML: string(r.GetRunYaml())}
		if p := r.GetProgress(); p.GetRounds() > 0 {
			shown.Progress = progressOf(p)
		}
		return cli.PrintJSON(shown)
	}
	return printRun(r.GetRun(), r.GetProgress())
}

func standing(r *conclavev1.RunStatus) string {
	parts := []string{stateText(r.GetState())}
	switch {
	case r.GetState() == conclavev1.RunState_RUN_STATE_WAITING:
		parts = append(parts, fmt.Sprintf("number %d in line", r.GetPlace()))
	case r.GetState() == conclavev1.RunState_RUN_STATE_RUNNING && r.GetWorker() != "":
		parts = append(parts, "at worker "+r.GetWorker())
	}
	if r.GetReason() != "" {
		parts = append(parts, r.GetReason())
	}
	return strings.Join(parts, ", ")
}

func stateText(s conclavev1.RunState) string { return strings.ReplaceAll(stateName(s), "_", " ") }

func budgetText(b *conclavev1.DatasetBudget) string {
	return fmt.Sprintf("dataset %s: epsilon %g at delta %g (%s); spent %.4g, computed afterwards; "+
		"%.4g with all that %d open and %d waiting runs may still spend; left for one more run: %.6g",
		b.GetDataset(), b.GetEpsilon(), b.GetDelta(), b.GetFilter(), b.GetEpsilonSpent(),
		b.GetEpsilonReserved(), b.GetOpen(), b.GetWaiting(), b.GetEpsilonLeft()) + studyText(b)
}

// studyText is the study of a dataset on a line of its own, nothing where it wants none.
func studyText(b *conclavev1.DatasetBudget) string {
	of := study.FromWire(b.GetStudy())
	if of == nil {
		return ""
	}
	return fmt.Sprintf("\nits runs must be of this study: %s; to the end of %s", of.Line(), of.Expires)
}

func printRun(r *conclavev1.RunStatus, p *conclavev1.RunProgress) error {
	w := cli.Columns()
	line := func(field, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{field}, args...)...)
	}
	line("name", "%s", r.GetName())
	line("dataset", "%s", r.GetDataset())
	line("state", "%s", standing(r))
	if r.GetPurpose() != "" {
		line("purpose", "%s", r.GetPurpose())
	}
	if of := study.FromWire(r.GetStudy()); of != nil {
		line("study", "%s; to the end of %s", of.Line(), of.Expires)
	}
	line("pipeline", "%s, %d teachers", r.GetPipeline(), r.GetTeachers())
	line("budget", "epsilon %g, delta %g", r.GetEpsilon(), r.GetDelta())
	line("spent", "epsilon %.4g in %d rounds", r.GetEpsilonSpent(), r.GetRounds())
	if r.GetQueued() {
		line("submitted", "%s by %s", r.GetSubmitted(), r.GetBy())
	} else {
		line("opened", "%s by %s, not through the queue", cli.Dash(r.GetSubmitted()), cli.Dash(r.GetBy()))
	}
	if r.GetWorker() != "" {
		connected := ", not connected"
		switch {
		case r.GetEnded() != "":
			connected = "" // nobody waits for it now
		case r.GetConnected():
			connected = ", connected"
		}
		line("worker", "%s of %s%s; taken %d times, last at %s",
			r.GetWorker(), r.GetHolder(), connected, r.GetClaims(), r.GetClaimed())
	}
	if p.GetRounds() > 0 {
		of := cmp.Or(p.GetOf(), "round")
		parts := []string{fmt.Sprintf("%s %d of %d", of, p.GetRound(), p.GetRounds()), p.GetWaiting(), p.GetPart()}
		line("progress", "%s", strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", "))
	}
	if r.GetEnded() != "" {
		line("ended", "%s", r.GetEnded())
	}
	switch {
	case r.GetClosed():
		line("ledger", "closed with %s", r.GetLedgerHead())
	case r.GetOpened():
		line("ledger", "open")
	default:
		line("ledger", "not opened; nothing was spent")
	}
	for _, f := range r.GetResults() {
		line(f.GetName(), "%s sha256:%s", f.GetPath(), f.GetSha256())
	}
	return w.Flush()
}
