package privacy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pattern"
)

// Planned is one line of a run's plan: a kind of question, and the mechanism that answers it. It is data: the
// ledger's run entry holds it, and every caller that needs a price uses [Planned.Cost].
type Planned struct {
	// Kind is the kind of question.
	Kind string `json:"kind"`
	// Stage is the stage after training that asks it; empty for the training itself.
	Stage string `json:"stage,omitempty"`
	// Mechanism is one use of the mechanism, without its counts.
	Mechanism Event `json:"mechanism"`
	// Count is the maximum number of uses: queries of votes, sums, selections or fits. 0 leaves it to the budget.
	Count int64 `json:"count,omitempty"`
	// Variant says how the noise is drawn or released, if one price covers several ways.
	Variant string `json:"variant,omitempty"`
}

// The variants of mechanisms.
const (
	// Histogram releases all noisy counts of a vote instead of the winner.
	Histogram = "histogram"
	// NormGamma is a norm-Gamma vector of noise instead of Laplace noise.
	NormGamma = "norm-gamma"
)

// variants maps each kind of mechanism to the variant that it can have.
var variants = map[Kind]string{GNMax: Histogram, ConfidentGNMax: Histogram, LNMax: Histogram, Laplace: NormGamma}

// label is a valid name of a kind of question or a stage.
var label = pattern.Of(`^[a-z0-9][a-z0-9-]{0,31}$`)

// maxCount bounds the uses of a plan's entry. Each release is an entry of the ledger, and
// a round has at most 65,536 queries.
const maxCount = 1_000_000 << 16

// Validate refuses an entry without a known price, with a [*FieldError].
func (p Planned) Validate() error {
	if !label.MatchString(p.Kind) {
		return FieldErrorf("kind", "is %q; use 1 to 32 small letters, digits or dashes", p.Kind)
	}
	if p.Stage != "" && !label.MatchString(p.Stage) {
		return FieldErrorf("stage", "is %q; use at most 32 small letters, digits or dashes", p.Stage)
	}
	if m := p.Mechanism; m.Count != 0 || m.Asked != 0 || m.Answered != 0 {
		return FieldErrorf("mechanism", "has counts of its own; set count of the plan's entry")
	}
	if err := p.Mechanism.Times(1).Validate(); err != nil {
		return err
	}
	if p.Count < 0 || p.Count > maxCount {
		return FieldErrorf("count", "is %d; use 0 (as many as the budget admits) to %d", p.Count, maxCount)
	}
	if p.Variant != "" && p.Variant != variants[p.Mechanism.Kind] {
		return FieldErrorf("variant", "%q does not belong to %s", p.Variant, p.Mechanism.Kind)
	}
	return nil
}

// Fixed reports whether the cost of the whole entry is known in advance. The cost of a confident query depends on its
// answer, so a plan could only count the worst answer.
func (p Planned) Fixed() bool { return p.Count > 0 && p.Mechanism.Kind != ConfidentGNMax }

// Cost returns the events of a number of uses, some of them answered, as in the ledger; nil for none. Only this
// method turns a plan into events.
func (p Planned) Cost(uses, answered int64) []Event {
	if uses == 0 {
		return nil
	}
	e := p.Mechanism.Times(uses)
	if e.Kind == ConfidentGNMax {
		e.Answered = answered
	}
	return []Event{e}
}

// Worst is the most that a number of uses can cost.
func (p Planned) Worst(uses int64) []Event { return p.Cost(uses, uses) }

// String is the entry in words, such as "40 x votes: gnmax sigma 38.2 histogram".
func (p Planned) String() string {
	var text strings.Builder
	if p.Count > 0 {
		fmt.Fprintf(&text, "%d x ", p.Count)
	} else {
		text.WriteString("any number of ")
	}
	fmt.Fprintf(&text, "%s: %s", p.Kind, p.Mechanism.Words())
	if p.Variant != "" {
		text.WriteString(" " + p.Variant)
	}
	return text.String()
}

// Words are the mechanism and its parameters for people, with six digits, and without the count. A sensitivity of 1 is
// left out.
func (m Event) Words() string {
	var text strings.Builder
	text.WriteString(string(m.Kind))
	for _, number := range []struct {
		name  string
		value float64
	}{
		{"rate", m.Rate}, {"sigma", m.Sigma}, {"noise multiplier", m.NoiseMultiplier}, {"threshold", m.Threshold},
		{"sigma1", m.Sigma1}, {"sigma2", m.Sigma2}, {"lambda", m.Lambda}, {"epsilon", m.Epsilon},
	} {
		if number.value != 0 {
			fmt.Fprintf(&text, " %s %.6g", number.name, number.value)
		}
	}
	if m.Sensitivity != 0 && m.Sensitivity != 1 {
		fmt.Fprintf(&text, " sensitivity %.6g", m.Sensitivity)
	}
	return text.String()
}

// text is the entry as written in a ledger.
func (p Planned) text() string {
	raw, err := json.Marshal(p)
	if err != nil { // noise that is not a number
		return p.Kind
	}
	return string(raw)
}

// Plan is everything that a run may ask, with the cost of each question. The entry that opens the run holds it,
// before the first release. A round names the entry that pays for it by its index.
//
// With [FilterPLD] the whole plan is priced before the first release. Why that is private: each mechanism is
// dominated by a pair of distributions, so its output can be computed from one draw from that pair (Blackwell).
// All draws of the plan can be made in advance, independently of each other. The run is post-processing of them,
// for every order of questions, however adaptive, and whenever it stops (Zhu, Dong, Wang 2022, Theorem 10). So
// everything within the plan is (epsilon, delta)-DP if the whole plan is. Parameters that depend on answers have
// no draw made in advance, so they have to be in the plan.
type Plan []Planned

