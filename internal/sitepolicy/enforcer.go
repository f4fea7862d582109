package sitepolicy

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Options identify the enforcer's node and the paths of its files.
type Options struct {
	// Policy is the path of the policy file, Ledger that of the site's ledger. The ledger's head is stored next to
	// it, in a file that ends with .head.
	Policy, Ledger string
	// The node, and what its rounds must be about.
	Dataset, Site, Node, SchemaSHA256, Unit string
	// Overlap is at how many sites a unit of the node may be; a run that counts on fewer is refused.
	Overlap  int
	Facts    Facts
	Teachers int // of the node
	// Authority names the authority of approvers' certificates, and its revocation list.
	Authority certs.Files
	// Expired is called once for each expired approval, when its run is next requested. It may be nil.
	Expired func(Entry)
	// ReadOnly is for reading only: nothing is created, fixed or charged.
	ReadOnly bool
}

// Enforcer decides which rounds a node answers. It is safe for concurrent use, and several processes may have one on
// the same ledger.
type Enforcer struct {
	o Options

	mu      sync.Mutex
	ledger  *siteLedger
	signers *tlsconfig.Signers
	// text is the policy file as last read; policy, or err, is its content.
	text   []byte
	policy *Policy
	err    error
}

// New returns an enforcer. It reads nothing yet: the files may be fixed while a node waits for them, see
// [Enforcer.Check].
func New(o Options) *Enforcer {
	e := &Enforcer{o: o, ledger: newSiteLedger(o.Ledger, o.ReadOnly)}
	e.signers = tlsconfig.NewSigners(o.Authority, func() time.Time { return e.ledger.now() })
	return e
}

// people counts decisions at the current time. A clock that was set back does not revive an expired approval.
func (e *Enforcer) people(b *book, d *Dataset) people {
	now := e.ledger.now()
	if b.newest.After(now) {
		now = b.newest
	}
	e.signers.Since(b.lists)
	return people{d: d, good: e.signers.Check, now: now}
}

// newer returns an entry for revocation lists that are newer than the ledger's, if any.
func (e *Enforcer) newer(b *book) []Entry {
	lists := map[string]string{}
	maps.Copy(lists, b.lists)
	for issuer, number := range e.signers.Numbers() {
		// The numbers have no leading zeros: a longer one is larger, and so is the later one of equal length.
		if was := lists[issuer]; len(number) > len(was) || len(number) == len(was) && number > was {
			lists[issuer] = number
		}
	}
	if maps.Equal(lists, b.lists) {
		return nil
	}
	return []Entry{{Type: EntryLists, Lists: lists}}
}

// Check reports whether anything can be answered: the policy and the ledger are usable, and the policy names the
// dataset. The error is for the site only.
func (e *Enforcer) Check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, refusal := e.allowed()
	if refusal == nil {
		err := e.ledger.use(func(b *book) ([]Entry, error) {
			refusal = e.fits(b, d)
			return nil, nil
		})
		if err != nil {
			refusal = ledgerRefusal(err)
		}
	}
	return e.refuse(refusal)
}

// Enough reports whether the node has the least numbers of privacy units that the policy requires. It is also nil if
// the policy cannot be read, because then nothing is answered. The error is for the site only.
func (e *Enforcer) Enough() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, _ := e.allowed()
	if d == nil {
		return nil
	}
	return e.refuse(d.enough(e.o.Facts))
}

// Count gives the rules new numbers of privacy units: a streaming node learns those of its teachers when it divides
// their records.
func (e *Enforcer) Count(f Facts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.o.Facts.Units, e.o.Facts.LeastUnits = f.Units, f.LeastUnits
}

// Figures returns the policy's limit, 0 if unreadable, and the charges by the limit's filter: nothing is left when
// they are equal. The error is why one of them is unknown.
func (e *Enforcer) Figures() (limit, counted float64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, refusal := e.allowed()
	if d != nil {
		limit = d.Epsilon
	}
	err = e.ledger.use(func(b *book) (_ []Entry, err error) {
		by := b.limit
		if d != nil {
			by = d.Limit()
		}
		counted, err = countedBy(by, b.spent)
		return nil, err
	})
	return limit, counted, errors.Join(e.refuse(refusal), err)
}

// Ask returns nil if a round may be answered, else a *[Refusal]. It records a run that was never seen before.
func (e *Enforcer) Ask(t Request) error {
	_, err := e.decide(t, false)
	return err
}

