package sitepolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// The states of a run at a site.
const (
	StateApproved  = "approved"  // by a person
	StateDenied    = "denied"    // by a person
	StateWaiting   = "waiting"   // for a person's decision
	StateAutomatic = "automatic" // the policy needs no decision
	StateRefused   = "refused"   // by the policy, whatever approvals there are
	StateEnded     = "ended"     // the run is over
)

// Run is a run that asked this node, or an approval in advance.
type Run struct {
	Run string `json:"run"` // or the name of the approval in advance
	// SpecSHA256 is the hash of its spec, which an approval names.
	SpecSHA256 string `json:"spec_sha256"`
	State      string `json:"state"`
	// Requester is the student that asks for it, as the aggregator names it.
	Requester string `json:"requester,omitempty"`
	Reason    string `json:"reason,omitempty"` // why it is refused
	Spec      *Spec  `json:"terms,omitempty"`  // nil for an approval in advance
	// Advance is the scope of an approval in advance, nil for a run; the charges are then those of its runs.
	Advance *Advance `json:"advance,omitempty"`
	Seen    string   `json:"seen"`
	Decisions
	// Charges counts the charged rounds, and EpsilonCharged is their price alone, at the limit's delta.
	Charges        int             `json:"charges"`
	LastCharged    string          `json:"last_charged,omitempty"`
	Events         []privacy.Event `json:"events,omitempty"`
	EpsilonCharged float64         `json:"epsilon_charged"`
	// RevealsAtMost is how often a round may be charged: more than once in a masked run, because a sum may fail to
	// open after the node opened its part. EpsilonMost is the price of the whole plan with all these openings, as the
	// limit's filter counts; nil without a bound, and after the run's end.
	RevealsAtMost int      `json:"reveals_at_most"`
	EpsilonMost   *float64 `json:"epsilon_most,omitempty"`
}

// Decisions are people's decisions about a run.
type Decisions struct {
	// Decided is when somebody last decided, By whose decisions determine the state, and Until the earliest end of an
	// approval.
	Decided string `json:"decided,omitempty"`
	By      string `json:"by,omitempty"`
	Until   string `json:"until,omitempty"`
	// Approvals counts the valid approvals, and ApprovalsNeeded how many are needed, if the policy names approvers.
	Approvals       int    `json:"approvals"`
	ApprovalsNeeded int    `json:"approvals_needed,omitempty"`
	Said            []Said `json:"decisions,omitempty"`
}

// Status is the combined state of a site's ledger and policy.
type Status struct {
	Dataset string `json:"dataset"`
	Site    string `json:"site"`
	Node    string `json:"node"`
	// Problem is why nothing is answered at all, or empty.
	Problem string `json:"problem,omitempty"`
	// Limit is the policy's limit, nil if it is unreadable.
	Limit *privacy.Budget `json:"limit,omitempty"`
	// EpsilonSpent is the price of all charges at the limit's delta; EpsilonCounted is that by the limit's filter,
	// never less; EpsilonLeft is the largest budget of one more run that would fit, by the filter.
	EpsilonSpent   float64 `json:"epsilon_spent"`
	EpsilonCounted float64 `json:"epsilon_counted"`
	EpsilonLeft    float64 `json:"epsilon_left"`
	Entries        uint64  `json:"entries"`
	Head           string  `json:"head,omitempty"`
	Runs           []Run   `json:"runs"`
	// InAdvance are the approvals in advance.
	InAdvance []Run `json:"in_advance,omitempty"`
}

// Status reads and verifies the ledger, and reads the policy. The error says that the ledger cannot be read; other
// problems are in the status.
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
			run, err := e.status(b, key, d, limit)
			if err != nil {
				return nil, err
			}
			if run.Advance != nil {
				s.InAdvance = append(s.InAdvance, run)
			} else {
				s.Runs = append(s.Runs, run)
			}
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

