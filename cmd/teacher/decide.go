package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// signer is how somebody signs, by the flags of a command.
type signer struct{ as, key *string }

func newSigner(c *cobra.Command) signer {
	f := c.Flags()
	return signer{
		as: f.String("as", "", "`certificate` of role approver of the person who decides, where the policy names "+
			"approvers"),
		key: f.String("key", "", "`file` of its key"),
	}
}

// decider is how somebody decides, by the flags of both commands.
type decider struct {
	signer
	spec, format *string
}

func newDecider(c *cobra.Command) decider {
	return decider{
		signer: newSigner(c),
		spec: c.Flags().String("spec", "", "start of the spec's SHA-256, as teacher runs shows it; needed where runs "+
			"of several specs have one name"),
		format: cli.Format(c),
	}
}

// signs checks the flags, and returns how the decision is signed; nil where it is not.
func (f signer) signs() (func(attest.Statement) (attest.Signature, error), error) {
	if (*f.as == "") != (*f.key == "") {
		return nil, cli.Misuse("--as, --key: give both, or neither")
	}
	if *f.as == "" {
		return nil, nil
	}
	files := certs.Files{Cert: *f.as, Key: *f.key}
	return func(s attest.Statement) (attest.Signature, error) { return attest.SignBy(files, s) }, nil
}

// decide writes a decision down, and shows what was decided about.
func (f decider) decide(config, run string, by sitepolicy.Decision) error {
	enforcer, settings, err := enforcerOf(config, false)
	if err != nil {
		return err
	}
	by.By = whoami()
	decided, err := enforcer.Decide(run, *f.spec, by)
	if errors.Is(err, sitepolicy.ErrNoRun) {
		return fmt.Errorf("%w; the node of %s writes them down when they ask", err, settings.State)
	}
	if err != nil {
		return err
	}
	last := decided.Said[len(decided.Said)-1]
	if err := node.Decided(settings, *decided, by.Approve, last.By); err != nil {
		return fmt.Errorf("the decision stands in the site's ledger, and not in the audit log: %w", err)
	}
	if *f.format == "json" {
		return cli.PrintJSON(decided)
	}
	if decided.Spec == nil {
		showAdvance(*decided)
		return nil
	}
	brief, err := enforcer.Brief(decided.Run, decided.SpecSHA256)
	if err != nil {
		return err
	}
	showBrief(brief)
	return nil
}

// approveCommand lets a run begin, or runs in advance.
func approveCommand(config *string) *cobra.Command {
	c := &cobra.Command{
		Use: "approve --config FILE RUN [--until DAY | --for TIME] [--as CERT --key KEY] [--spec HASH] " +
			"[--student NAME --pipelines NAME,... --epsilon E [--purpose TEXT] [--study HASH]] " +
			"[--format json]",
		Short: "let a waiting run begin, or approve a student's runs in advance",
		Long: `Lets a waiting run begin. First read what ` + "`teacher runs RUN`" + ` says about it.

With --student it approves in advance, under a NAME: undecided runs of that student may begin, as
long as all of them together cost this node no more than --epsilon. ` + "`teacher deny NAME`" + ` withdraws it.

An approval expires at the end of --until, a day in UTC, or after --for; without both, as the policy's approval_expires
says. If the policy names approvers, each signs with their own certificate and key (--as, --key).`,
		Args:              cli.AtMostOneArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	by := newDecider(c)
	f := c.Flags()
	until := f.String("until", "", "`day` like 2027-01-31 until whose end it holds, or a moment like "+
		"2027-01-31T18:00:00Z")
	term := f.String("for", "", "`time` for which it holds: days such as 30d, or a duration such as 36h")
	var advance sitepolicy.Advance
	f.StringVar(&advance.Student, "student", "", "in advance: `name` in the certificate of the student whose runs "+
		"may begin")
	f.StringSliceVar(&advance.Pipelines, "pipelines", nil, "in advance: what the runs may have, with commas")
	f.Float64Var(&advance.Epsilon, "epsilon", 0, "in advance: the most that all these runs together may cost this node")
	f.StringVar(&advance.Purpose, "purpose", "", "in advance: `text` that must be the runs' purpose; anything "+
		"without it")
	f.StringVar(&advance.Study, "study", "", "in advance: SHA-256 of the study.yaml that the runs must be of; any "+
		"without it")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			return cli.Misuse("name a run; `teacher runs` lists those that asked")
		}
		d := sitepolicy.Decision{Approve: true}
		if d.Sign, err = by.signs(); err != nil {
			return err
		}
		if d.Until, err = end(*until, *term); err != nil {
			return err
		}
		if advance.Student != "" {
			d.Advance = &advance
		}
		for _, flag := range []string{"pipelines", "epsilon", "purpose", "study"} {
			if c.Flags().Changed(flag) && d.Advance == nil {
				return cli.Misuse("--%s is of an approval in advance; say with --student whose runs it is for", flag)
			}
		}
		return by.decide(*config, args[0], d)
	}
	return c
}

// end is when an approval ends, by one of two flags; zero without them.
func end(until, term string) (time.Time, error) {
	switch {
	case until != "" && term != "":
		return time.Time{}, cli.Misuse("--until, --for: give one of them")
	case until != "":
		at, err := sitepolicy.ParseUntil(until)
		if err != nil {
			return at, cli.Misuse("--until: %v", err)
		}
		return at, nil
	case term != "":
		d, err := sitepolicy.ParseTerm(term)
		if err != nil {
			return time.Time{}, cli.Misuse("--for: %v", err)
		}
		return time.Now().Add(d), nil
	}
	return time.Time{}, nil
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