// Charge asks again, since minutes may have passed, and charges the round. If the error is nil the entry is on disk,
// and the answer may leave, or be opened in a masked run. Repeating the run's last charged question is free: the
// entry then has the number and hash of the one that paid, and the current total.
func (e *Enforcer) Charge(t Request) (*Entry, error) { return e.decide(t, true) }

func (e *Enforcer) decide(t Request, charge bool) (charged *Entry, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := t.validate(); err != nil {
		return nil, e.refuse(&Refusal{Rule: RuleTerms,
			Public: "the aggregator sent no valid description and price of the question; install matching " +
				"versions", Private: err.Error()})
	}
	if refusal := e.mine(t.Spec); refusal != nil {
		return nil, e.refuse(refusal)
	}
	d, refusal := e.allowed()
	var entries []Entry
	var paid *Entry
	err = e.ledger.use(func(b *book) ([]Entry, error) {
		entries, paid = nil, nil
		if d == nil {
			if b.last.Seq > 0 && b.room(t) {
				entries = b.note(nil, t)
			}
			return entries, nil
		}
		if refusal = e.fits(b, d); refusal != nil {
			return nil, nil
		}
		var is judgement
		is, refusal = judge(b, e.people(b, d), t, e.o)
		entries = slices.Concat(e.opened(b, d), e.newer(b), e.expired(b, d, t))
		switch known := b.runs[runKey{t.Run, t.SpecSHA256}] != nil; {
		case known:
		case refusal == nil && charge, b.room(t):
			entries = b.note(entries, t)
		case refusal == nil || !refusal.Waiting: // nobody has to decide about it
		default: // people can only decide about what is in the ledger
			refusal = &Refusal{Rule: RuleApproval,
				Public: "too many runs were never decided about at site " + e.o.Site + "; ask its people to deny some",
				Private: fmt.Sprintf("%d runs of %q, or %d in total, have no decision (ended runs count); see "+
					"`teacher runs`, and deny some with `teacher deny`", maxUndecidedOfOne, t.Requester, maxUndecided)}
		}
		switch {
		case refusal != nil || !charge:
		case !is.due:
			seq := b.paid(t)
			paid = &Entry{Type: EntryCharge, Seq: seq, Hash: b.hashes[seq-1],
				entryCharge: entryCharge{EpsilonSpent: is.spent}}
		default:
			entries = append(entries, Entry{
				Type: EntryCharge, Run: t.Run, SpecSHA256: t.SpecSHA256, entryCharge: entryCharge{
					Round: &t.Round, Question: t.Question, Kind: t.Kind, Planned: &t.Use.Planned, Uses: t.Use.Queries,
					Events: privacy.Merge(t.Charges), EpsilonSpent: is.spent, Under: is.under},
			})
		}
		return entries, nil
	})
	if err != nil {
		return nil, e.refuse(ledgerRefusal(err))
	}
	e.tell(entries)
	if refusal != nil {
		return nil, e.refuse(refusal)
	}
	if n := len(entries); n > 0 && entries[n-1].Type == EntryCharge {
		return &entries[n-1], nil
	}
	return paid, nil
}

// expired returns entries for expired approvals that a round depends on.
func (e *Enforcer) expired(b *book, d *Dataset, t Request) (entries []Entry) {
	p := e.people(b, d)
	for _, key := range append(b.inAdvanceOf(t, d), runKey{t.Run, t.SpecSHA256}) {
		entries = append(entries, p.expired(key, b.runs[key])...)
	}
	return entries
}

// tell reports the expired approvals among entries.
func (e *Enforcer) tell(entries []Entry) {
	for _, entry := range entries {
		if entry.Type == EntryExpire && e.o.Expired != nil {
			e.o.Expired(entry)
		}
	}
}

// End records the end of those runs that asked this node: nothing more is answered in them.
func (e *Enforcer) End(runs ...string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.use(func(b *book) (entries []Entry, err error) {
		open := map[string]bool{}
		for key, r := range b.runs {
			open[key.run] = open[key.run] || !r.ended && r.advance == nil
		}
		for _, run := range runs {
			if open[run] {
				entries = append(entries, Entry{Type: EntryEnd, Run: run})
			}
		}
		return entries, nil
	})
}

// refuse completes a refusal; nil stays nil.
func (e *Enforcer) refuse(r *Refusal) error {
	if r == nil {
		return nil
	}
	r.Site = e.o.Site
	return r
}

func ledgerRefusal(err error) *Refusal {
	return &Refusal{Rule: RuleLedger, Public: "it cannot be used; its node's log says why", Private: err.Error(),
		Waiting: true}
}

