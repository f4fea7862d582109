package sitepolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/conclave-dp/conclave/internal/ledger"
)

// LedgerHead names an entry of a ledger, in its own file. For a site's ledger that is the last entry acknowledged
// before an answer left. It is written after each entry and before the answer leaves, so a ledger that ends earlier
// was truncated, and no answer left for entries after it.
type LedgerHead struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// ReadLedgerHead reads such a file, or returns nil if it does not exist.
func ReadLedgerHead(path string) (*LedgerHead, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w; make it readable", err)
	}
	h := new(LedgerHead)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err = d.Decode(h)
	if _, more := d.Token(); err != nil || h.Seq == 0 || !isSHA256(h.Hash) || !errors.Is(more, io.EOF) {
		return nil, fmt.Errorf("%s does not contain an entry of a ledger; restore all files of its folder from one "+
			"backup",
			path)
	}
	return h, nil
}

// partOf is where a head is written before it gets its name.
const partOf = ".part"

// Write replaces the file atomically. Callers hold the lock of the ledger or of its folder, so there is one part at
// most, and the next write removes one that a crash left.
func (h LedgerHead) Write(path string, sync func(*os.File) error) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	part := path + partOf
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // never through a link
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, sync(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, path)
}

// AcceptLedger records that a person accepts a dataset ledger restored from an older one. Charges stay, and each
// question that is repeated is charged again. A run may then use its whole plan once more, so one of the policy's
// approvers must sign. Errors match [ErrSigned] or ErrLedger.
func (e *Enforcer) AcceptLedger(head LedgerHead, by Decision) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, refusal := e.allowed()
	if refusal != nil { // the required signer is unknown
		return e.refuse(refusal)
	}
	return e.ledger.use(func(b *book) ([]Entry, error) {
		if b.last.Seq == 0 { // nothing was charged
			return nil, nil
		}
		if err := e.own(b); err != nil {
			return nil, err
		}
		entry := Entry{Type: EntryAccept, Accepted: &head, Previous: b.last.Hash,
			entryDecision: entryDecision{By: by.By}}
		p := e.people(b, d)
		if by.Sign != nil && len(d.Approvers) > 0 {
			made := ledger.FormatTime(p.now)
			signature, err := by.Sign(b.statement(entry, made))
			if err != nil {
				return nil, err
			}
			entry.Signed = &Signed{made, signature}
		}
		said := b.decision(entry, p.now)
		said.approve = true
		name, err := p.person(said)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSigned, err)
		}
		entry.By = name
		return []Entry{entry}, nil
	})
}

// Accepted returns why nothing is answered since an older dataset ledger was accepted; nil if that is not the reason.
func (e *Enforcer) Accepted() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, refusal := e.allowed()
	if refusal != nil {
		return nil
	}
	var why error
	err := e.ledger.use(func(b *book) ([]Entry, error) {
		why = e.people(b, d).accepted(b)
		return nil, nil
	})
	if err != nil {
		return nil
	}
	return why
}

// accepted returns why the policy does not recognize the acceptance of an older dataset ledger. The acceptance
// survives the expiry of its certificate, but not its revocation.
func (p people) accepted(b *book) error {
	a := b.accepted
	if a == nil || len(p.d.Approvers) == 0 {
		return nil
	}
	err := errUnsigned
	if a.signer != nil || a.forged != nil {
		_, err = p.person(a)
	}
	if err == nil {
		err = p.good(*a.signer, a.made)
	}
	if err != nil {
		err = fmt.Errorf("entry %d accepts an older ledger of the dataset, but is not valid: %w; have an approver "+
			"sign it again with `teacher accept-ledger`, or restore the ledger from a backup", a.seq,
			err)
	}
	return err
}
