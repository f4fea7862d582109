package review

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/study"
)

// WriteBrief writes what a person should know to decide about a run.
func WriteBrief(w io.Writer, b *sitepolicy.Brief) {
	if b.Spec == nil {
		WriteAdvance(w, b.Run)
		return
	}
	s := b.Spec
	fmt.Fprintf(w, "run %s (spec %s) on dataset %s at node %s/%s is %s\n", b.Run.Run, b.SpecSHA256[:12], b.Dataset,
		b.Site, b.Node, StateText(b.Run))
	if b.Reason != "" {
		fmt.Fprintln(w, "the policy refuses it, even with an approval:", b.Reason)
	}
	showDecisions(w, b.Run)
	fmt.Fprintf(w, "requester: %s, according to the aggregator\n", cli.Dash(b.Requester))
	fmt.Fprintf(w, "purpose: %s\n", purposeText(s.Purpose))
	showStudy(w, s.Study)
	fmt.Fprintf(w, "pipeline %s, budget epsilon %g at delta %g, by %s of all sites\n", s.Pipeline, s.Epsilon,
		s.Delta, text.Several(int(s.Teachers), "teacher"))
	fmt.Fprintf(w, "protected unit: one %s%s\n", s.Unit, cmp.Or(meaning.At(s.Overlap), " at one site"))
	fmt.Fprintln(w, "\nwhat leaves this node:")
	for _, l := range b.Leaves {
		showLeaving(w, l, s.Unit)
	}
	fmt.Fprintln(w, "  compare these counts with your minimum cell count for publication (nfilter.tab of DataSHIELD, "+
		"minCellCount of OHDSI)")
	showCost(w, b)
	fmt.Fprintf(w, "\nwhat it can reveal about one person, %s:\n  %s %s %s\n", condition(b),
		meaning.Percent(b.Telling.Chance), b.Telling.Says("one "+s.Unit+meaning.At(s.Overlap)), b.Telling.Basis())
	fmt.Fprintf(w, "  the run's budget, epsilon %g at delta %g, is %s protection: %s\n", s.Epsilon, s.Delta, b.Strength,
		b.Why)
	if len(b.Rules) > 0 {
		fmt.Fprintln(w, "\nrules of the policy:")
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range b.Rules {
		fmt.Fprintf(columns, "  %s\t%s\t%s\n", r.Rule, map[bool]string{true: "met", false: "NOT MET"}[r.Met], r.Says)
	}
	_ = columns.Flush()
	showMasked(w, b.Run)
}

// condition says which releases the run's chance of telling is about.
func condition(b *sitepolicy.Brief) string {
	switch {
	case b.State == sitepolicy.StateEnded:
		return "by the answers that were charged"
	case b.EpsilonMost != nil && b.RevealsAtMost > 1: // else the figure is that of the budget
		return fmt.Sprintf("if its whole plan is released and every round is opened %d times", b.RevealsAtMost)
	}
	return "if its whole plan is released"
}

// showStudy shows what the run says about its study, for comparison with the document that people have.
func showStudy(w io.Writer, of *study.Block) {
	if of == nil {
		fmt.Fprintln(w, "study: none")
		return
	}
	fmt.Fprintf(w, "study: %s (%s), ends on %s (UTC)\n  its purpose: %s\n  data permit: %s\n  contact: %s\n",
		of.Title, of.Name, of.Expires, of.Purpose, of.Permit, of.Contact)
	fmt.Fprintf(w, "  SHA-256 of its protocol, study.yaml: %s\n  (stated by the student, except this hash if the "+
		"policy requires it; compare: sha256sum study.yaml)\n", of.SHA256)
}

func purposeText(purpose string) string {
	if purpose == "" {
		return "the student does not say"
	}
	return fmt.Sprintf("%s (stated by the student; not checked)", purpose)
}

// showLeaving shows the answers to an entry of the plan.
func showLeaving(w io.Writer, l sitepolicy.Leaving, unit string) {
	stage := ""
	if l.Stage != "" {
		stage = ", by stage " + l.Stage
	}
	fmt.Fprintf(w, "  %s%s\n    each answer holds %s\n    seen before noise is added by: %s\n", l.Mechanism, stage,
		l.Answer, l.SeenBy)
	if l.Deviation == 0 {
		fmt.Fprintln(w, "    the release is a random choice and contains no count")
		return
	}
	fmt.Fprintf(w, "    noise: standard deviation %.4g x the maximum contribution of one %s; fewer than %d cannot be "+
		"detected in one release (%d x %.4g)", l.Deviation, unit, l.HiddenOnce, meaning.HiddenSigmas, l.Deviation)
	if l.Times > 1 {
		fmt.Fprintf(w, ",\n    and fewer than %d cannot be detected in all %d releases together, if they ask the same "+
			"(%d x %.4g / sqrt(%d))", l.HiddenInAll, l.Times, meaning.HiddenSigmas, l.Deviation, l.Times)
	}
	fmt.Fprintln(w)
}

func showCost(w io.Writer, b *sitepolicy.Brief) {
	fmt.Fprintln(w, "\nwhat it costs this node:")
	if b.State == sitepolicy.StateEnded {
		fmt.Fprintln(w, "  the run has ended, and costs no more")
	} else if b.EpsilonMost == nil {
		fmt.Fprintf(w, "  its plan has no bound; its budget is epsilon %g at delta %g\n", b.Spec.Epsilon, b.Spec.Delta)
	} else if b.Limit != nil {
		fmt.Fprintf(w, "  at most epsilon %s at delta %g, by filter %s", MostText(b.Run), b.Limit.Delta,
			b.Limit.Filter)
		if b.RevealsAtMost > 1 {
			fmt.Fprintf(w, ", in the worst case, with every round opened %d times", b.RevealsAtMost)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  charged so far for %s: epsilon %.4g\n", text.Several(b.Charges, "answer"), b.EpsilonCharged)
	if b.Limit == nil {
		return
	}
	fmt.Fprintf(w, "  the site's limit is epsilon %g: room for a run of %.4g now", b.Limit.Epsilon, b.LeftNow)
	if b.LeftAfter != nil {
		fmt.Fprintf(w, ", and of %.4g after all of this run", *b.LeftAfter)
	}
	fmt.Fprintln(w)
}

// showDecisions shows who decided, if the policy counts persons or a decision does not count.
func showDecisions(w io.Writer, r sitepolicy.Run) {
	if r.ApprovalsNeeded > 0 {
		fmt.Fprintf(w, "approvals: %d of %d\n", r.Approvals, r.ApprovalsNeeded)
	}
	for _, d := range r.Said {
		text := fmt.Sprintf("  %s by %s at %s", d.Decision, d.By, d.Made)
		if d.Until != "" {
			text += " until " + d.Until
		}
		if !d.Counts {
			text += ", which does not count: " + d.Why
		}
		fmt.Fprintln(w, text)
	}
}

// WriteAdvance describes an approval in advance, and what runs under it have cost.
func WriteAdvance(w io.Writer, r sitepolicy.Run) {
	a := r.Advance
	fmt.Fprintf(w, "in advance, %s (spec %s) is %s: runs of %s, pipelines %s, purpose %s, ", r.Run, r.SpecSHA256[:12],
		StateText(r), a.Student, strings.Join(a.Pipelines, ","), cli.Dash(a.Purpose))
	if a.Study != "" {
		fmt.Fprintf(w, "of the study with SHA-256 %s, ", a.Study)
	}
	fmt.Fprintf(w, "together at most epsilon %g; the cost so far, of %s: %.4g\n", a.Epsilon,
		text.Several(r.Charges, "answer"),
		r.EpsilonCharged)
	showDecisions(w, r)
}

// MostText is the most that the whole run may cost at this site, as the limit counts it.
func MostText(r sitepolicy.Run) string {
	if r.EpsilonMost == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *r.EpsilonMost)
}

// showMasked shows the members of a masked run, for comparison before approval.
func showMasked(w io.Writer, r sitepolicy.Run) {
	g := r.Spec.Masked
	if g == nil {
		return
	}
	fmt.Fprintf(w, "\n%s is masked: sums need at least %d of %d sites, and stay private while the number of them "+
		"that collude with the aggregator is at most %d\n", r.Run, g.Quorum, len(g.Members), g.Colluding)
	fmt.Fprintf(w, "the answer to a round may be opened %s, and each opening is charged",
		text.Several(r.RevealsAtMost, "time"))
	if r.EpsilonMost != nil {
		fmt.Fprintf(w, ": at most epsilon %s", MostText(r))
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "compare each key with people at its site, not with the aggregator's operator:")
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range g.Members {
		fmt.Fprintf(columns, "  %s\t%s\n", m.Site, certs.SpellFingerprint(m.Key.Hex()))
	}
	_ = columns.Flush()
}

// decision says what those named in r.By decided.
func decision(r sitepolicy.Run) string {
	for _, d := range r.Said {
		if d.Counts && d.Decision == sitepolicy.EntryDeny {
			return sitepolicy.StateDenied
		}
	}
	return sitepolicy.StateApproved
}

// StateText is a state with who decided, until when, and what is missing.
func StateText(r sitepolicy.Run) string {
	text := r.State
	switch {
	case r.State == sitepolicy.StateWaiting && r.ApprovalsNeeded > 1:
		text += fmt.Sprintf(" (%d of %d)", r.Approvals, r.ApprovalsNeeded)
	case r.By != "" && (r.State == sitepolicy.StateEnded || r.State == sitepolicy.StateRefused):
		// The run ended by itself, or the policy refuses it. People decided something else.
		text += ", " + decision(r) + " by " + r.By
	case r.By != "" && r.State != sitepolicy.StateWaiting:
		text += " by " + r.By
	}
	if r.Until != "" && r.State == sitepolicy.StateApproved {
		text += " until " + r.Until
	}
	return text
}
