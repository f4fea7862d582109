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

// Advance is what an approval in advance is for: runs of a student on the node's dataset that nobody decided about
// may begin, as long as all of them together stay within an epsilon.
type Advance struct {
	// Student is who may ask, as the aggregator names them.
	Student string `json:"student"`
	// Pipelines are those that the runs may have.
	Pipelines []string `json:"pipelines"`
	// Purpose is what the runs must say that they are for; empty for anything.
	Purpose string `json:"purpose,omitempty"`
	// Study is the SHA-256 of the study that the runs must be of, in hex; empty for any, and none.
	Study string `json:"study,omitempty"`
	// Epsilon bounds what all of them cost at this node, at the limit's delta, as its filter counts.
	Epsilon float64 `json:"epsilon"`
}

func (a Advance) validate() error {
	if !runspec.IsName(a.Student) {
		return fmt.Errorf("student: %q is no name of a student; use the name in its certificate", a.Student)
	}
	if len(a.Pipelines) == 0 || repeats(a.Pipelines) {
		return errors.New("pipelines: name those that the runs may have, each once")
	}
	for _, name := range a.Pipelines {
		if !slices.Contains(Pipelines(), name) {
			return fmt.Errorf("pipelines: %q is none; use %s", name, strings.Join(Pipelines(), ", "))
		}
	}
	if err := runspec.CheckPurpose(a.Purpose); err != nil {
		return err
	}
	if a.Study != "" && !isSHA256(a.Study) {
		return fmt.Errorf("study: %q is no SHA-256; write 64 lower-case hex digits, as `sha256sum study.yaml` shows "+
			"them", a.Study)
	}
	if _, err := privacy.NewBudget(a.Epsilon, 0.5); err != nil {
		return fmt.Errorf("epsilon: %v is no bound; use a finite number above 0", a.Epsilon)
	}
	return nil
}

// sha256 names what is approved in advance under a name. Nothing that is a run's spec begins like it.
func (a Advance) sha256(name string) string {
	raw, err := json.Marshal(a)
	if err != nil { // an epsilon that is none, which validate refuses
		return ""
	}
	h := sha256.New()
	_, _ = io.WriteString(h, "conclave approval in advance 1\n"+name+"\n")
	_, _ = h.Write(raw)
	return hex.EncodeToString(h.Sum(nil))
}

// admits says whether a round of a run is one that was approved in advance, by what the run says of itself.
func (a Advance) admits(t Request, d *Dataset) bool {
	masked := t.Spec.Masked == nil || len(d.Peers) > 0 // nobody looks at the members of this one
	if a.Study != "" && (t.Spec.Study == nil || t.Spec.Study.SHA256 != a.Study) {
		return false
	}
	return a.Student == t.Requester && slices.Contains(a.Pipelines, t.Spec.Pipeline) &&
		(a.Purpose == "" || a.Purpose == t.Spec.Purpose) && masked
}

// inAdvance returns the digest of the approval in advance that lets a run go on, the first that is good and has room;
// empty where none does. A run that begins must fit as a whole beside all that is left of those that did, of one that
// goes on the round; what was paid for costs nothing.
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

// begins says whether a run has room in what was approved in advance, to a bound, beside those that began under it.
func (p people) begins(b *book, key runKey, bound privacy.Budget, s Spec, run *runBook) error {
	spent := slices.Clone(b.runs[key].spent)
	var open []privacy.Spending // of plans that bound nothing
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

// rest is what is left of a run's plan, with each round opened as often as it may be.
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

// inAdvanceOf are the approvals in advance that a round may be asked under.
func (b *book) inAdvanceOf(t Request, d *Dataset) (keys []runKey) {
	for _, key := range b.order {
		if a := b.runs[key].advance; a != nil && a.admits(t, d) {
			keys = append(keys, key)
		}
	}
	return keys
}

// chargeAdvance counts a charge for the approval in advance that let its run go on.
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
	return fmt.Errorf("%s is no approval in advance", e.Under)
}