func (e *Enforcer) mine(s Spec) *Refusal {
	switch {
	case s.Dataset != e.o.Dataset:
		return &Refusal{Rule: RuleDataset, Public: "the run is on another dataset than this node's"}
	case s.SchemaSHA256 != e.o.SchemaSHA256:
		return &Refusal{Rule: RuleTerms, Public: "the run has another schema than this node"}
	case s.Unit != e.o.Unit:
		return &Refusal{Rule: RuleTerms, Public: "the run protects another privacy unit than this node's"}
	case s.budget().Sites() < e.o.Overlap:
		return &Refusal{Rule: RuleTerms, Public: fmt.Sprintf("the run assumes privacy units at up to %d sites, and "+
			"those of this node may be at up to %d", s.budget().Sites(), e.o.Overlap)}
	}
	return nil
}

// allowed reads the policy file if it changed, and returns the section of the node's dataset. It compares whole
// texts, because file times are unreliable.
func (e *Enforcer) allowed() (*Dataset, *Refusal) {
	text, err := readText(e.o.Policy)
	switch {
	case err != nil:
		e.text, e.policy, e.err = nil, nil, err
	case e.text == nil || !bytes.Equal(text, e.text):
		e.text = text
		e.policy, e.err = parseFile(e.o.Policy, text)
	}
	if e.err != nil {
		return nil, &Refusal{Rule: RulePolicy,
			Public: "the file cannot be used; nothing is answered until it is fixed", Private: e.err.Error(),
			Waiting: true}
	}
	d := e.policy.Dataset(e.o.Dataset)
	if d == nil {
		return nil, &Refusal{Rule: RuleDataset, Public: fmt.Sprintf("nothing is allowed on dataset %s", e.o.Dataset)}
	}
	return d, nil
}

// fits checks that the ledger belongs to this node, and that its filter equals the policy's.
func (e *Enforcer) fits(b *book, d *Dataset) *Refusal {
	switch {
	case b.last.Seq == 0:
	case e.own(b) != nil:
		return ledgerRefusal(e.own(b))
	case e.people(b, d).accepted(b) != nil:
		return ledgerRefusal(e.people(b, d).accepted(b))
	case b.limit.Filter != d.Filter && len(b.spent) > 0:
		return &Refusal{Rule: RuleFilter,
			Public: "it changed since the first charge; nothing is answered until it is fixed", Waiting: true,
			Private: fmt.Sprintf("it was %s when the first round was charged, but the policy says %s; restore %s",
				b.limit.Filter, d.Filter, b.limit.Filter)}
	}
	return nil
}

// own fails if the ledger belongs to another node.
func (e *Enforcer) own(b *book) error {
	if b.last.Seq == 0 || b.dataset == e.o.Dataset && b.site == e.o.Site && b.node == e.o.Node {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to node %s/%s on dataset %s; give each node its own state folder", ErrLedger,
		e.o.Ledger, b.site, b.node, b.dataset)
}

// opened returns the entries that a ledger needs first: the opening one, or a new limit.
func (e *Enforcer) opened(b *book, d *Dataset) []Entry {
	limit := d.Limit()
	switch {
	case b.last.Seq == 0:
		return []Entry{{Type: EntryOpen, Dataset: e.o.Dataset, Site: e.o.Site, Node: e.o.Node, Limit: &limit}}
	case b.limit != limit:
		return []Entry{{Type: EntryLimit, Limit: &limit}}
	}
	return nil
}

// maxUndecided bounds a ledger's runs, including ended ones, that were never decided about and never charged;
// maxUndecidedOfOne bounds those of one student. Each takes up to 64 KiB that nobody pays for, and no student may use
// up the room of others.
const (
	maxUndecided      = 1000
	maxUndecidedOfOne = 100
)

// room reports whether one more such run may be recorded.
func (b *book) room(t Request) bool {
	var all, ofOne int
	for _, r := range b.runs {
		if len(r.decisions) > 0 || r.charges > 0 {
			continue
		}
		all++
		if r.requester == t.Requester {
			ofOne++
		}
	}
	return all < maxUndecided && ofOne < maxUndecidedOfOne
}

// note adds the entry of a run that was never seen.
func (b *book) note(entries []Entry, t Request) []Entry {
	if b.runs[runKey{t.Run, t.SpecSHA256}] != nil {
		return entries
	}
	return append(entries, Entry{Type: EntryRun, Run: t.Run, SpecSHA256: t.SpecSHA256, Spec: &t.Spec,
		Requester: t.Requester})
}