func (e *Enforcer) status(b *book, key runKey, d *Dataset, limit privacy.Budget) (Run, error) {
	r := b.runs[key]
	run := Run{
		Run: key.run, SpecSHA256: key.spec, Requester: r.requester, Advance: r.advance, Seen: r.seen,
		Charges: r.charges, LastCharged: r.charged, Events: r.spent, RevealsAtMost: r.spec.RevealsAtMost(),
	}
	if run.Advance == nil {
		run.Spec = &r.spec
	}
	by := d
	if by == nil { // without a policy anybody who may run the command decides
		by = &Dataset{}
	}
	p := e.people(b, by)
	v := p.verdict(r)
	run.Decisions = Decisions{By: strings.Join(v.by, ", "), Until: formatMoment(v.until), Approvals: v.have,
		ApprovalsNeeded: by.ApprovalsNeeded, Said: v.said}
	if n := len(r.decisions); n > 0 {
		run.Decided = ledger.FormatTime(r.decisions[n-1].made)
	}
	switch {
	case r.ended:
		run.State = StateEnded
	case v.denied:
		run.State = StateDenied
	case d == nil:
		run.State = StateRefused
	default:
		run.State = map[Approval]string{ByHand: StateWaiting, Automatic: StateAutomatic}[d.Approval]
		if v.approved {
			run.State = StateApproved
		}
		if run.Spec == nil {
			break
		}
		if r := d.permits(*run.Spec, e.o.Site, p.now); r != nil {
			run.State, run.Reason = StateRefused, e.refuse(r).Error()
		}
	}
	if run.State != StateEnded && run.Spec != nil {
		run.EpsilonMost = run.Spec.most(limit)
	}
	var err error
	run.EpsilonCharged, err = running(r.spent, limit.Delta)
	return run, err
}

// most is the most that a run may cost at a site, as the limit counts; nil if its plan has no bound.
func (s Spec) most(limit privacy.Budget) *float64 {
	if !s.Plan.Fixed() || limit.Delta == 0 {
		return nil
	}
	most, err := countedBy(limit, times(s.Plan.Events(), s.RevealsAtMost()))
	if err != nil {
		return nil // a question without a price is refused when it is asked
	}
	return &most
}

// ErrNoRun says that the run of a decision never asked this node.
var ErrNoRun = errors.New("no such run")

// ErrSpec says that the given spec matches none, or several, of the runs with the name.
var ErrSpec = errors.New("the spec does not identify the run")

// ErrSigned says that the policy does not count a decision with this signature, or without one.
var ErrSigned = errors.New("the decision would not count")

var errNoEnd = errors.New("an approval in advance needs an end; give --until or --for, or set approval_expires in " +
	"the policy")

// Decision is a person's decision about a run.
type Decision struct {
	Approve bool
	// By is who decides, as named by the system.
	By string
	// Until is when an approval ends; zero uses the policy's default.
	Until time.Time
	// Advance is the scope of an approval in advance; nil for a run that asked.
	Advance *Advance
	// Sign signs with the person's key; nil if the policy names no approvers.
	Sign func(attest.Statement) (attest.Signature, error)
}

// Decide writes a person's decision about a run to the ledger: it may begin, or it may not begin or continue. Spec is
// a prefix of the spec's SHA-256; it may be empty if one run has the name. Errors match [ErrNoRun], [ErrSpec],
// [ErrSigned] or ErrLedger if one of these is the reason.
func (e *Enforcer) Decide(run, spec string, by Decision) (*Run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, refusal := e.allowed()
	if by.Advance != nil {
		if d == nil {
			return nil, e.refuse(refusal)
		}
		if err := by.Advance.validate(); err != nil {
			return nil, err
		}
		if by.Approve && by.Until.IsZero() && d.ApprovalExpires == "" {
			return nil, errNoEnd
		}
		if !runspec.IsName(run) {
			return nil, fmt.Errorf("%q is not a name for an approval; use a name like those of runs", run)
		}
	} else if _, err := os.Stat(e.o.Ledger); errors.Is(err, fs.ErrNotExist) {
		e.ledger.readOnly = true // a decision creates no ledger
		defer func() { e.ledger.readOnly = e.o.ReadOnly }()
	}
	var key runKey
	err := e.ledger.use(func(b *book) (entries []Entry, err error) {
		on := b
		// The signature names the node of this ledger, which must be the one that the person looks at.
		if err := e.own(b); err != nil {
			return nil, err
		}
		if by.Advance != nil {
			if refusal := e.fits(b, d); refusal != nil {
				return nil, e.refuse(refusal)
			}
			entries = e.opened(b, d)
			on = &book{dataset: e.o.Dataset, site: e.o.Site, node: e.o.Node, newest: b.newest, lists: b.lists}
			key = runKey{run, by.Advance.sha256(run)}
			if b.runs[key] == nil {
				entries = append(entries, Entry{Type: EntryAdvance, Run: key.run, SpecSHA256: key.spec,
					Advance: by.Advance})
			}
		} else if key, err = b.named(run, spec); err != nil {
			return nil, err
		}
		before, err := b.seal(entries, e.ledger.now()) // the signature covers the position after this entry
		if err != nil {
			return nil, err
		}
		entry, err := e.decision(on, d, key, before.Hash, by)
		return append(entries, entry), err
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
		decided, err = e.status(b, key, d, limit)
		return nil, err
	})
	return &decided, err
}

