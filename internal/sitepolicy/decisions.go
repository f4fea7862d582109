package sitepolicy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
)

// Signed is a person's signature on a decision, and when it was made.
type Signed struct {
	Made string `json:"made"`
	attest.Signature
}

// decision is a person's decision about a run: an entry of type approve or deny.
type decision struct {
	seq     uint64
	approve bool
	by      string
	made    time.Time // as signed, or else its arrival
	until   time.Time // zero if it has no end
	// signer made the signature, nil without one; forged is why the signature is not valid for this decision.
	signer *attest.Signer
	forged error
	// expired is set by an entry that records a request after the end.
	expired bool
}

// decided adds an entry of type approve or deny that arrived at a time.
func (b *book) decided(r *runBook, e Entry, at time.Time) {
	r.decisions = append(r.decisions, b.decision(e, at))
}

// decision parses an entry that a person makes.
func (b *book) decision(e Entry, at time.Time) *decision {
	d := &decision{seq: e.Seq, approve: e.Type == EntryApprove, by: e.By, made: at}
	d.until, _ = time.Parse(time.RFC3339, e.Until) // empty means zero; others were checked
	if e.Signed != nil {
		by, err := e.Signed.Check(b.statement(e, e.Signed.Made))
		if d.forged = err; err == nil {
			d.signer = &by
			d.made, _ = time.Parse(time.RFC3339, e.Signed.Made)
		}
	}
	return d
}

// statement is what a person signs for a decision, which includes the hash of the previous entry.
func (b *book) statement(e Entry, made string) attest.Statement {
	about := e.SpecSHA256
	if e.Accepted != nil {
		about = e.Accepted.Hash
	}
	return attest.Decision(b.dataset, b.site, b.node, e.Run, about, e.Type, made, e.Until, e.Previous)
}

// people counts decisions according to a policy, at a moment.
type people struct {
	d    *Dataset
	good func(attest.Signer, time.Time) error // nil, or why a certificate is not valid
	now  time.Time
}

// Said is a decision and whether it counts.
type Said struct {
	Decision string `json:"decision"` // approve or deny
	By       string `json:"by"`
	Made     string `json:"made"`
	Until    string `json:"until,omitempty"`
	// Key is the fingerprint of the key that signed, empty where none did.
	Key    string `json:"key,omitempty"`
	Counts bool   `json:"counts"`
	Why    string `json:"why,omitempty"` // why it does not count
}

// verdict is the result of all decisions on a run.
type verdict struct {
	denied, approved bool
	by               []string // whose decisions determine it
	have             int      // approvals that count
	until            time.Time
	said             []Said
	// stopped is set after a stop until all needed approvers approve again. Meanwhile approvals in advance do not
	// count.
	stopped bool
}

// Why a decision no longer counts.
var (
	errUnsigned = errors.New("it is not signed, and the policy names approvers; sign with --as and --key")
	errReplaced = errors.New("a later decision replaced it")
	errExpired  = errors.New("it has expired")
)

// person names who made a decision, if the policy allows them to. A denial still counts after its certificate expired
// or was revoked, because neither may restart a stopped run.
func (p people) person(d *decision) (name string, err error) {
	switch {
	case d.forged != nil:
		return "", d.forged
	case len(p.d.Approvers) == 0 || d.signer == nil && !d.approve:
		return d.by, nil
	case d.signer == nil:
		return "", errUnsigned
	}
	name, listed := p.d.approver(d.signer.Fingerprint)
	switch {
	case !listed:
		return "", fmt.Errorf("the policy has no approver with the key %s",
			certs.SpellFingerprint(d.signer.Fingerprint))
	case d.signer.Role != certs.RoleApprover:
		return "", fmt.Errorf("the certificate is for %v; approvers need one of role %s", d.signer.Identity,
			certs.RoleApprover)
	case !d.approve:
		return name, nil
	}
	return name, p.good(*d.signer, p.now)
}

