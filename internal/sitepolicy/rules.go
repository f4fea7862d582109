package sitepolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
)

// Facts are what a node knows about its records. They stay at the site.
type Facts struct {
	// Units is the number of privacy units at the node, LeastUnits the smallest number of a teacher.
	Units, LeastUnits int
	// UnitsBy counts the privacy units of each occurring category of a column; the error says that the schema has no
	// such column. It is nil if the records were not read, and the rule is then skipped.
	UnitsBy func(column string) (map[string]int, error)
}

// permits checks the rules about a run at a moment; own is the site.
func (d *Dataset) permits(s Spec, own string, now time.Time) *Refusal {
	return firstOf(d.permitsStudy(s, now), d.permitsPipeline(s), d.permitsStages(s), d.permitsMasks(s, own))
}

// permitsStudy refuses runs that belong to a different study from the required one, and runs whose study has ended.
// Every site refuses the latter, because the run itself states the end.
func (d *Dataset) permitsStudy(s Spec, now time.Time) *Refusal {
	refuse := func(format string, args ...any) *Refusal {
		return &Refusal{Rule: RuleStudy, Public: fmt.Sprintf(format, args...)}
	}
	if want := d.Study.SHA256; want != "" && (s.Study == nil || s.Study.SHA256 != want) {
		return refuse("runs on dataset %s must belong to the study with SHA-256 %s; set study in run.yaml to its "+
			"study.yaml",
			d.Name, want)
	}
	if own := (study.Block{Expires: d.Study.Expires}); own.Expires != "" && own.Ended(now) {
		return refuse("the site took part until %s", own.Expires)
	}
	if s.Study != nil && s.Study.Ended(now) {
		return refuse("%s was the last day of %s", s.Study.Expires, s.Study)
	}
	return nil
}

// studyAllowed describes what the rule allows.
func (d *Dataset) studyAllowed() string {
	switch {
	case d.Study.SHA256 == "":
		return "runs of any current study, and runs without a study"
	case d.Study.Expires == "":
		return "runs of the study with SHA-256 " + d.Study.SHA256
	}
	return fmt.Sprintf("runs of the study with SHA-256 %s, until the end of %s", d.Study.SHA256, d.Study.Expires)
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
			// A run may have new labels without naming them.
			return &Refusal{Rule: RuleStages, Public: fmt.Sprintf("%q is not allowed on dataset %s; leave that stage "+
				"out (post: [] for new labels)", stage, d.Name)}
		}
	}
	return nil
}

// allows checks the rules that do not depend on charges or approvals. It returns nil if they allow the round.
func (d *Dataset) allows(t Request, o Options, now time.Time) *Refusal {
	if refusal := d.permits(t.Spec, o.Site, now); refusal != nil {
		return refusal
	}
	if !t.Spec.asks(t.Kind, t.Stage) {
		return &Refusal{Rule: RuleQuestion,
			Public: fmt.Sprintf("a round of %s belongs neither to pipeline %q nor to a stage of the run", t.Kind,
				t.Spec.Pipeline)}
	}
	return d.enough(o.Facts)
}

// enough checks the least numbers of privacy units. A node checks before it joins, so that nobody outside learns
// which rule failed. If the policy changes later, the refusal does not name the rule.
func (d *Dataset) enough(f Facts) *Refusal { return firstOf(d.TooFew(f)...) }

// noAnswer is the public text for a rule about the number of records.
const noAnswer = "the site does not answer; ask its people"

// TooFew lists the rules that require more records than there are.
func (d *Dataset) TooFew(f Facts) (broken []*Refusal) {
	if f.Units < d.MinRows {
		broken = append(broken, &Refusal{Rule: RuleRows, Public: noAnswer,
			Private: fmt.Sprintf("%d privacy units, but the policy requires %d; add records before the node joins, "+
				"or lower the rule", f.Units, d.MinRows)})
	}
	if f.LeastUnits < d.MinRowsPerTeacher {
		broken = append(broken, &Refusal{Rule: RulePerHead, Public: noAnswer,
			Private: fmt.Sprintf("a teacher with %d privacy units, but the policy requires %d; lower teachers before "+
				"the node joins, or the rule", f.LeastUnits, d.MinRowsPerTeacher)})
	}
	for _, by := range d.LeastRecordsBy {
		if private := by.broken(f); private != "" {
			broken = append(broken, &Refusal{Rule: RuleBy, Public: noAnswer, Private: private})
		}
	}
	return broken
}

// broken says, for the site, which categories have too few privacy units, or that the column has none; empty if all
// have enough. A category that does not occur reveals nothing about anybody.
func (by LeastBy) broken(f Facts) string {
	if f.UnitsBy == nil {
		return ""
	}
	counts, err := f.UnitsBy(by.Column)
	if err != nil {
		return err.Error()
	}
	var few []string
	for _, category := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[category]; n < by.Least {
			few = append(few, fmt.Sprintf("%q with %d", category, n))
		}
	}
	if len(few) == 0 {
		return ""
	}
	return fmt.Sprintf("column %q has %s privacy units, but the policy requires %d in each category that occurs; "+
		"merge categories in the schema before the node joins, or lower the rule", by.Column, shortList(few), by.Least)
}

// admits limits a run to its budget, which a person approved.
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

// spending is what the run may spend and has spent.
func (r *runBook) spending(s Spec) privacy.Spending {
	return privacy.Spending{Budget: s.budget(), Plan: s.Plan, Used: r.used, Spent: r.within}
}

// judgement is the outcome for a round that is not refused.
type judgement struct {
	spent float64 // including it
	due   bool    // false if it was charged last
	under string  // digest of the approval in advance that permits it
}

// judge applies the rules of a dataset to a round.
func judge(b *book, p people, t Request, o Options) (is judgement, refusal *Refusal) {
	d := p.d
	if refusal := d.allows(t, o, p.now); refusal != nil {
		return is, refusal
	}
	run := b.runs[runKey{t.Run, t.SpecSHA256}]
	if run == nil || run.advance != nil {
		run = &runBook{}
	}
	if run.seen != "" && (!run.spec.same(t.Spec) || run.requester != t.Requester) {
		return is, &Refusal{Rule: RuleTerms, Public: "run " + t.Run + " has other terms or another requester than " +
			"recorded at the site",
			Private: "the site's ledger has both; someone changed it, or the aggregator named another requester; " +
				"restore the ledger from a backup, or find out who writes to it"}
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
			return is, &Refusal{Rule: RulePlan, Public: fmt.Sprintf("all questions that run %s planned for %s were "+
				"answered here", t.Run, t.Kind), Private: err.Error()}
		}
	}
	claim, err := d.Limit().Admit(b.spent, t.Charges)
	switch {
	case errors.Is(err, privacy.ErrOverBudget):
		return is, &Refusal{Rule: RuleEpsilon,
			Public: fmt.Sprintf("the site's own limit on dataset %s would be exceeded", d.Name), Private: err.Error()}
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