// named finds a run by name and the start of its spec's digest.
func (b *book) named(run, spec string) (runKey, error) {
	named := slices.DeleteFunc(slices.Clone(b.order), func(k runKey) bool { return k.run != run })
	found := slices.DeleteFunc(slices.Clone(named), func(k runKey) bool { return !strings.HasPrefix(k.spec, spec) })
	switch {
	case len(named) == 0:
		return runKey{}, fmt.Errorf("%w: run %q has not asked this node; a run asks some seconds after it is "+
			"submitted, while the node is connected and a worker is free; `teacher runs` lists those that have asked",
			ErrNoRun, run)
	case len(found) == 0:
		return runKey{}, fmt.Errorf("%w: run %q has no spec that starts with %q; give one from `teacher runs`, such "+
			"as %s", ErrSpec, run, spec, named[0].spec[:12])
	case len(found) > 1:
		return runKey{}, fmt.Errorf("%w: %d runs with different specs have the name %q; choose one with --spec, as "+
			"shown by `teacher runs`", ErrSpec, len(found), run)
	}
	return found[0], nil
}

// decision makes the entry of a decision after another entry, signed if needed, which the policy must count; d may be
// nil.
func (e *Enforcer) decision(b *book, d *Dataset, key runKey, previous string, by Decision) (Entry, error) {
	entry := Entry{Type: EntryDeny, Run: key.run, SpecSHA256: key.spec, Previous: previous,
		entryDecision: entryDecision{By: by.By}}
	if d == nil {
		d = &Dataset{}
	}
	p := e.people(b, d)
	if by.Approve {
		entry.Type = EntryApprove
		if term, err := ParseTerm(d.ApprovalExpires); err == nil && by.Until.IsZero() {
			by.Until = p.now.Add(term)
		}
		r := b.runs[key]
		switch {
		case by.Until.IsZero() && r != nil && r.advance != nil:
			return entry, errNoEnd
		case by.Until.IsZero():
		case !by.Until.After(p.now):
			return entry, fmt.Errorf("the approval would end at %s, but it is already %s by this machine's clock and "+
				"the site's ledger; give a later end", formatMoment(by.Until), formatMoment(p.now))
		default:
			entry.Until = ledger.FormatTime(by.Until)
		}
	}
	if by.Sign != nil && len(d.Approvers) == 0 {
		return entry, fmt.Errorf("%w if it is signed: the policy has no approvers; leave out the certificate, or "+
			"list approvers", ErrSigned)
	}
	if by.Sign != nil {
		made := ledger.FormatTime(p.now)
		signature, err := by.Sign(b.statement(entry, made))
		if err != nil {
			return entry, err
		}
		entry.Signed = &Signed{made, signature}
	}
	var said runBook
	b.decided(&said, entry, p.now)
	name, err := p.person(said.decisions[0])
	if err != nil {
		return entry, fmt.Errorf("%w: %w", ErrSigned, err)
	}
	entry.By = name
	return entry, nil
}