// ended reports whether an approval has expired.
func (p people) ended(d *decision) bool {
	return d.approve && (d.expired || !d.until.IsZero() && !p.now.Before(d.until))
}

// verdict counts each person's last decision in ledger order, whatever clocks say. Without approvers in the policy,
// everybody who may run the command is one person. A denial by anybody denies the run. If there are approvers, an
// unsigned denial cancels earlier approvals.
func (p people) verdict(r *runBook) (v verdict) {
	newest := map[string]*decision{}
	why := make([]error, len(r.decisions))
	for i, d := range r.decisions {
		if _, why[i] = p.person(d); why[i] == nil {
			newest[p.key(d)] = d
		}
	}
	stop := newest[""] // by an unnamed person
	if len(p.d.Approvers) == 0 {
		stop = nil
	}
	again := 0 // persons who approved after the stop
	for i, d := range r.decisions {
		stopped := d.approve && stop != nil && d.seq < stop.seq
		switch {
		case why[i] != nil:
		case newest[p.key(d)] != d || stopped:
			why[i] = errReplaced
		default:
			if d.approve {
				again++
			}
			if p.ended(d) {
				why[i] = errExpired
			}
		}
	}
	for i, d := range r.decisions {
		if d == stop && again > 0 {
			why[i] = errReplaced
		}
		said := Said{Decision: EntryDeny, By: d.by, Made: formatMoment(d.made), Until: formatMoment(d.until),
			Counts: why[i] == nil}
		if name, err := p.person(d); err == nil {
			said.By = name
		}
		if d.signer != nil {
			said.Key = d.signer.Fingerprint
		}
		if d.approve {
			said.Decision = EntryApprove
		}
		if why[i] != nil {
			said.Why = why[i].Error()
		}
		v.said = append(v.said, said)
		v.count(d, said)
	}
	v.stopped = stop != nil && again < max(1, p.d.ApprovalsNeeded)
	v.approved = !v.denied && v.have >= max(1, p.d.ApprovalsNeeded)
	return v
}

// count adds a decision that counts.
func (v *verdict) count(d *decision, said Said) {
	switch {
	case !said.Counts, v.denied && d.approve:
		return
	case !d.approve && !v.denied:
		v.denied, v.by = true, nil
	case d.approve:
		v.have++
		if v.until.IsZero() || !d.until.IsZero() && d.until.Before(v.until) {
			v.until = d.until
		}
	}
	v.by = append(v.by, said.By)
}

// key identifies a person: by key if the policy names approvers.
func (p people) key(d *decision) string {
	if len(p.d.Approvers) == 0 || d.signer == nil {
		return ""
	}
	return d.signer.Fingerprint
}

// lacking says how many of the needed approvals there are, for the site; empty if one is needed.
func (p people) lacking(v verdict) string {
	if p.d.ApprovalsNeeded < 2 {
		return ""
	}
	text := fmt.Sprintf("%d of %d approvals", v.have, p.d.ApprovalsNeeded)
	if len(v.by) > 0 {
		text += ", by " + strings.Join(v.by, " and ")
	}
	return text
}

// expired returns entries for a run's approvals that expired since the last request.
func (p people) expired(key runKey, r *runBook) (entries []Entry) {
	if r == nil || r.ended {
		return nil
	}
	for _, d := range r.decisions {
		if d.expired || !p.ended(d) {
			continue
		}
		by := d.by
		if name, err := p.person(d); err == nil {
			by = name
		}
		entries = append(entries, Entry{Type: EntryExpire, Run: key.run, SpecSHA256: key.spec,
			entryDecision: entryDecision{By: by, Approval: d.seq}})
	}
	return entries
}

// expire adds an entry that records the end of an approval.
func (r *runBook) expire(e Entry) error {
	for _, d := range r.decisions {
		if d.seq == e.Approval && d.approve {
			d.expired = true
			return nil
		}
	}
	return fmt.Errorf("entry %d is not an approval of run %q", e.Approval, e.Run)
}

// formatMoment formats a time for people, to the second; empty for none.
func formatMoment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
