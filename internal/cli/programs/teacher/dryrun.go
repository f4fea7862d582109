package teacher

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/node/dryrun"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// dryRunFlags describe a run that nobody has asked for yet.
type dryRunFlags struct {
	run, pipeline  string
	epsilon, delta float64
	values         bool
	structure      bool
	format         *string
}

// dryRunCommand shows what would leave the site in a run.
func dryRunCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use: "dry-run --config FILE (--run run.yaml | --pipeline NAME [--epsilon E] [--delta D]) [--structure | " +
			"--show-values] [--format json]",
		Short: "show what would leave this site and what the policy decides",
	}
	var o dryRunFlags
	o.format = cli.Format(c)
	f := c.Flags()
	f.StringVar(&o.run, "run", "", "the run.yaml `file` that a student would run")
	f.StringVar(&o.pipeline, "pipeline", "",
		"a `pipeline` with its defaults, instead of a run.yaml: "+strings.Join(pipelines.Names(nil), ", "))
	f.Float64Var(&o.epsilon, "epsilon", 1, "budget of the run, with --pipeline")
	f.Float64Var(&o.delta, "delta", 1e-5, "delta of the run, with --pipeline")
	f.BoolVar(&o.values, "show-values", false,
		"show the teachers' answers to synthetic records, PRIVATE to the site; on a terminal only")
	f.BoolVar(&o.structure, "structure", false, "read no rows, of tables that are not loaded into memory: takes "+
		"seconds; record counts are those of the node's first start")
	c.RunE = func(*cobra.Command, []string) error {
		switch {
		case o.structure && o.values:
			return cli.Misuse("--show-values needs the rows; leave out --structure")
		case (o.run == "") == (o.pipeline == ""):
			return cli.Misuse("name a run with --run, or a pipeline with --pipeline")
		case o.values && *o.format == "json":
			return cli.Misuse("--show-values shows private numbers to people; leave out --format json")
		case o.values && !term.IsTerminal(int(os.Stdout.Fd())):
			return cli.Misuse("--show-values prints numbers that are PRIVATE to the site, to a terminal only; do not " +
				"redirect the output")
		}
		return dryRun(*config, o)
	}
	return c
}

func dryRun(path string, o dryRunFlags) error {
	config, err := node.LoadConfig(path)
	if err != nil {
		return err
	}
	var spec *runfile.Spec
	if o.run != "" {
		spec, err = runfile.Load(o.run)
	} else {
		spec, err = dryrun.Spec(config, o.pipeline, o.epsilon, o.delta)
	}
	if err != nil {
		return err
	}
	read := node.ReadSite
	if o.structure {
		read = node.SiteStructure
		cli.Warn("no rows were read: record counts are those of the node's first start; before that, the policy's " +
			"rules about them count as met")
	}
	site, err := read(config, kinds.All(), cli.Warn)
	if err != nil {
		return err
	}
	report, err := dryrun.New(config, site, spec)
	if err != nil {
		return err
	}
	if *o.format == "json" {
		return cli.PrintJSON(report)
	}
	if err := showDryRun(report); err != nil || !o.values {
		return err
	}
	return showPrivate(report, site)
}

func showDryRun(r *dryrun.Report) error {
	t := r.Terms
	fmt.Printf("run %s: pipeline %s, epsilon %g at delta %g, %s\n", r.Run, t.Pipeline, t.Epsilon, t.Delta, t.Noise())
	if t.Purpose != "" {
		fmt.Printf("purpose: %s\n", t.Purpose)
	}
	if t.Study != nil {
		fmt.Printf("study: %s; ends on %s\n", t.Study.Line(), t.Study.Expires)
	}
	fmt.Printf("\nsent by the node when it connects (%d bytes):\n", r.HelloBytes)
	w := cli.Columns()
	for _, h := range r.Hello {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", h.Name, h.Value, h.Says)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, q := range r.Questions {
		fmt.Printf("\n%s: %d x %s of at most %d bytes\n", q.Kind, q.Times, q.Message, q.Bytes)
		fmt.Printf("  %s\n  seen without noise by: %s\n", q.Content, q.SeenBy)
		fmt.Printf("  charged %s: %s, epsilon %.4g together\n", text.Several(q.Charged, "time"), charges(q.Charges),
			q.EpsilonAll)
		fmt.Printf("  policy: %s\n", q.Verdict)
	}
	fmt.Printf("\ntotal: epsilon %.4g at delta %g\n", r.EpsilonAll, r.Terms.Delta)
	if r.RevealsAtMost > 1 {
		fmt.Printf("the answer to a round may be opened %d times, and each opening is charged here: epsilon %.4g at "+
			"most\n",
			r.RevealsAtMost, r.EpsilonMost)
	}
	fmt.Printf("policy: %s\n", r.Policy)
	fmt.Println("a refusal names a rule of the policy, or the error in a question, and never a number of records")
	fmt.Println("what never leaves:")
	for _, what := range r.NeverLeaving {
		fmt.Println("  " + what)
	}
	return nil
}

// charges is what one answer is charged, in words.
func charges(events []privacy.Event) string {
	words := make([]string, len(events))
	for i, e := range events {
		words[i] = e.Words()
		if e.Count > 1 {
			words[i] = fmt.Sprintf("%d x %s", e.Count, words[i])
		}
	}
	return strings.Join(words, "; ")
}

func showPrivate(r *dryrun.Report, site *node.Site) error {
	answers, err := r.Rehearse(site)
	if errors.Is(err, dryrun.ErrNothing) {
		fmt.Println(err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("\nPRIVATE TO THIS SITE, do not share: answers of untrained teachers to synthetic records")
	for _, a := range answers {
		fmt.Printf("PRIVATE %s:\n%s", a.Kind, a.Text)
	}
	return nil
}
