package teacher

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// signer has the flags for a signature.
type signer struct{ as, key *string }

func newSigner(c *cobra.Command) signer {
	f := c.Flags()
	return signer{
		as:  f.String("as", "", "`certificate` of the approver, if the policy names approvers"),
		key: f.String("key", "", "`file` of its key"),
	}
}

// decider has the flags of a decision, shared by both commands.
type decider struct {
	signer
	spec, format *string
}

func newDecider(c *cobra.Command) decider {
	return decider{
		signer: newSigner(c),
		spec: c.Flags().String("spec", "", "start of the spec's SHA-256, as teacher runs shows it; needed if runs "+
			"with different specs have the same name"),
		format: cli.Format(c),
	}
}

// signs checks the flags, and returns a function that signs the decision; nil without a signature.
func (f signer) signs() (func(attest.Statement) (attest.Signature, error), error) {
	sign, err := review.Signer(*f.as, *f.key)
	if err != nil {
		return nil, cli.Misuse("%v", err)
	}
	return sign, nil
}

// decide records a decision, and shows the run or approval.
func (f decider) decide(config, run string, by sitepolicy.Decision) error {
	decided, err := review.Decide(config, run, *f.spec, by)
	switch {
	case err != nil:
		return err
	case *f.format == "json":
		return cli.PrintJSON(decided)
	case decided.Spec == nil:
		review.WriteAdvance(os.Stdout, *decided)
		return nil
	}
	brief, err := review.Brief(config, decided.Run, decided.SpecSHA256)
	if err != nil {
		return err
	}
	review.WriteBrief(os.Stdout, brief)
	if brief.State == sitepolicy.StateEnded {
		fmt.Fprintln(os.Stderr, "the run has ended: this decision is recorded, but changes nothing")
	}
	for _, r := range brief.Rules {
		if by.Approve && !r.Met {
			fmt.Fprintf(os.Stderr, "approved, but rule %s of the policy is not met: %s\n", r.Rule, r.Says)
		}
	}
	return nil
}

// approveCommand lets a run begin, or runs in advance.
func approveCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use: "approve --config FILE RUN [--until DAY | --for TIME] [--as CERT --key KEY] [--spec HASH] " +
			"[--student NAME --pipelines NAME,... --epsilon E [--purpose TEXT] [--study HASH]] " +
			"[--format json]",
		Short: "let a waiting run begin, or approve a student's runs in advance",
		Long: `Lets a waiting run begin. Read the output of ` + "`teacher runs RUN`" + ` first.

With --student the approval is in advance and has a NAME: undecided runs of that student may begin, as long as all
of them together cost this node no more than --epsilon. ` + "`teacher deny NAME`" + ` withdraws the approval.

An approval expires at the end of the day --until (UTC), or after the time --for. Without both, the policy's
approval_expires applies. If the policy names approvers, each signs with their own certificate and key (--as, --key).`,
		Args:              cli.AtMostOneArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	by := newDecider(c)
	f := c.Flags()
	until := f.String("until", "", "last `day` of the approval, like 2027-01-31, or its end, like 2027-01-31T18:00:00Z")
	term := f.String("for", "", "`time` after which the approval expires: days such as 30d, or a duration such as 36h")
	var advance sitepolicy.Advance
	f.StringVar(&advance.Student, "student", "", "approve in advance the runs of the student with this `name` in its "+
		"certificate")
	f.StringSliceVar(&advance.Pipelines, "pipelines", nil, "in advance: pipelines that the runs may use, separated "+
		"by commas")
	f.Float64Var(&advance.Epsilon, "epsilon", 0, "in advance: maximum cost of all these runs together at this node")
	f.StringVar(&advance.Purpose, "purpose", "", "in advance: required purpose of the runs (default: any)")
	f.StringVar(&advance.Study, "study", "", "in advance: SHA-256 of the required study.yaml (default: any study or "+
		"none)")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			return cli.Misuse("name a run; `teacher runs` lists those that asked")
		}
		d := sitepolicy.Decision{Approve: true}
		if d.Sign, err = by.signs(); err != nil {
			return err
		}
		if d.Until, err = review.End(*until, *term); err != nil {
			return cli.Misuse("%v", err)
		}
		if advance.Student != "" {
			d.Advance = &advance
		}
		for _, flag := range []string{"pipelines", "epsilon", "purpose", "study"} {
			if c.Flags().Changed(flag) && d.Advance == nil {
				return cli.Misuse("--%s is for approvals in advance only; name the student with --student", flag)
			}
		}
		return by.decide(*config, args[0], d)
	}
	return c
}

// denyCommand refuses a run, or withdraws an approval in advance.
func denyCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "deny --config FILE RUN [--as CERT --key KEY] [--spec HASH] [--format json]",
		Short: "refuse a run, stop an approved run, or withdraw an approval in advance",
		Long: `Refuses a run, stops an approved run, or withdraws an approval in advance by its name.
If the policy names approvers, a denial by --as and --key can be reversed only by the person who made it;
without these flags all approvers decide again.`,
		Args:              cli.AtMostOneArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	by := newDecider(c)
	c.RunE = func(_ *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			return cli.Misuse("name a run; `teacher runs` lists those that asked")
		}
		var d sitepolicy.Decision
		if d.Sign, err = by.signs(); err != nil {
			return err
		}
		return by.decide(*config, args[0], d)
	}
	return c
}
