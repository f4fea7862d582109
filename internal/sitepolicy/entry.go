package sitepolicy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// The types of entries.
const (
	EntryOpen    = "open"    // first entry of a ledger
	EntryLimit   = "limit"   // the policy's limit changes here
	EntryRun     = "run"     // a run was seen for the first time
	EntryApprove = "approve" // a person permits a run
	EntryDeny    = "deny"    // a person denies or stops it
	EntryAdvance = "advance" // scope of an approval in advance; its approve entry follows as for a run
	EntryExpire  = "expire"  // an approval was used after its end; it no longer counts, whatever the clock says
	EntryCharge  = "charge"  // a round is answered; in a masked run the answer is opened
	EntryEnd     = "end"     // a run has ended, and so have its approvals
	EntryLists   = "lists"   // newer revocation lists; older ones are not trusted from here on
	// EntryAccept: a person accepts a dataset ledger restored from an older one. Answers may then be drawn anew, so
	// each question is charged again.
	EntryAccept = "accept"
)

// Entry is one line of a site's ledger: canonical JSON, chained by hashes.
//
//	open     dataset, site, node, limit
//	limit    limit
//	run      run, spec, terms, requester if the aggregator names one
//	advance  run, spec, advance
//	approve  run, spec, by, until if it has an end, signed if the policy names approvers
//	deny     run, spec, by, signed as above
//	expire   run, spec, by, approval
//	charge   run, spec, round, question, kind, planned, uses, events, epsilon_spent, under if an approval in
//	         advance let the run begin
//	end      run
//	lists    lists
//	accept   accepted, by, signed as above
//
// All of them have a time.
type Entry struct {
	Seq     uint64          `json:"seq"`  // from 1, without gaps
	Time    string          `json:"time"` // RFC 3339, UTC, milliseconds
	Type    string          `json:"type"`
	Dataset string          `json:"dataset,omitempty"`
	Site    string          `json:"site,omitempty"`
	Node    string          `json:"node,omitempty"`
	Limit   *privacy.Budget `json:"limit,omitempty"`
	Run     string          `json:"run,omitempty"`
	// SpecSHA256 is the hash of the run's spec, in hex. An approval is for that spec only.
	SpecSHA256 string `json:"spec,omitempty"`
	Spec       *Spec  `json:"terms,omitempty"`
	// Requester is the student that asks for the run, as the aggregator names it.
	Requester string `json:"requester,omitempty"`
	// Advance is the scope of an approval in advance. Run is then its name, and SpecSHA256 is the hash of both.
	Advance *Advance `json:"advance,omitempty"`
	entryDecision
	// Accepted is the entry that the accepted dataset ledger ends with, or continues from.
	Accepted *LedgerHead `json:"accepted,omitempty"`
	// Lists are revocation list numbers, by the SHA-256 of the authority's name in hex.
	Lists map[string]string `json:"lists,omitempty"`
	entryCharge
	Previous string `json:"previous"` // hash of the previous entry, empty for the first
	Hash     string `json:"hash"`     // hex SHA-256 of the canonical form with an empty hash
}

type entryDecision struct {
	// By is who decided, as named by the policy or the system.
	By string `json:"by,omitempty"`
	// Until is when an approval ends; empty without an end.
	Until string `json:"until,omitempty"`
	// Signed is the signature with the person's key.
	Signed *Signed `json:"signed,omitempty"`
	// Approval is the number of the entry whose approval ended.
	Approval uint64 `json:"approval,omitempty"`
}

type entryCharge struct {
	Round    *uint64 `json:"round,omitempty"`
	Question string  `json:"question,omitempty"` // SHA-256 in hex; of an opening in a masked run
	Kind     Kind    `json:"kind,omitempty"`
	// Planned is the index of the entry in the run's plan, and Uses the most that it is used.
	Planned *int            `json:"planned,omitempty"`
	Uses    int64           `json:"uses,omitempty"`
	Events  []privacy.Event `json:"events,omitempty"`
	// EpsilonSpent is the price of all charges so far at the limit's delta, by the accountants with closed formulas.
	EpsilonSpent float64 `json:"epsilon_spent,omitempty"`
	// Under is the SpecSHA256 of the approval in advance that lets the run begin; empty if the run itself was
	// approved.
	Under string `json:"under,omitempty"`
}

// maxLine bounds an entry in bytes.
const maxLine = 64 << 10

// canonical returns the one JSON form of an entry.
func (e Entry) canonical() ([]byte, error) {
	line, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	if len(line) >= maxLine {
		return nil, fmt.Errorf("entry %d has %d bytes; the maximum is %d", e.Seq, len(line), maxLine)
	}
	return line, nil
}

// seal chains an entry to the previous one, which is zero for the first.
func (e *Entry) seal(last Entry, now time.Time) error {
	e.Seq, e.Previous, e.Hash, e.Time = last.Seq+1, last.Hash, "", ledger.FormatTime(now)
	if err := e.validate(); err != nil {
		return fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	hash, err := e.digest()
	e.Hash = hash
	return err
}

func (e Entry) digest() (string, error) {
	e.Hash = ""
	line, err := e.canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:]), nil
}

