package sitepolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
)

// Brief is what a person reads before a decision about a run. It depends on the run's spec, the policy and the site's
// ledger, and on no records.
type Brief struct {
	Dataset string `json:"dataset"`
	Site    string `json:"site"`
	Node    string `json:"node"`
	Run
	Leaves []Leaving `json:"leaves"`
	// Limit is the policy's limit. LeftNow is the epsilon of the largest run that still fits. LeftAfter is the same
	// after the rest of this run's plan is charged; nil if the plan has no bound, or the run has ended.
	Limit     *privacy.Budget `json:"limit,omitempty"`
	LeftNow   float64         `json:"epsilon_left_now"`
	LeftAfter *float64        `json:"epsilon_left_after,omitempty"`
	// Telling is what the whole run can reveal about one privacy unit, Strength a word for its budget.
	Telling  meaning.Telling `json:"telling"`
	Strength string          `json:"strength"`
	Why      string          `json:"strength_why"`
	// Rules are empty if the run has ended.
	Rules []RuleMet `json:"rules"`
}

// Leaving describes the answers to an entry of the run's plan.
type Leaving struct {
	Kind  string `json:"kind"`
	Stage string `json:"stage,omitempty"`
	// Times is the most answers; 0 means as many as the run's budget admits.
	Times     int64  `json:"times"`
	Mechanism string `json:"mechanism"`
	Answer    string `json:"answer"` // what one answer is
	SeenBy    string `json:"seen_by"`
	// Deviation is the noise's standard deviation in a release, as a multiple of one privacy unit's largest
	// contribution; 0 for a selection. In one release fewer than HiddenOnce units are hidden by the noise, in all
	// releases of the entry fewer than HiddenInAll.
	Deviation   float64 `json:"noise_deviation"`
	HiddenOnce  int64   `json:"hidden_once"`
	HiddenInAll int64   `json:"hidden_in_all,omitempty"`
}

// RuleMet is a rule of the policy and whether a run meets it.
type RuleMet struct {
	Rule Rule   `json:"rule"`
	Met  bool   `json:"met"`
	Says string `json:"says"`
}

// Brief returns what a person reads before a decision about a run. Spec is as in [Enforcer.Decide].
func (e *Enforcer) Brief(run, spec string) (*Brief, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, _ := e.allowed()
	out := &Brief{Dataset: e.o.Dataset, Site: e.o.Site, Node: e.o.Node, Rules: []RuleMet{}}
	var delta float64
	err := e.ledger.use(func(b *book) ([]Entry, error) {
		if err := e.own(b); err != nil {
			return nil, err
		}
		key, err := b.named(run, spec)
		if err != nil {
			return nil, err
		}
		limit := b.limit
		if d != nil {
			limit = d.Limit()
			out.Limit = &limit
			out.LeftNow = left(limit, b.spent)
		}
		if out.Run, err = e.status(b, key, d, limit); err != nil || out.Spec == nil {
			return nil, err
		}
		s := *out.Spec
		for _, p := range s.Plan {
			out.Leaves = append(out.Leaves, s.leaving(p, e.o.Teachers))
		}
		if d != nil && out.State != StateEnded {
			out.judge(b, d, key, e.o.Site, e.people(b, d).now)
		}
		delta = limit.Delta
		return nil, nil
	})
	if err == nil && out.Spec != nil {
		err = out.tell(delta) // may take seconds, while the node continues
	}
	return out, err
}

// leaving describes the answers to a plan entry at a node with this many teachers.
func (s Spec) leaving(p privacy.Planned, teachers int) Leaving {
	l := Leaving{
		Kind: p.Kind, Stage: p.Stage, Times: p.Count, Mechanism: p.String(), Answer: answerOf(Kind(p.Kind), teachers),
		SeenBy: SeenBy(Kind(p.Kind), s.Masked), Deviation: meaning.Deviation(p.Mechanism),
	}
	l.HiddenOnce = meaning.Hidden(l.Deviation, 1)
	if p.Count > 0 {
		l.HiddenInAll = meaning.Hidden(l.Deviation, p.Count)
	}
	return l
}

