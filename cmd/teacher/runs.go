package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/partition"
)

// enforcerOf is the enforcer of a node's policy. It knows nothing of the records.
func enforcerOf(path string, readOnly bool) (*sitepolicy.Enforcer, node.Config, error) {
	config, err := node.LoadConfig(path)
	if err != nil {
		return nil, config, err
	}
	if config.Policy == "" {
		return nil, config, fmt.Errorf("%s names no policy: whatever the aggregator's budget allows is answered, "+
			"and nothing is written down; set policy to a file", path)
	}
	schema, err := partition.LoadSchema(config.Schema)
	if err != nil {
		return nil, config, err
	}
	o := config.PolicyOptions(schema.SHA256)
	o.ReadOnly = readOnly
	o.Facts = sitepolicy.Facts{Units: unknown, LeastUnits: unknown}
	return sitepolicy.New(o), config, nil
}

// unknown is more privacy units than any policy asks for: how many there are is preflight's
// to say, which reads them.
const unknown = 1 << 62

// runsCommand lists the runs that asked the node.
func runsCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "runs --config FILE [--format json]",
		Short: "list the runs that asked this node, and what they were charged",
	}
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		enforcer, _, err := enforcerOf(*config, true)
		if err != nil {
			return err
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
		fmt.Printf("NOTHING IS ANSWERED: %s\n", s.Problem)
	}
	if l := s.Limit; l != nil {
		fmt.Printf("dataset %s, node %s/%s: epsilon %.6g spent at delta %g, ",
			s.Dataset, s.Site, s.Node, s.EpsilonSpent, l.Delta)
		fmt.Printf("which filter %s counts as %.6g of %g; room for a run of epsilon %.4g\n",
			l.Filter, s.EpsilonCounted, l.Epsilon, s.EpsilonLeft)
	}
	if len(s.Runs) == 0 {
		fmt.Println("no run has asked this node")
		return
	}
	w := cli.Columns()
	fmt.Fprintln(w, "run\tspec\tstate\trequester\tpipeline\tstages\tepsilon\tdelta\tanswers\tcharges\t"+
		"epsilon charged\tat most\tseen\tpurpose")
	for _, r := range s.Runs {
		t := r.Spec
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%g\t%g\t%s\t%d\t%.4g\t%s\t%s\t%s\n",
			r.Run, r.SpecSHA256[:12], stateText(r), cli.Dash(r.Requester), t.Pipeline, strings.Join(t.Stages(), ","),
			t.Epsilon, t.Delta, t.Noise(), r.Charges, r.EpsilonCharged, mostText(r), r.Seen, cli.Dash(t.Purpose))
	}
	_ = w.Flush()
	for _, r := range s.Runs {
		showMasked(r)
	}
	for _, r := range s.Runs {
		if r.Reason != "" {
			fmt.Printf("%s: %s\n", r.Run, r.Reason)
		}
	}
}

// mostText is what the whole run may come to at this site, as the limit counts it.
func mostText(r sitepolicy.Run) string {
	if r.EpsilonMost == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *r.EpsilonMost)
}

// showMasked shows among whom a run is masked, for people to compare before they approve it.
func showMasked(r sitepolicy.Run) {
	g := r.Spec.Masked
	if g == nil {
		return
	}
	fmt.Printf("%s is masked: a sum of %d of %d sites or more is opened, and is private where %d of them, at most, "+
		"hand the aggregator all they know\n", r.Run, g.Quorum, len(g.Members), g.Colluding)
	fmt.Printf("the answer to a round may be opened %d times, and each is charged: epsilon %s at most\n",
		r.RevealsAtMost, mostText(r))
	fmt.Println("compare each key with the people of its site, not with the aggregator's:")
	for _, m := range g.Members {
		fmt.Printf("  %s  %s\n", m.Site, certs.SpellFingerprint(m.Key.Hex()))
	}
}

func stateText(r sitepolicy.Run) string {
	if r.By != "" {
		return r.State + " by " + r.By
	}
	return r.State
}

// decideCommand approves or denies a run.
func decideCommand(config *string, what, short string) *cobra.Command {
	c := &cobra.Command{
		Use:               what + " --config FILE RUN [--spec HASH] [--format json]",
		Short:             short,
		Args:              cli.AtMostOneArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := cli.Format(c)
	spec := c.Flags().String("spec", "",
		"start of the spec's SHA-256, as teacher runs shows it; needed where runs of several specs have one name")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Misuse("name a run; `teacher runs` lists those that asked")
		}
		enforcer, config, err := enforcerOf(*config, false)
		if err != nil {
			return err
		}
		run, err := enforcer.Decide(args[0], *spec, what == "approve", whoami())
		if errors.Is(err, sitepolicy.ErrNoRun) {
			return fmt.Errorf("%w; the node of %s writes them down when they ask", err, config.State)
		}
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(run)
		}
		t := run.Spec
		fmt.Printf("run %s (spec %s) is %s: asked by %s, pipeline %s, epsilon %g at delta %g, %s\n", run.Run,
			run.SpecSHA256[:12], stateText(*run), cli.Dash(run.Requester), t.Pipeline, t.Epsilon, t.Delta, t.Noise())
		if t.Purpose != "" {
			fmt.Printf("its student says that it is for: %s\n", t.Purpose)
		}
		showMasked(*run)
		if run.Reason != "" {
			fmt.Println("the policy refuses it all the same:", run.Reason)
		}
		return nil
	}
	return c
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
