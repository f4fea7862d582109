package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/requester"
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

func printRun(r *conclavev1.RunStatus, p *conclavev1.RunProgress) error {
	w := cli.Columns()
	line := func(field, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{field}, args...)...)
	}
	line("name", "%s", r.GetName())
	line("dataset", "%s", r.GetDataset())
	line("state", "%s", requester.Standing(r))
	if r.GetPurpose() != "" {
		line("purpose", "%s", r.GetPurpose())
	}
	if of := study.FromWire(r.GetStudy()); of != nil {
		line("study", "%s; ends on %s", of.Line(), of.Expires)
	}
	line("pipeline", "%s, %s", r.GetPipeline(), text.Several(int64(r.GetTeachers()), "teacher"))
	line("budget", "epsilon %g, delta %g", r.GetEpsilon(), r.GetDelta())
	line("spent", "epsilon %.4g in %s", r.GetEpsilonSpent(), text.Several(int64(r.GetRounds()), "round"))
	if r.GetQueued() {
		line("submitted", "%s by %s", r.GetSubmitted(), r.GetBy())
	} else {
		line("opened", "%s by %s, without the queue", cli.Dash(r.GetSubmitted()), cli.Dash(r.GetBy()))
	}
	if r.GetWorker() != "" {
		connected := ", not connected"
		switch {
		case r.GetEnded() != "":
			connected = "" // nobody waits for it now
		case r.GetConnected():
			connected = ", connected"
		}
		line("worker", "%s of %s%s; claimed %s, last at %s",
			r.GetWorker(), r.GetHolder(), connected, text.Several(int64(r.GetClaims()), "time"), minute(r.GetClaimed()))
	}
	if said := requester.ProgressText(p); said != "" {
		line("progress", "%s", said)
	}
	if r.GetEnded() != "" {
		line("ended", "%s", minute(r.GetEnded()))
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

// minute is a time for people, without the seconds that the aggregator cuts off: how long a run takes depends slightly
// on records.
func minute(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return t.UTC().Format("2006-01-02T15:04Z") + ", cut to the minute"
}
