package sitepolicy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Facts are what a node knows of its records. They stay at the site.
type Facts struct {
	// Units is the number of privacy units at the node, LeastUnits that of the teacher
	// with the fewest.
	Units, LeastUnits int
}

// permits asks the rules about a run; own is the site.
func (d *Dataset) permits(s Spec, own string) *Refusal {
	return firstOf(d.permitsPipeline(s), d.permitsStages(s), d.permitsMasks(s, own))
}

func (d *Dataset) permitsPipeline(s Spec) *Refusal {
	if slices.Contains(d.Pipelines, s.Pipeline) {
		return nil
	}
	return &Refusal{Rule: RulePipeline, Public: fmt.Sprintf("%q is not allowed on dataset %s", s.Pipeline, d.Name)}
}

func (d *Dataset) permitsStages(s Spec) *Refusal {
	for _, stage := range s.Stages() {
		if !slices.Contains(d.Stages, stage) {
			return &Refusal{Rule: RuleStages, Public: fmt.Sprintf("%q is not allowed on dataset %s", stage, d.Name)}
		}
	}
	return nil
}

// allows asks the rules that do not depend on what was charged or approved; nil where they
// allow the round.
func (d *Dataset) allows(t Request, o Options) *Refusal {
	if refusal := d.permits(t.Spec, o.Site); refusal != nil {
		return refusal
	}
	if !t.Spec.asks(t.Kind, t.Stage) {
		return &Refusal{Rule: RuleQuestion,
			Public: fmt.Sprintf("a round of %s belongs neither to pipeline %q nor to a stage of the run", t.Kind,
				t.Spec.Pipeline)}
	}
	return d.enough(o.Facts)
}

// enough asks for the least numbers of privacy units. A node asks before it joins, so that nobody
// outside learns which rule it was; where the policy is changed later, the refusal does not name it.
func (d *Dataset) enough(f Facts) *Refusal { return firstOf(d.TooFew(f)...) }

// noAnswer is what leaves of a rule about the number of records.
const noAnswer = "the site does not answer; ask its people"

// TooFew are the rules that want more records than there are.
func (d *Dataset) TooFew(f Facts) (broken []*Refusal) {
	if f.Units < d.MinRows {
		broken = append(broken, &Refusal{Rule: RuleRows, Public: noAnswer,
			Private: fmt.Sprintf("%d privacy units, the policy wants %d", f.Units, d.MinRows)})
	}
	if f.LeastUnits < d.MinRowsPerTeacher {
		broken = append(broken, &Refusal{Rule: RulePerHead, Public: noAnswer,
			Private: fmt.Sprintf("a teacher with %d privacy units, the policy wants %d; lower teachers before the "+
				"node joins, or the rule", f.LeastUnits, d.MinRowsPerTeacher)})
	}
	return broken
}

// admits holds a run to its budget, which is what a person approved.
func (r *runBook) admits(t Request) *Refusal {
	budget := t.Spec.budget()
	if budget.Filter == privacy.FilterPLD && len(r.within) == 0 { // all of the plan is charged for
		if _, err := t.Spec.Plan.Check(budget); err != nil {
			return &Refusal{Rule: RuleBudget, Public: "the plan of run " + t.Run + " costs more than its budget",
				Private: err.Error()}
		}
	}
	if _, err := r.spending(t.Spec).Admit(t.Charges); err != nil {
		return &Refusal{Rule: RuleBudget, Public: "run " + t.Run + " asks for more than its budget admits",
			Private: err.Error()}
	}
	return nil
}

// spending is what the run may spend and has.
func (r *runBook) spending(s Spec) privacy.Spending {
	return privacy.Spending{Budget: s.budget(), Plan: s.Plan, Used: r.used, Spent: r.within}
}

// judgement is what becomes of a round that is not refused.
type judgement struct {
	spent float64 // with it
	due   bool    // false where it was charged last
	under string  // the digest of the approval in advance that lets it be asked
}

// judge applies the rules of a dataset to a round.
func judge(b *book, p people, t Request, o Options) (is judgement, refusal *Refusal) {
	d := p.d
	if refusal := d.allows(t, o); refusal != nil {
		return is, refusal
	}
	run := b.runs[runKey{t.Run, t.SpecSHA256}]
	if run == nil || run.advance != nil {
		run = &runBook{}
	}
	if run.seen != "" && (!run.spec.same(t.Spec) || run.requester != t.Requester) {
		return is, &Refusal{Rule: RuleTerms, Public: "run " + t.Run + " has other terms, or another requester, than " +
			"the site wrote down",
			Private: "people read both in the site's ledger, and the node did not write these, or the aggregator " +
				"named another one then; restore the ledger from a backup, or find out who writes to it"}
	}
	v, paid := p.verdict(run), b.paid(t) > 0
	switch {
	case run.ended:
		return is, &Refusal{Rule: RuleEnded, Public: "run " + t.Run + " has ended, and what was approved with it"}
	case v.denied:
		return is, &Refusal{Rule: RuleDenied, Public: "run " + t.Run + " was denied by the site"}
	case d.Approval == ByHand && !v.approved:
		if !v.stopped {
			is.under = p.inAdvance(b, t, run, paid)
		}
		if is.under == "" {
			return is, &Refusal{Rule: RuleApproval, Public: "waits for approval at site " + o.Site, Waiting: true,
				Private: p.lacking(v)}
		}
	}
	if paid {
		is.spent = b.epsilonSpent
		return is, nil
	}
	again, refusal := run.another(t)
	if refusal != nil {
		return is, refusal
	}
	if !again {
		if _, err := t.Spec.Plan.Admit(run.used, t.Use); err != nil {
			return is, &Refusal{Rule: RulePlan, Public: fmt.Sprintf("all that run %s planned of %s was answered "+
				"here", t.Run, t.Kind), Private: err.Error()}
		}
	}
	claim, err := d.Limit().Admit(b.spent, t.Charges)
	switch {
	case errors.Is(err, privacy.ErrOverBudget):
		return is, &Refusal{Rule: RuleEpsilon,
			Public: fmt.Sprintf("the site's own limit on dataset %s would be passed", d.Name), Private: err.Error()}
	case err != nil:
		return is, &Refusal{Rule: RuleTerms, Public: "what the round costs cannot be added up",
			Private: err.Error()}
	}
	if !again {
		if refusal := run.admits(t); refusal != nil {
			return is, refusal
		}
	}
	is.spent, is.due = claim.Epsilon, true
	return is, nil
}
