package sitepolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// The states of a run at a site.
const (
	StateApproved  = "approved"  // by a person
	StateDenied    = "denied"    // by a person
	StateWaiting   = "waiting"   // for a person
	StateAutomatic = "automatic" // the policy asks nobody
	StateRefused   = "refused"   // by the policy, whoever approves
	StateEnded     = "ended"     // the run is over
)

// Run is a run that a node was asked for.
type Run struct {
	Run string `json:"run"`
	// SpecSHA256 names its spec, which an approval is for.
	SpecSHA256 string `json:"spec_sha256"`
	State      string `json:"state"`
	// Requester is who asks for it, as the aggregator names them.
	Requester string `json:"requester,omitempty"`
	Reason    string `json:"reason,omitempty"` // why it is refused
	Spec      Spec   `json:"terms"`
	Seen      string `json:"seen"`
	Decided   string `json:"decided,omitempty"`
	By        string `json:"by,omitempty"`
	// Charges counts the rounds that were charged, and EpsilonCharged is what they come
	// to by themselves, at the limit's delta.
	Charges        int             `json:"charges"`
	LastCharged    string          `json:"last_charged,omitempty"`
	Events         []privacy.Event `json:"events,omitempty"`
	EpsilonCharged float64         `json:"epsilon_charged"`
	// RevealsAtMost is how often a round may be charged: more than once in a masked run, where a sum may not open
	// though the node opened its part. EpsilonMost is what the whole plan comes to by itself with all of them, as
	// the limit's filter counts; nil where nothing bounds it, and where the run is over.
	RevealsAtMost int      `json:"reveals_at_most"`
	EpsilonMost   *float64 `json:"epsilon_most,omitempty"`
}

// Status is what a site's ledger and its policy say together.
type Status struct {
	Dataset string `json:"dataset"`
	Site    string `json:"site"`
	Node    string `json:"node"`
	// Problem is why nothing is answered at all; empty where something may be.
	Problem string `json:"problem,omitempty"`
	// Limit is the policy's, nil where there is none to be read.
	Limit *privacy.Budget `json:"limit,omitempty"`
	// EpsilonSpent is what all charges come to, at the limit's delta; EpsilonCounted what
	// the limit's filter counts of it, never less; EpsilonLeft the largest budget of one
	// more run that would fit on top, by the filter.
	EpsilonSpent   float64 `json:"epsilon_spent"`
	EpsilonCounted float64 `json:"epsilon_counted"`
	EpsilonLeft    float64 `json:"epsilon_left"`
	Entries        uint64  `json:"entries"`
	Head           string  `json:"head,omitempty"`
	Runs           []Run   `json:"runs"`
}

// Status reads the ledger, which it verifies, and the policy. The error says that the
// ledger cannot be read; everything else is in the status.
func (e *Enforcer) Status() (*Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &Status{Dataset: e.o.Dataset, Site: e.o.Site, Node: e.o.Node, Runs: []Run{}}
	d, refusal := e.allowed()
	err := e.ledger.use(func(b *book) ([]Entry, error) {
		limit := b.limit
		if d != nil {
			limit = d.Limit()
			s.Limit = &limit
			if refusal = e.fits(b, d); refusal == nil {
				refusal = d.enough(e.o.Facts)
			}
		}
		s.Entries, s.Head = b.last.Seq, b.last.Hash
		for _, key := range b.order {
			run, err := e.status(b.runs[key], key, d, limit)
			if err != nil {
				return nil, err
			}
			s.Runs = append(s.Runs, run)
		}
		if limit.Delta == 0 {
			return nil, nil
		}
		var err error
		if s.EpsilonSpent, err = running(b.spent, limit.Delta); err != nil {
			return nil, err
		}
		if s.Limit != nil {
			s.EpsilonLeft = left(limit, b.spent)
		}
		s.EpsilonCounted, err = countedBy(limit, b.spent)
		return nil, err
	})
	if refusal != nil {
		s.Problem = e.refuse(refusal).Error()
	}
	return s, err
}

func (e *Enforcer) status(b *runBook, key runKey, d *Dataset, limit privacy.Budget) (Run, error) {
	run := Run{
		Run: key.run, SpecSHA256: key.spec, Requester: b.requester, Spec: b.spec,
		Seen: b.seen, Decided: b.decided, By: b.by,
		Charges: b.charges, LastCharged: b.charged, Events: b.spent, RevealsAtMost: b.spec.RevealsAtMost(),
	}
	switch {
	case b.ended:
		run.State = StateEnded
	case b.decision == EntryDeny:
		run.State = StateDenied
	case d == nil:
		run.State = StateRefused
	default:
		run.State = map[Approval]string{ByHand: StateWaiting, Automatic: StateAutomatic}[d.Approval]
		if b.decision == EntryApprove {
			run.State = StateApproved
		}
		if r := d.permits(b.spec, e.o.Site); r != nil {
			run.State, run.Reason = StateRefused, e.refuse(r).Error()
		}
	}
	if run.State != StateEnded {
		run.EpsilonMost = b.spec.most(limit)
	}
	var err error
	run.EpsilonCharged, err = running(b.spent, limit.Delta)
	return run, err
}

