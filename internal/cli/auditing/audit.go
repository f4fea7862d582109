// Package auditing has the command that tests the privacy claim. It needs a whole aggregator, unlike the commands
// that only compute.
package auditing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/conclave-dp/conclave/internal/audit"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Command is the command audit.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit [flags]",
		Short: "test the privacy claim with the releases of thousands of runs",
	}
	o := audit.DefaultOptions()
	f := c.Flags()
	mechanism := f.String("mechanism", "all",
		"all, gnmax, confident-gnmax, lnmax, laplace, gaussian, or one case: "+strings.Join(audit.Cases(), ", "))
	f.IntVar(&o.Runs, "runs", o.Runs, "runs of each case in each of the two worlds")
	f.Float64Var(&o.Epsilon, "epsilon", o.Epsilon, "epsilon of one run; 1 to 3 is best for finding errors")
	f.Float64Var(&o.Delta, "delta", o.Delta, "delta of one run; a thousand runs show little with a small delta")
	f.Float64Var(&o.Confidence, "confidence", o.Confidence, "confidence of each lower bound")
	format := cli.Format(c)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if o.Cases, err = audit.Select(*mechanism); err != nil {
			return cli.Misuse("--mechanism %v", err)
		}
		if err := o.Validate(); err != nil {
			return cli.Misuse("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return auditClaim(c.Context(), o, *format)
	}
	return c
}

func auditClaim(ctx context.Context, o audit.Options, format string) error {
	watch := auditWatch{terminal: term.IsTerminal(int(os.Stderr.Fd())), began: time.Now()}
	o.Watch = watch.update
	started := time.Now()
	results, err := audit.Run(ctx, o)
	watch.clear()
	if ctx.Err() != nil && err != nil {
		return errors.New("interrupted; an audit cannot be resumed, start it again")
	}
	if err != nil {
		return err
	}
	if format == "json" {
		err = cli.PrintJSON(map[string]any{
			"cases": results, "violation": audit.Violated(results) != nil,
			"wall_seconds": time.Since(started).Seconds(),
		})
	} else {
		showAudit(results, o, time.Since(started))
	}
	return errors.Join(err, audit.Violated(results))
}

func showAudit(results []audit.Result, o audit.Options, took time.Duration) {
	fmt.Printf("%d runs in each of two neighbouring worlds, delta %g, confidence %g for each bound\n",
		o.Runs, o.Delta, o.Confidence)
	fmt.Printf("%-16s  %-34s  %7s  %7s\n", "case", "one run, by the ledger", "claimed", "seen")
	for _, r := range results {
		fmt.Printf("%-16s  %-34s  %7.3f  %7.3f  %s\n",
			r.Name(), eventWords(r.Events), r.Epsilon, r.LowerBound.Epsilon, r.Verdict())
	}
	fmt.Printf("claimed: epsilon of one run; seen: lower bound of epsilon, proven by the runs; %.0f s\n",
		took.Seconds())
	fmt.Println("a figure below the claim does not prove privacy; docs/audit.md says what this test can detect")
}

// eventWords describes the cost of a run briefly.
func eventWords(events []privacy.Event) string {
	var words []string
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
	for _, e := range events {
		switch e.Kind {
		case privacy.GNMax:
			words = append(words, fmt.Sprintf("%d x sigma %s", e.Count, number(e.Sigma)))
		case privacy.ConfidentGNMax:
			words = append(words, fmt.Sprintf("%d x sigma1 %s, sigma2 %s", e.Asked, number(e.Sigma1), number(e.Sigma2)))
		case privacy.LNMax:
			words = append(words, fmt.Sprintf("%d x lambda %s", e.Count, number(e.Lambda)))
		case privacy.Gaussian:
			words = append(words, fmt.Sprintf("%d x gaussian sigma %s", e.Count, number(e.Sigma)))
		default:
			words = append(words, fmt.Sprintf("%d x %s epsilon %s", e.Count, e.Kind, number(e.Epsilon)))
		}
	}
	return strings.Join(words, "; ")
}

// auditWatch shows the progress of an audit: an updated line on a terminal, a line per case elsewhere.
type auditWatch struct {
	terminal bool
	began    time.Time // start of the case
	name     string
	shown    time.Time
}

func (w *auditWatch) update(name string, done, total int) {
	now := time.Now()
	if name != w.name {
		w.name, w.began = name, now
		if !w.terminal {
			fmt.Fprintf(os.Stderr, "%s: %d runs\n", name, total)
		}
	}
	if !w.terminal || (now.Sub(w.shown) < 200*time.Millisecond && done < total) {
		return
	}
	w.shown = now
	left := ""
	if spent := now.Sub(w.began); done > 20 && spent > time.Second {
		rest := spent / time.Duration(done) * time.Duration(total-done)
		left = fmt.Sprintf(", %.0f runs/s, %v left", float64(done)/spent.Seconds(), rest.Round(time.Second))
	}
	fmt.Fprintf(os.Stderr, "\r\x1b[K%s: %d of %d runs%s", name, done, total, left)
}

func (w *auditWatch) clear() {
	if w.terminal && w.name != "" {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