// maxPlan bounds the entries of a plan; pld accepts no more different events.
const maxPlan = maxPairs

// Validate refuses a plan that is empty or has an entry without a price.
func (p Plan) Validate() error {
	if len(p) == 0 || len(p) > maxPlan {
		return FieldErrorf("plan", "has %d entries; list all that the run may ask, 1 to %d kinds of questions", len(p),
			maxPlan)
	}
	for i, planned := range p {
		if err := planned.Validate(); err != nil {
			return fmt.Errorf("plan, entry %d: %w", i, err)
		}
	}
	return nil
}

// Fixed reports whether the cost of the whole plan is known in advance.
func (p Plan) Fixed() bool {
	return len(p) > 0 && !slices.ContainsFunc(p, func(e Planned) bool { return !e.Fixed() })
}

// Events are all uses of the entries that have a count, at their worst, merged. If the plan is [Plan.Fixed] this is
// everything that the run may release.
func (p Plan) Events() []Event {
	var events []Event
	for _, planned := range p {
		events = append(events, planned.Worst(planned.Count)...)
	}
	return Merge(events)
}

// mostMechanisms bounds the number of different mechanisms in a plan that is priced as a whole: each has its own
// distribution, and 16 took six seconds. Pipelines have one or two for each stage.
const mostMechanisms = 8

// Check returns the price of the whole plan at the budget's delta, by all accountants, or an [*OverBudgetError] if it
// exceeds the budget's epsilon. It takes some tenths of a second: call it once, before the first release. The plan must
// be fixed, and have at most 8 different mechanisms.
func (p Plan) Check(b Budget) (Price, error) {
	if err := b.Validate(); err != nil {
		return Price{}, fmt.Errorf("budget: %w", err)
	}
	if err := p.Validate(); err != nil {
		return Price{}, err
	}
	for i, planned := range p {
		if !planned.Fixed() {
			return Price{}, fmt.Errorf("%w: the cost of entry %d is not known in advance: %s; give it a count and "+
				"another mechanism than confident-gnmax, or use another filter than pld",
				ErrPlan, i, planned.text())
		}
	}
	events := p.Events()
	if len(events) > mostMechanisms {
		return Price{}, fmt.Errorf("%w: it has %d different mechanisms, and the maximum is %d; give entries the same "+
			"noise, or use another filter than pld", ErrPlan, len(events), mostMechanisms)
	}
	price, err := Account(events, b.Delta)
	if err != nil {
		return Price{}, fmt.Errorf("plan: %w", err)
	}
	if price.Epsilon > b.Epsilon {
		return Price{}, fmt.Errorf("the whole plan: %w", &OverBudgetError{Budget: b, Needed: price.Epsilon})
	}
	return price, nil
}

// Use is a release's use of a plan.
type Use struct {
	// Planned is the index of the entry that pays.
	Planned int
	// Queries counts the uses of its mechanism, Answered the answered ones.
	Queries, Answered int64
}

// Admit reports whether an entry has enough uses left after the earlier ones (one number for each entry, or none), and
// returns the cost of next. The error is a [*PlanError] if it does not.
func (p Plan) Admit(used []int64, next Use) ([]Event, error) {
	if next.Planned < 0 || next.Planned >= len(p) {
		return nil, &PlanError{Asked: next.Queries}
	}
	if next.Queries < 1 || next.Answered < 0 || next.Answered > next.Queries {
		return nil, FieldErrorf("answered",
			"is %d of %d queries; it must be between 0 and queries, and queries must be at least 1", next.Answered,
			next.Queries)
	}
	planned, before := p[next.Planned], int64(0)
	if next.Planned < len(used) {
		before = used[next.Planned]
	}
	if planned.Count > 0 && (before > planned.Count || next.Queries > planned.Count-before) {
		return nil, &PlanError{Planned: planned, Used: before, Asked: next.Queries}
	}
	if planned.Mechanism.Kind != ConfidentGNMax && next.Answered != next.Queries {
		return nil, FieldErrorf("answered", "is %d of %d queries; %s answers all of them", next.Answered, next.Queries,
			planned.Mechanism.Kind)
	}
	return planned.Cost(next.Queries, next.Answered), nil
}

func (p Plan) add(used []int64, next Use) []int64 {
	all := make([]int64, len(p))
	copy(all, used)
	all[next.Planned] += next.Queries
	return all
}

// PlanError refuses a question that is not in the run's plan. It matches [ErrOverBudget]: the question is neither
// released nor charged.
type PlanError struct {
	Planned     Planned // the entry; without a kind if the plan has none at that index
	Used, Asked int64
}

func (e *PlanError) Error() string {
	if e.Planned.Kind == "" {
		return "over budget: the run's plan has no such entry; ask only what the plan has, or open a run with " +
			"another plan"
	}
	return fmt.Sprintf("over budget: the run's plan has %d of %s, %d of them are used, and %d more were asked; the "+
		"plan is used up: end the run",
		e.Planned.Count, e.Planned.text(), e.Used, e.Asked)
}

func (e *PlanError) Is(target error) bool { return target == ErrOverBudget }

// text is the event as written in a ledger.
func (e Event) text() string {
	raw, err := json.Marshal(e)
	if err != nil { // noise that is not a number
		return string(e.Kind)
	}
	return string(raw)
}