// tell sets what the run can reveal about one privacy unit: from what was charged if it has ended, else from its
// whole plan if that is fixed, else from its budget.
func (b *Brief) tell(limitDelta float64) error {
	s := b.Spec
	g := meaning.Guarantee{Epsilon: s.Epsilon, Delta: s.Delta}
	b.Strength, b.Why = g.Strength(), g.Why()
	bound := meaning.Bound(s.Epsilon, s.Delta)
	b.Telling = meaning.Telling{Chance: bound, By: meaning.ByBudget, OfBudget: bound}
	events, epsilon, delta := times(s.Plan.Events(), b.RevealsAtMost), s.Epsilon, s.Delta
	switch {
	case b.State == StateEnded:
		events, epsilon, delta = b.Events, b.EpsilonCharged, limitDelta
	case b.EpsilonMost == nil:
		return nil
	case b.RevealsAtMost > 1: // the budget counts a round once
		epsilon, delta = *b.EpsilonMost, limitDelta
	}
	telling, err := meaning.Tell(events, epsilon, delta)
	b.Telling = telling
	return err
}

// judge sets which rules the run meets, and what it would leave of the limit.
func (b *Brief) judge(book *book, d *Dataset, key runKey, own string, now time.Time) {
	s := *b.Spec
	for _, c := range []struct {
		refusal *Refusal
		rule    Rule
		allowed []string
	}{
		{d.permitsStudy(s, now), RuleStudy, []string{d.studyAllowed()}},
		{d.permitsPipeline(s), RulePipeline, d.Pipelines},
		{d.permitsStages(s), RuleStages, d.Stages},
		{d.permitsMasks(s, own), RuleMasked, []string{d.masksAllowed()}},
	} {
		met := RuleMet{c.rule, c.refusal == nil, "allowed: " + strings.Join(c.allowed, ", ")}
		if len(c.allowed) == 0 {
			met.Says = "none are allowed"
		}
		if c.refusal != nil {
			met.Rule, met.Says = c.refusal.Rule, c.refusal.Public
		}
		b.Rules = append(b.Rules, met)
	}
	if !s.Plan.Fixed() {
		err := d.Limit().Room(book.spent, s.budget())
		b.Rules = append(b.Rules, RuleMet{RuleEpsilon, err == nil,
			"the run's plan has no bound; checks whether its whole budget fits"})
		return
	}
	rest := book.runs[key].rest(s)
	_, err := d.Limit().Admit(book.spent, rest)
	met := RuleMet{RuleEpsilon, err == nil, "the rest of the run's plan fits"}
	if over := (*privacy.OverBudgetError)(nil); errors.As(err, &over) {
		met.Says = fmt.Sprintf("the rest of the run's plan does not fit: epsilon would rise from %.4g to at most "+
			"%.4g, and the site's limit is %g; after an approval the node answers only up to the limit",
			over.Spent, over.Needed, over.Budget.Epsilon)
	} else if err != nil {
		met.Says = err.Error()
	}
	b.Rules = append(b.Rules, met)
	after := left(d.Limit(), privacy.Merge(append(slices.Clone(book.spent), rest...)))
	b.LeftAfter = &after
}

// answerOf describes a node's answer to a question of a kind.
func answerOf(k Kind, teachers int) string {
	switch k {
	case ClassCounts:
		return "the number of privacy units of each class"
	case EmbeddingSum:
		return "numbers: the sum of public features over the node's privacy units"
	case Votes:
		return fmt.Sprintf("%d bits, one vote from each teacher at this node", teachers)
	case GradientVotes:
		return fmt.Sprintf("%d votes for a bin, one from each teacher at this node", teachers)
	case GradientSum:
		return fmt.Sprintf("numbers: the sum of clipped gradients of the %d teachers at this node", teachers)
	case DiscriminatorSum:
		return "numbers: the sum of clipped gradients over a random sample of the privacy units"
	case ScoreSum:
		return "a score for each of the run's discriminators: how well it distinguishes real from generated"
	case Fit:
		return "numbers: sums over the privacy units for a regression, in several passes"
	}
	return "numbers: sums over the privacy units, such as counts of records by the values of columns"
}

// SeenBy says who sees the answers to a kind of question before noise is added.
func SeenBy(k Kind, masked *masking.Group) string {
	if masked != nil {
		return fmt.Sprintf("nobody: the node adds its share of the noise and masks, and the aggregator sees only the "+
			"total of at least %d sites. The site's answer stays hidden while the number of sites that "+
			"collude with the aggregator is at most %d",
			masked.Quorum, masked.Colluding)
	}
	switch k {
	case ScoreSum:
		return "only the aggregator, which keeps the sum over all nodes in memory; the student sees only what is " +
			"selected with it"
	case Fit:
		return "only the aggregator; but it sends the coefficients from all nodes' sums to all nodes without noise, " +
			"in each pass. The student sees the final coefficients with noise"
	}
	return "only the aggregator, which adds up all nodes' answers and adds noise; the student sees the noisy sum"
}
