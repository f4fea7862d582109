package teacher

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// runsCommand lists the runs that asked the node, or shows one.
func runsCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "runs --config FILE [RUN [--spec HASH]] [--format json]",
		Short: "list the runs that asked this node, or show one run",
		Long: `Lists the runs that asked this node, and what each has cost. A run asks some seconds after it is
submitted. With a RUN the command shows what an approver needs to know: who asks and why, what leaves this node with
how much noise, what the run costs, and what it can reveal about a person.`,
		Args:              cli.AtMostOneArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := cli.Format(c)
	spec := c.Flags().String("spec", "",
		"start of the spec's SHA-256; needed if several specs have the same run name")
	c.RunE = func(_ *cobra.Command, args []string) error {
		enforcer, _, err := review.Open(*config, true)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			brief, err := enforcer.Brief(args[0], *spec)
			switch {
			case err != nil:
				return err
			case *format == "json":
				return cli.PrintJSON(brief)
			}
			review.WriteBrief(os.Stdout, brief)
			return nil
		}
		status, err := enforcer.Status()
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(status)
		}
		showStatus(status)
		return nil
	}
	return c
}

func showStatus(s *sitepolicy.Status) {
	if s.Problem != "" {
		fmt.Printf("NO QUESTIONS ARE ANSWERED: %s\n", s.Problem)
	}
	if l := s.Limit; l != nil {
		fmt.Printf("dataset %s, node %s/%s: epsilon %.6g spent at delta %g, ",
			s.Dataset, s.Site, s.Node, s.EpsilonSpent, l.Delta)
		fmt.Printf("counted by filter %s as %.6g of %g; room for a run of epsilon %.4g\n",
			l.Filter, s.EpsilonCounted, l.Epsilon, s.EpsilonLeft)
	}
	for _, a := range s.InAdvance {
		review.WriteAdvance(os.Stdout, a)
	}
	if len(s.Runs) == 0 {
		fmt.Println("no run has asked this node")
		return
	}
	w := cli.Columns()
	fmt.Fprintln(w, "run\tspec\tstate\trequester\tpipeline\tepsilon\tdelta\tcharges\tepsilon charged\t"+
		"at most\tseen\tpurpose\tstudy")
	for _, r := range s.Runs {
		t := r.Spec
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%g\t%g\t%d\t%.4g\t%s\t%s\t%s\t%s\n",
			r.Run, r.SpecSHA256[:12], review.StateText(r), cli.Dash(r.Requester), t.Pipeline,
			t.Epsilon, t.Delta, r.Charges, r.EpsilonCharged, review.MostText(r), r.Seen, cli.Dash(t.Purpose),
			cli.Dash(t.Study.String()))
	}
	_ = w.Flush()
	for _, r := range s.Runs {
		if r.Reason != "" {
			fmt.Printf("%s: %s\n", r.Run, r.Reason)
		}
	}
	fmt.Println("read the output of `teacher runs RUN` before you approve a run")
}
