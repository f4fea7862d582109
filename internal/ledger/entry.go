package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// The types of ledger entries.
const (
	EntryOpen    = "open"    // a dataset and its budget; the first entry of a ledger
	EntryRun     = "run"     // a run and its budget
	EntryRoster  = "roster"  // the sites connected at a run's first question
	EntryRelease = "release" // an answer and what it cost
	// EntryAbandoned is a question that nodes were asked and that was abandoned before its release. It costs the most
	// that its answer could have cost.
	EntryAbandoned = "abandoned"
	EntryClose     = "close" // the end of a run
)

// The layouts of days and times: RFC 3339, in UTC.
const (
	dayLayout  = "2006-01-02"
	timeLayout = "2006-01-02T15:04:05.000Z"
)

// FormatDay formats a day as in ledger entries.
func FormatDay(t time.Time) string { return t.UTC().Format(dayLayout) }

// FormatTime formats a time to milliseconds, as in the queue and the sites' ledgers.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// Entry is one line of the ledger of one dataset. Fill in the fields of its type, then [Entry.Seal] it to the
// previous entry.
//
//	open     dataset, budget, unit, neighbouring
//	run      dataset, run, budget, plan, facts, masked if its sums are
//	roster   dataset, run, roster
//	release  dataset, run, round, planned, kind, events, queries, answered, entries, epsilon_spent, release_sha256
//	abandoned  dataset, run, round, planned, kind, events, queries, answered, epsilon_spent
//	close    dataset, run, epsilon_spent; if files were given out manifest_sha256, and by if a worker made them
//
// All of them have a fence. All except questions have a day: the time that an answer takes can depend on its records,
// and its noise does not cover that.
type Entry struct {
	Seq     uint64  `json:"seq"`           // from 1, without gaps
	Day     string  `json:"day,omitempty"` // see FormatDay
	Type    string  `json:"type"`
	Dataset string  `json:"dataset"`
	Run     string  `json:"run,omitempty"`
	Round   *uint64 `json:"round,omitempty"`
	// Planned is the index of the plan entry that paid for a release, and Kind that entry's kind of question.
	Planned *int   `json:"planned,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Opening
	Roster []Site `json:"roster,omitempty"`
	Charge
	// Manifest is the SHA-256, in hex, of the run's list of files.
	Manifest string `json:"manifest_sha256,omitempty"`
	// By is the student that closed a run with that list, if it is a worker and not the student that wanted the run.
	By       string `json:"by,omitempty"`
	Fence    int64  `json:"fence"`    // fence of the leadership that wrote it; never falls
	Previous string `json:"previous"` // hash of the previous entry, empty for the first
	Hash     string `json:"hash"`     // hex SHA-256 of the canonical form with an empty hash
}

// Opening holds the budget in the entry of a dataset or a run.
type Opening struct {
	Budget       *privacy.Budget `json:"budget,omitempty"`
	Plan         privacy.Plan    `json:"plan,omitempty"`         // all that a run may ask, with costs
	Masked       *masking.Group  `json:"masked,omitempty"`       // the group that masks the sums
	Facts        *Facts          `json:"facts,omitempty"`        // other facts about a run
	Unit         string          `json:"unit,omitempty"`         // "record" or the column of the privacy unit
	Neighbouring string          `json:"neighbouring,omitempty"` // for example "add-or-remove-one-unit"
}

// Charge holds the price in the entry of a release.
type Charge struct {
	Events []privacy.Event `json:"events,omitempty"`
	// Queries counts the release's uses of the entry's mechanism, and Answered the answered queries.
	Queries  int64 `json:"queries,omitempty"`
	Answered int64 `json:"answered,omitempty"`
	// Entries is the length of a release's vector, 0 for votes and selections.
	Entries int64 `json:"entries,omitempty"`
	// EpsilonSpent is the run's spending after this entry, at the run's delta; see [Running].
	EpsilonSpent  float64 `json:"epsilon_spent"`
	ReleaseSHA256 string  `json:"release_sha256,omitempty"` // hex, of the stored answer
}

// Canonical returns the one JSON form of the entry, as in a ledger file without the newline: fields in the order of the
// struct, no white space, numbers as encoding/json writes them.
func (e Entry) Canonical() ([]byte, error) {
	line, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	return line, nil
}

// Seal chains the entry to the previous one (nil for the first of a ledger): it sets Seq, Previous and Hash. It
// refuses an entry whose fields do not fit its type, and then leaves it unchanged.
func (e *Entry) Seal(previous *Entry) error {
	sealed := *e
	sealed.Seq, sealed.Previous = 1, ""
	if previous != nil {
		sealed.Seq, sealed.Previous = previous.Seq+1, previous.Hash
	}
	if err := sealed.validate(); err != nil {
		return fmt.Errorf("ledger entry %d: %w", sealed.Seq, err)
	}
	hash, err := sealed.digest()
	if err != nil {
		return err
	}
	sealed.Hash = hash
	*e = sealed
	return nil
}

// digest is the required value of Hash.
func (e Entry) digest() (string, error) {
	e.Hash = ""
	line, err := e.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:]), nil
}

// parseEntry parses a line and accepts only its canonical form, so that two different lines never mean the same
// entry.
func parseEntry(line []byte) (Entry, error) {
	var e Entry
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Entry{}, fmt.Errorf("not a ledger entry: %w", err)
	}
	canonical, err := e.Canonical()
	if err != nil {
		return Entry{}, err
	}
	if !bytes.Equal(line, canonical) {
		return Entry{}, errors.New("not in canonical form: the line was edited or written by another program")
	}
	return e, nil
}

// SeqOf reads only the number of the entry in a line, and checks nothing else.
func SeqOf(line []byte) (uint64, error) {
	var e struct{ Seq uint64 }
	err := json.Unmarshal(line, &e)
	return e.Seq, err
}

// ParseNext parses the canonical line of the entry after the one with a number and a hash (0 and "" before the
// first), and checks that it follows.
func ParseNext(line []byte, seq uint64, hash string) (Entry, error) {
	e, err := parseEntry(line)
	if err != nil {
		return Entry{}, err
	}
	if err := e.validate(); err != nil {
		return Entry{}, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	digest, err := e.digest()
	switch {
	case err != nil:
		return Entry{}, err
	case e.Hash != digest:
		return Entry{}, fmt.Errorf("ledger entry %d: its hash does not match its content", e.Seq)
	case e.Seq != seq+1 || e.Previous != hash:
		return Entry{}, fmt.Errorf("ledger entry %d does not follow entry %d (%.12s)", e.Seq, seq, hash)
	}
	return e, nil
}

// validate checks that fields fit the type, without looking at other entries.
func (e Entry) validate() error {
	for _, f := range []struct{ name, value string }{
		{"dataset", e.Dataset}, {"run", e.Run}, {"kind", e.Kind},
		{"unit", e.Unit}, {"neighbouring", e.Neighbouring},
	} {
		if !utf8.ValidString(f.value) {
			return privacy.FieldErrorf(f.name, "is not UTF-8") // JSON would change it silently
		}
	}
	if t, err := time.Parse(dayLayout, e.Day); e.Day != "" && (err != nil || FormatDay(t) != e.Day) {
		return privacy.FieldErrorf("day", "is %q; it must look like %s", e.Day, dayLayout)
	}
	if e.Fence < 0 {
		return privacy.FieldErrorf("fence", "is %d; it must not be negative", e.Fence)
	}
	fields, known := entryFields[e.Type]
	if !known {
		return privacy.FieldErrorf("type", "is %q; it must be open, run, roster, release, abandoned or close", e.Type)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"dataset", e.Dataset != ""}, {"day", e.Day != ""}, {"run", e.Run != ""}, {"round", e.Round != nil},
		{"planned", e.Planned != nil}, {"kind", e.Kind != ""}, {"budget", e.Budget != nil}, {"unit", e.Unit != ""},
		{"neighbouring", e.Neighbouring != ""}, {"events", len(e.Events) > 0},
		{"release_sha256", e.ReleaseSHA256 != ""}, {"roster", len(e.Roster) > 0}, {"facts", e.Facts != nil},
	} {
		if f.set != fields[f.name] {
			if f.set {
				return privacy.FieldErrorf(f.name, "does not belong to an entry of type %s", e.Type)
			}
			return privacy.FieldErrorf(f.name, "is missing in an entry of type %s", e.Type)
		}
	}
	if e.Budget != nil {
		if err := e.Budget.Validate(); err != nil {
			return fmt.Errorf("budget: %w", err)
		}
	}
	if err := e.validatePlan(); err != nil {
		return err
	}
	if err := e.validateMasked(); err != nil {
		return err
	}
	if err := e.validateRoster(); err != nil {
		return err
	}
	if e.Type == EntryRun {
		if err := e.Facts.validate(); err != nil {
			return err
		}
	}
	if e.Manifest != "" && (e.Type != EntryClose || !isSHA256(e.Manifest)) {
		return privacy.FieldErrorf("manifest_sha256", "must be a SHA-256 in lower-case hex, in an entry of type %s",
			EntryClose)
	}
	if e.By != "" && (e.Manifest == "" || !utf8.ValidString(e.By)) {
		return privacy.FieldErrorf("by", "must be a name in UTF-8, in an entry with manifest_sha256")
	}
	for i, event := range e.Events {
		if err := event.Validate(); err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	if math.IsNaN(e.EpsilonSpent) || math.IsInf(e.EpsilonSpent, 0) || e.EpsilonSpent < 0 {
		return privacy.FieldErrorf("epsilon_spent", "is %v; it must be a number, zero or more", e.EpsilonSpent)
	}
	if e.OfQuestion() {
		return e.validateQuestion()
	}
	if e.Queries != 0 || e.Answered != 0 || e.Entries != 0 {
		return privacy.FieldErrorf("queries", "answered and entries are for releases and abandoned questions only")
	}
	if e.Type != EntryClose && e.EpsilonSpent != 0 {
		return privacy.FieldErrorf("epsilon_spent", "must be 0 in an entry of type %s", e.Type)
	}
	return nil
}

// entryFields lists the optional fields of each entry type: an entry has exactly these.
var entryFields = map[string]map[string]bool{
	EntryOpen:   {"dataset": true, "day": true, "budget": true, "unit": true, "neighbouring": true},
	EntryRun:    {"dataset": true, "day": true, "run": true, "budget": true, "facts": true},
	EntryRoster: {"dataset": true, "day": true, "run": true, "roster": true},
	EntryRelease: {"dataset": true, "run": true, "round": true, "planned": true, "kind": true, "events": true,
		"release_sha256": true},
	EntryAbandoned: {"dataset": true, "run": true, "round": true, "planned": true, "kind": true, "events": true},
	EntryClose:     {"dataset": true, "day": true, "run": true},
}

func (e Entry) validatePlan() error {
	if e.Type != EntryRun {
		if len(e.Plan) > 0 {
			return privacy.FieldErrorf("plan", "does not belong to an entry of type %s", e.Type)
		}
		return nil
	}
	return e.Plan.Validate()
}

func (e Entry) validateMasked() error {
	switch {
	case e.Masked == nil:
		return nil
	case e.Type != EntryRun:
		return privacy.FieldErrorf("masked", "does not belong to an entry of type %s", e.Type)
	}
	if err := e.Masked.Validate(); err != nil {
		return fmt.Errorf("masked: %w", err)
	}
	return nil
}

// OfQuestion reports whether the entry charges a question, released or abandoned. Such entries have no day.
func (e Entry) OfQuestion() bool { return e.Type == EntryRelease || e.Type == EntryAbandoned }

func (e Entry) validateQuestion() error {
	if e.Queries < 0 || e.Answered < 0 || e.Answered > e.Queries {
		return privacy.FieldErrorf("answered",
			"is %d of %d queries; it must be between 0 and queries", e.Answered, e.Queries)
	}
	if e.Entries < 0 {
		return privacy.FieldErrorf("entries", "is %d; it must not be negative", e.Entries)
	}
	if e.Type == EntryAbandoned {
		if e.Entries != 0 || e.Answered != e.Queries {
			return privacy.FieldErrorf("answered", "is %d of %d queries, with %d entries; an abandoned question "+
				"counts as answered, and has no entries", e.Answered, e.Queries, e.Entries)
		}
		return nil
	}
	if !isSHA256(e.ReleaseSHA256) {
		return privacy.FieldErrorf("release_sha256", "is not a SHA-256 in lower-case hex")
	}
	return nil
}