// most is what a run may come to at a site, as the limit counts it; nil where its plan does not bound that.
func (s Spec) most(limit privacy.Budget) *float64 {
	if !s.Plan.Fixed() || limit.Delta == 0 {
		return nil
	}
	most, err := countedBy(limit, times(s.Plan.Events(), s.RevealsAtMost()))
	if err != nil {
		return nil // what cannot be added up is refused when it is asked
	}
	return &most
}

// running is what events come to, 0 for none.
func running(events []privacy.Event, delta float64) (float64, error) {
	if len(events) == 0 {
		return 0, nil
	}
	claim, err := privacy.Running(events, delta)
	return claim.Epsilon, err
}

// countedBy is what events come to by the rule of a limit, 0 for none.
func countedBy(limit privacy.Budget, events []privacy.Event) (float64, error) {
	if limit.Delta == 0 {
		return 0, nil
	}
	return limit.Filter.Epsilon(events, limit.Delta)
}

// left is the largest epsilon of a run that would fit on top of what is spent, to a
// thousandth of the limit from below.
func left(limit privacy.Budget, spent []privacy.Event) float64 {
	const parts = 1000
	fits := func(part int) bool {
		run := privacy.Budget{Epsilon: limit.Epsilon * float64(part) / parts, Delta: limit.Delta, Filter: limit.Filter}
		return part == 0 || limit.Room(spent, run) == nil
	}
	most := sort.Search(parts, func(part int) bool { return !fits(part + 1) })
	return limit.Epsilon * float64(most) / parts
}

// ErrNoRun is what errors.Is finds where a run is decided about that the node was never
// asked for.
var ErrNoRun = errors.New("no such run")

// ErrSpec is what errors.Is finds where the spec that was given names none of the runs that
// have the name, or several.
var ErrSpec = errors.New("the spec does not tell which run")

// AcceptLedger writes that a person takes a dataset's ledger that was restored from an older one.
// What was charged stays charged; each question that is asked again is charged again.
func (e *Enforcer) AcceptLedger(head LedgerHead, by string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.use(func(b *book) ([]Entry, error) {
		if b.last.Seq == 0 { // nothing was charged
			return nil, nil
		}
		return []Entry{{Type: EntryAccept, Accepted: &head, By: by}}, nil
	})
}

// Decide writes a person's decision about a run into the ledger: that it may begin, or that
// it may not, or not go on. Spec is the start of the SHA-256 of its spec; it may be empty
// where one run has the name. By is who decides.
func (e *Enforcer) Decide(run, spec string, approve bool, by string) (*Run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	decision := EntryDeny
	if approve {
		decision = EntryApprove
	}
	d, _ := e.allowed()
	var key runKey
	if _, err := os.Stat(e.o.Ledger); errors.Is(err, fs.ErrNotExist) {
		e.ledger.readOnly = true // whoever decides makes no ledger
		defer func() { e.ledger.readOnly = e.o.ReadOnly }()
	}
	err := e.ledger.use(func(b *book) ([]Entry, error) {
		named := slices.DeleteFunc(slices.Clone(b.order), func(k runKey) bool { return k.run != run })
		found := slices.DeleteFunc(slices.Clone(named), func(k runKey) bool { return !strings.HasPrefix(k.spec, spec) })
		switch len(found) {
		case 0:
			if len(named) > 0 {
				return nil, fmt.Errorf("%w: run %q has asked this node, and no spec of it begins with %q; give one "+
					"as `teacher runs` shows it, such as %s", ErrSpec, run, spec, named[0].spec[:12])
			}
			return nil, fmt.Errorf("%w: run %q has asked nothing of this node; `teacher runs` lists those that did",
				ErrNoRun, run)
		case 1:
		default:
			return nil, fmt.Errorf("%w: %d runs of different specs call themselves %q; say with --spec which one, as "+
				"`teacher runs` shows it", ErrSpec, len(found), run)
		}
		key = found[0]
		return []Entry{{Type: decision, Run: key.run, SpecSHA256: key.spec, By: by}}, nil
	})
	if err != nil {
		return nil, err
	}
	var decided Run
	err = e.ledger.use(func(b *book) ([]Entry, error) {
		limit := b.limit
		if d != nil {
			limit = d.Limit()
		}
		decided, err = e.status(b.runs[key], key, d, limit)
		return nil, err
	})
	return &decided, err
}