// parseEntry parses a line, which must be in canonical form.
func parseEntry(line []byte) (Entry, error) {
	var e Entry
	if len(line) >= maxLine {
		return e, errors.New("the line is too long")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Entry{}, errors.New("the line is not an entry")
	}
	canonical, err := e.canonical()
	if err != nil {
		return Entry{}, err
	}
	if !bytes.Equal(line, canonical) {
		return Entry{}, errors.New("the line is not in canonical form; it was edited, or another program wrote it")
	}
	return e, e.validate()
}

// entryFields lists the fields of each entry type: an entry has exactly these.
var entryFields = map[string]map[string]bool{
	EntryOpen:    {"dataset": true, "site": true, "node": true, "limit": true},
	EntryLimit:   {"limit": true},
	EntryRun:     {"run": true, "spec": true, "terms": true},
	EntryAdvance: {"run": true, "spec": true, "advance": true},
	EntryApprove: {"run": true, "spec": true, "by": true},
	EntryDeny:    {"run": true, "spec": true, "by": true},
	EntryExpire:  {"run": true, "spec": true, "by": true, "approval": true},
	EntryCharge: {"run": true, "spec": true, "round": true, "question": true, "events": true, "planned": true,
		"uses": true},
	EntryEnd:    {"run": true},
	EntryLists:  {"lists": true},
	EntryAccept: {"by": true, "accepted": true},
}

func (e Entry) validate() error {
	fields, known := entryFields[e.Type]
	if !known {
		return fmt.Errorf("type %q is unknown", e.Type)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"dataset", e.Dataset != ""}, {"site", e.Site != ""}, {"node", e.Node != ""}, {"limit", e.Limit != nil},
		{"run", e.Run != ""},
		{"advance", e.Advance != nil}, {"approval", e.Approval > 0},
		{"accepted", e.Accepted != nil}, {"lists", len(e.Lists) > 0},
		{"spec", e.SpecSHA256 != ""}, {"terms", e.Spec != nil}, {"by", e.By != ""}, {"round", e.Round != nil},
		{"question", e.Question != ""},
		{"events", len(e.Events) > 0}, {"planned", e.Planned != nil}, {"uses", e.Uses > 0},
	} {
		if f.set != fields[f.name] {
			return fmt.Errorf("%s of an entry of type %s", f.name, e.Type)
		}
	}
	for _, word := range []string{e.Dataset, e.Site, e.Node, e.Run, e.By, string(e.Kind)} {
		if !isWord(word) {
			return errors.New("a word is not valid")
		}
	}
	switch {
	case e.Run != "" && !runspec.IsName(e.Run):
		return errors.New("the run's name is not valid")
	case e.Accepted != nil && (e.Accepted.Seq == 0 || !isSHA256(e.Accepted.Hash)):
		return errors.New("the accepted entry is not valid")
	case e.Requester != "" && (e.Type != EntryRun || !runspec.IsName(e.Requester)):
		return fmt.Errorf("requester of an entry of type %s", e.Type)
	case e.Until != "" && e.Type != EntryApprove, e.Signed != nil && e.Type != EntryApprove && e.Type != EntryDeny &&
		e.Type != EntryAccept:
		return fmt.Errorf("a decision in an entry of type %s", e.Type)
	case e.Advance != nil && e.SpecSHA256 != e.Advance.sha256(e.Run):
		return errors.New("what was approved in advance has another digest")
	case e.Under != "" && (e.Type != EntryCharge || !isSHA256(e.Under)):
		return fmt.Errorf("an approval in advance in an entry of type %s", e.Type)
	case e.SpecSHA256 != "" && !isSHA256(e.SpecSHA256), e.Question != "" && !isSHA256(e.Question):
		return errors.New("a digest is not valid")
	case e.Type != EntryCharge && (e.EpsilonSpent != 0 || e.Kind != ""):
		return fmt.Errorf("the price of a round in an entry of type %s", e.Type)
	case !(e.EpsilonSpent >= 0) || math.IsInf(e.EpsilonSpent, 0):
		return fmt.Errorf("epsilon_spent is %v", e.EpsilonSpent)
	}
	for issuer, number := range e.Lists {
		n, ok := new(big.Int).SetString(number, 10)
		if !ok || n.Sign() < 0 || n.String() != number || !isSHA256(issuer) {
			return errors.New("the number of a list is not valid")
		}
	}
	times := []string{e.Time}
	if e.Until != "" {
		times = append(times, e.Until)
	}
	if e.Signed != nil {
		times = append(times, e.Signed.Made)
	}
	for _, text := range times {
		if t, err := time.Parse(time.RFC3339, text); err != nil || ledger.FormatTime(t) != text {
			return fmt.Errorf("time is %q", text)
		}
	}
	if e.Advance != nil {
		if err := e.Advance.validate(); err != nil {
			return err
		}
	}
	if e.Limit != nil {
		if err := e.Limit.Validate(); err != nil {
			return err
		}
	}
	if e.Spec != nil {
		if err := e.Spec.validate(); err != nil {
			return err
		}
	}
	for i, event := range e.Events {
		if err := event.Validate(); err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return nil
}
