package sitepolicy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Advance is the scope of an approval in advance: undecided runs of a student on the node's dataset may begin while
// their total cost stays within an epsilon.
type Advance struct {
	// Student is the student, as the aggregator names it.
	Student string `json:"student"`
	// Pipelines are the pipelines that the runs may use.
	Pipelines []string `json:"pipelines"`
	// Purpose is the purpose that the runs must state; empty allows any.
	Purpose string `json:"purpose,omitempty"`
	// Study is the SHA-256 of the runs' study, in hex; empty allows any study, and none.
	Study string `json:"study,omitempty"`
	// Epsilon bounds the cost of all of them at this node, at the limit's delta, as its filter counts.
	Epsilon float64 `json:"epsilon"`
}

func (a Advance) validate() error {
	if !runspec.IsName(a.Student) {
		return fmt.Errorf("student: %q is not a student's name; use the name in its certificate", a.Student)
	}
	if len(a.Pipelines) == 0 || repeats(a.Pipelines) {
		return errors.New("pipelines: list the allowed pipelines, each once")
	}
	for _, name := range a.Pipelines {
		if !slices.Contains(Pipelines(), name) {
			return fmt.Errorf("pipelines: %q is not a pipeline; use %s", name, strings.Join(Pipelines(), ", "))
		}
	}
	if err := runspec.CheckPurpose(a.Purpose); err != nil {
		return err
	}
	if a.Study != "" && !isSHA256(a.Study) {
		return fmt.Errorf("study: %q is not a SHA-256; write 64 lower-case hex digits, as printed by `sha256sum "+
			"study.yaml`", a.Study)
	}
	if _, err := privacy.NewBudget(a.Epsilon, 0.5); err != nil {
		return fmt.Errorf("epsilon: %v is not valid; use a finite number above 0", a.Epsilon)
	}
	return nil
}

// sha256 is the digest of an approval in advance with its name. No run's spec has the same prefix.
func (a Advance) sha256(name string) string {
	raw, err := json.Marshal(a)
	if err != nil { // an invalid epsilon, which validate refuses
		return ""
	}
	h := sha256.New()
	_, _ = io.WriteString(h, "conclave approval in advance 1\n"+name+"\n")
	_, _ = h.Write(raw)
	return hex.EncodeToString(h.Sum(nil))
}

// admits reports whether a round's run is within the approval's scope, according to its spec.
func (a Advance) admits(t Request, d *Dataset) bool {
	masked := t.Spec.Masked == nil || len(d.Peers) > 0 // nobody reviews the members of this run
	if a.Study != "" && (t.Spec.Study == nil || t.Spec.Study.SHA256 != a.Study) {
		return false
	}
	return a.Student == t.Requester && slices.Contains(a.Pipelines, t.Spec.Pipeline) &&
		(a.Purpose == "" || a.Purpose == t.Spec.Purpose) && masked
}

// inAdvance returns the digest of the first valid approval in advance with room for a run, or empty. A new run must
// fit as a whole beside the remaining plans of those that began; of a run that began, only the round must fit. A
// charged question costs nothing.
func (p people) inAdvance(b *book, t Request, run *runBook, paid bool) (spec string) {
	for _, key := range b.order {
		r := b.runs[key]
		if r.advance == nil || !r.advance.admits(t, p.d) || !p.verdict(r).approved {
			continue
		}
		bound := p.d.Limit()
		bound.Epsilon = r.advance.Epsilon
		var err error
		switch {
		case paid:
		case run.under == key.spec:
			_, err = bound.Admit(r.spent, t.Charges)
		default:
			err = p.begins(b, key, bound, t.Spec, run)
		}
		if err == nil {
			return key.spec
		}
	}
	return ""
}

// begins reports whether an approval in advance, with this bound, has room for a run beside those that began under
// it.
func (p people) begins(b *book, key runKey, bound privacy.Budget, s Spec, run *runBook) error {
	spent := slices.Clone(b.runs[key].spent)
	var open []privacy.Spending // of plans without a bound
	for _, k := range b.order {
		switch other := b.runs[k]; {
		case other.under != key.spec || other == run || other.ended || p.verdict(other).denied:
		case other.spec.Plan.Fixed():
			spent = append(spent, other.rest(other.spec)...)
		default:
			open = append(open, other.spending(other.spec))
		}
	}
	reserved, err := privacy.Reserve(spent, open)
	switch {
	case err != nil:
		return err
	case s.Plan.Fixed():
		return bound.AdmitBeside(reserved, run.rest(s))
	}
	return bound.RoomBeside(reserved, s.budget(), s.Plan)
}

// rest is the remaining part of a run's plan, with each round opened as often as allowed.
func (r *runBook) rest(s Spec) (events []privacy.Event) {
	for i, p := range s.Plan {
		uses := p.Count
		if i < len(r.used) {
			uses -= r.used[i]
		}
		events = append(events, times(p.Worst(uses), s.RevealsAtMost())...)
	}
	return events
}

// inAdvanceOf are the approvals in advance whose scope includes a round.
func (b *book) inAdvanceOf(t Request, d *Dataset) (keys []runKey) {
	for _, key := range b.order {
		if a := b.runs[key].advance; a != nil && a.admits(t, d) {
			keys = append(keys, key)
		}
	}
	return keys
}

// chargeAdvance adds a charge to the approval in advance that its run depends on.
func (b *book) chargeAdvance(run *runBook, e Entry) error {
	for key, r := range b.runs {
		if r.advance != nil && key.spec == e.Under {
			run.under = e.Under
			r.charges++
			r.charged = e.Time
			r.spent = privacy.Merge(append(r.spent, e.Events...))
			return nil
		}
	}
	return fmt.Errorf("%s is not an approval in advance", e.Under)
}
