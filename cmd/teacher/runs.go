package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"

	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/teacher"
	"github.com/conclave-dp/conclave/partition"
)

// guardOf is the guard of a node's policy. It knows nothing of the records.
func guardOf(path string, readOnly bool) (*sitepolicy.Guard, teacher.Config, error) {
	config, err := teacher.LoadConfig(path)
	if err != nil {
		return nil, config, err
	}
	if config.Policy == "" {
		return nil, config, fmt.Errorf("%s names no policy: whatever the aggregator's budget allows is answered, and nothing is written down; set policy to a file", path)
	}
	schema, err := partition.LoadSchema(config.Schema)
	if err != nil {
		return nil, config, err
	}
	o := config.GuardOptions(schema.SHA256)
	o.ReadOnly = readOnly
	o.Facts = sitepolicy.Facts{Units: unknown, LeastUnits: unknown}
	return sitepolicy.New(o), config, nil
}

// unknown is more privacy units than any policy asks for: how many there are is preflight's
// to say, which reads them.
const unknown = 1 << 62

func runsCommand(_ context.Context, args []string) error {
	f, path, format := flags("runs", "runs --config FILE [--format json]")
	if _, err := parse(f, args, 0); err != nil {
		return err
	}
	guard, _, err := guardOf(*path, true)
	if err != nil {
		return err
	}
	status, err := guard.Status()
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(status)
	}
	showStatus(status)
	return nil
}

func showStatus(s *sitepolicy.Status) {
	if s.Problem != "" {
		fmt.Printf("NOTHING IS ANSWERED: %s\n", s.Problem)
	}
	if s.Limit != nil {
		fmt.Printf("dataset %s, node %s/%s: epsilon %.6g spent at delta %g, which filter %s counts as %.6g of %g; room for a run of epsilon %.4g\n",
			s.Dataset, s.Site, s.Node, s.EpsilonSpent, s.Limit.Delta, s.Limit.Filter, s.EpsilonCounted, s.Limit.Epsilon, s.EpsilonLeft)
	}
	if len(s.Runs) == 0 {
		fmt.Println("no run has asked this node")
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "run\tspec\tstate\tpipeline\tstages\tepsilon\tdelta\tnoise\tcharges\tepsilon charged\tseen")
	for _, r := range s.Runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%g\t%g\t%s\t%d\t%.4g\t%s\n", r.Run, r.SpecSHA256[:12], stateText(r), r.Terms.Pipeline,
			strings.Join(r.Terms.Stages, ","), r.Terms.Epsilon, r.Terms.Delta, r.Terms.Mechanism, r.Charges, r.EpsilonCharged, r.Seen)
	}
	_ = w.Flush()
	for _, r := range s.Runs {
		if r.Reason != "" {
			fmt.Printf("%s: %s\n", r.Run, r.Reason)
		}
	}
}

func stateText(r sitepolicy.Run) string {
	if r.By != "" {
		return r.State + " by " + r.By
	}
	return r.State
}

func decide(_ context.Context, what string, args []string) error {
	f, path, format := flags(what, what+" --config FILE RUN [--spec HASH] [--format json]")
	spec := f.String("spec", "", "start of the spec's SHA-256, as `teacher runs` shows it; needed where runs of several specs have one name")
	words, err := parse(f, args, 1)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return misuse(f, "name a run; `teacher runs` lists those that asked")
	}
	guard, config, err := guardOf(*path, false)
	if err != nil {
		return err
	}
	run, err := guard.Decide(words[0], *spec, what == "approve", whoami())
	if errors.Is(err, sitepolicy.ErrNoRun) {
		return fmt.Errorf("%w; the node of %s writes them down when they ask", err, config.State)
	}
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(run)
	}
	fmt.Printf("run %s (spec %s) is %s: pipeline %s, epsilon %g at delta %g, %s\n",
		run.Run, run.SpecSHA256[:12], stateText(*run), run.Terms.Pipeline, run.Terms.Epsilon, run.Terms.Delta, run.Terms.Mechanism)
	if run.Reason != "" {
		fmt.Println("the policy refuses it all the same:", run.Reason)
	}
	return nil
}

// whoami names who decides, as the system calls them.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
