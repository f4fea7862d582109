package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/teacher"
	"github.com/conclave-dp/conclave/internal/teacher/dryrun"
)

func dryRunCommand(_ context.Context, args []string) error {
	f, path, format := flags("dry-run", "dry-run --config FILE (--run run.yaml | --pipeline NAME [--epsilon E] [--delta D]) [--show-values] [--format json]")
	runPath := f.String("run", "", "the run.yaml that a student would run")
	pipeline := f.String("pipeline", "", "a pipeline with its defaults, in place of a run.yaml: pategan, gpate, dpgan or embed")
	epsilon := f.Float64("epsilon", 1, "budget of the run, with --pipeline")
	delta := f.Float64("delta", 1e-5, "its delta")
	values := f.Bool("show-values", false, "show answers of the teachers to synthetic records, PRIVATE to the site; on a terminal only")
	if _, err := parse(f, args, 0); err != nil {
		return err
	}
	switch {
	case (*runPath == "") == (*pipeline == ""):
		return misuse(f, "name a run with --run, or a pipeline with --pipeline")
	case *values && *format == "json":
		return misuse(f, "--show-values shows private numbers to people; leave out --format json")
	case *values && !term.IsTerminal(int(os.Stdout.Fd())):
		return misuse(f, "--show-values shows numbers that are PRIVATE to the site, on its own terminal; do not redirect it")
	}
	config, err := teacher.LoadConfig(*path)
	if err != nil {
		return err
	}
	var spec *run.Spec
	if *runPath != "" {
		spec, err = run.Load(*runPath)
	} else {
		spec, err = dryrun.Spec(config, *pipeline, *epsilon, *delta)
	}
	if err != nil {
		return err
	}
	site, err := teacher.ReadSite(config)
	if err != nil {
		return err
	}
	report, err := dryrun.New(config, site, spec)
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(report)
	}
	if err := showDryRun(report); err != nil || !*values {
		return err
	}
	return showPrivate(report, site)
}

func showDryRun(r *dryrun.Report) error {
	fmt.Printf("run %s: pipeline %s, epsilon %g at delta %g, %s\n", r.Run, r.Terms.Pipeline, r.Terms.Epsilon, r.Terms.Delta, r.Terms.Mechanism)
	fmt.Printf("\nwhat the node says of itself, once for each connection (%d bytes):\n", r.HelloBytes)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, h := range r.Hello {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", h.Name, h.Value, h.Says)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, q := range r.Questions {
		charges, err := json.Marshal(q.Charges)
		if err != nil {
			return err
		}
		fmt.Printf("\n%s: %d x %s of at most %d bytes\n", q.Kind, q.Times, q.Message, q.Bytes)
		fmt.Printf("  %s\n  without noise it is seen by %s\n", q.Content, q.SeenBy)
		fmt.Printf("  charged %d times: %s, epsilon %.4g together\n  policy: %s\n", q.Charged, charges, q.EpsilonAll, q.Verdict)
	}
	fmt.Printf("\nall of it comes to epsilon %.4g at delta %g\npolicy: %s\n", r.EpsilonAll, r.Terms.Delta, r.Policy)
	fmt.Println("a refusal names a rule of the policy, or what is wrong with a question, and no number of records")
	fmt.Println("what never leaves:")
	for _, what := range r.NeverLeaving {
		fmt.Println("  " + what)
	}
	return nil
}

func showPrivate(r *dryrun.Report, site *teacher.Site) error {
	answers, err := r.Rehearse(site)
	if errors.Is(err, dryrun.ErrNothing) {
		fmt.Println(err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("\nPRIVATE TO THIS SITE, do not pass it on: what teachers that begin untrained answer to synthetic records")
	for _, a := range answers {
		fmt.Printf("PRIVATE %s:\n%s", a.Kind, a.Text)
	}
	return nil
}
