package pate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// ParseEvents reads a JSON list of events with the fields of [privacy.Event]. Instead of its counts an event may
// have the votes:
//
//	{"kind": "gnmax", "sigma": 40, "votes": [[12, 188], [180, 20]]}
//	{"kind": "confident-gnmax", "threshold": 120, "sigma1": 30, "sigma2": 20,
//	 "votes": [[12, 188], {"votes": [101, 99], "answered": false}]}
//
// An "answered" of true or false beside "votes" holds for all of the event's queries. These are errors: a list
// without events, unknown or repeated fields, fields of another kind (even if zero), counts that are missing or
// contradict the votes, null, invalid events, and anything after the list. An error of an event gives its number,
// counted from 1.
func ParseEvents(r io.Reader) ([]VotedEvent, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New(`events: there is nothing to read; ` +
			`give a list such as [{"kind": "gnmax", "sigma": 40, "count": 1}]`)
	}
	if err := unambiguous(raw); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	var written []json.RawMessage
	switch err := d.Decode(&written); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("events: the file ends within the list; a part of it may be missing")
	case err != nil:
		return nil, errors.New("events are not a JSON list; write [ before the first and ] after the last")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("events: there is data after the list; a file has one list")
	}
	if len(written) == 0 {
		return nil, errors.New("events: the list is empty; give at least one release")
	}
	events := make([]VotedEvent, len(written))
	for i, raw := range written {
		v, err := parseEvent(raw)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		events[i] = v
	}
	return events, nil
}

type writtenEvent struct {
	privacy.Event
	fields   map[string]json.RawMessage
	answered *answeredField
	votes    []writtenVotes
}

func (w writtenEvent) has(field string) bool { return w.fields[field] != nil }

func (w writtenEvent) errorf(field, format string, args ...any) error {
	return eventError(w.Event, field, format, args...)
}

// parseEvent reads field by field, in order to distinguish a zero from a missing field and to name the field that
// is wrong.
func parseEvent(raw json.RawMessage) (VotedEvent, error) {
	var w writtenEvent
	if json.Unmarshal(raw, &w.fields) != nil {
		return VotedEvent{}, errors.New(`is not an object; write {"kind": ...}`)
	}
	if !w.has("kind") {
		return VotedEvent{}, privacy.FieldErrorf("kind", "is missing; use one of %v", privacy.Kinds())
	}
	if json.Unmarshal(w.fields["kind"], &w.Kind) != nil {
		return VotedEvent{}, privacy.FieldErrorf("kind", "is %s; use one of %v", short(w.fields["kind"]),
			privacy.Kinds())
	}
	fields := w.Kind.Fields()
	if fields == nil {
		return VotedEvent{}, w.Validate()
	}
	rest := maps.Clone(w.fields)
	delete(rest, "kind")
	var known []string
	for _, f := range w.writtenFields() {
		raw, written := rest[f.name]
		delete(rest, f.name)
		belongs := writes(w.Kind, f.name)
		if belongs {
			known = append(known, f.name)
		}
		switch {
		case !written:
		case belongs:
			if err := f.read(raw); err != nil {
				return VotedEvent{}, err
			}
		case f.name == "count":
			return VotedEvent{}, w.errorf(f.name, "does not belong to this kind; use asked and answered")
		case f.name == "votes":
			return VotedEvent{}, w.errorf(f.name, "do not belong to this kind")
		default:
			return VotedEvent{}, w.errorf(f.name, "does not belong to this kind")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		return VotedEvent{}, w.errorf(name, "is an unknown field; this kind has %s", strings.Join(known, ", "))
	}
	for _, name := range fields { // a threshold of 0 may be left out, as in a ledger
		if name != "threshold" && name != "asked" && !w.has(name) {
			return VotedEvent{}, w.errorf(name, "is missing")
		}
	}
	return w.event()
}

// writes reports whether events of a kind may have the field in a file.
func writes(k privacy.Kind, field string) bool {
	fields := k.Fields()
	switch field {
	case "sensitivity":
		return true
	case "count":
		return !slices.Contains(fields, "asked")
	case "answered":
		return slices.Contains(fields, "asked")
	case "votes":
		return k == privacy.GNMax || k == privacy.LNMax || k == privacy.ConfidentGNMax
	}
	return slices.Contains(fields, field)
}

type writtenField struct {
	name string
	read func(json.RawMessage) error
}

func (w *writtenEvent) writtenFields() []writtenField {
	number := func(name string, to *float64) writtenField {
		return writtenField{name, func(raw json.RawMessage) error {
			if json.Unmarshal(raw, to) != nil {
				return w.errorf(name, "is %s; give a number of at most 1.7e308", short(raw))
			}
			return nil
		}}
	}
	count := func(name string, to *int64) writtenField {
		return writtenField{name, func(raw json.RawMessage) error {
			if json.Unmarshal(raw, to) != nil {
				return w.errorf(name, "is %s; give a whole number, in digits only", short(raw))
			}
			return nil
		}}
	}
	return []writtenField{
		number("sigma", &w.Sigma), number("sensitivity", &w.Sensitivity), number("rate", &w.Rate),
		number("noise_multiplier", &w.NoiseMultiplier), number("threshold", &w.Threshold),
		number("sigma1", &w.Sigma1), number("sigma2", &w.Sigma2), number("lambda", &w.Lambda),
		number("epsilon", &w.Epsilon), count("count", &w.Count), count("asked", &w.Asked),
		{"answered", func(raw json.RawMessage) error {
			w.answered = new(answeredField)
			if json.Unmarshal(raw, w.answered) != nil {
				return w.errorf("answered", "is %s; give a whole number of queries, or with votes true or false",
					short(raw))
			}
			return nil
		}},
		{"votes", func(raw json.RawMessage) error {
			var queries []json.RawMessage
			if json.Unmarshal(raw, &queries) != nil || len(queries) == 0 {
				return w.errorf("votes", "have no query; give a list with a histogram for each, or leave them out")
			}
			w.votes = make([]writtenVotes, len(queries))
			for i, query := range queries {
				if err := json.Unmarshal(query, &w.votes[i]); err != nil {
					return w.errorf("votes", "of query %d %v", i+1, err)
				}
			}
			return nil
		}},
	}
}

// short is a value as in the file, truncated if it is long.
func short(raw json.RawMessage) string {
	const most = 40
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "..."
	}
	return string(raw)
}

// answeredField is a number of queries, or whether all of them were answered.
type answeredField struct {
	count int64
	all   *bool
}

func (a *answeredField) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &a.count); err == nil {
		return nil
	}
	return json.Unmarshal(raw, &a.all)
}

// writtenVotes is a histogram: a list of counts, or an object that also says whether the query was answered.
type writtenVotes struct {
	counts   []int64
	answered *bool
}

// UnmarshalJSON has its own errors, because those of package json contain counts of votes.
func (v *writtenVotes) UnmarshalJSON(raw []byte) error {
	long := map[string]json.RawMessage{"votes": raw}
	if !bytes.HasPrefix(raw, []byte("[")) {
		long = nil
		if json.Unmarshal(raw, &long) != nil {
			return errors.New("are neither a list of counts nor an object with votes and answered")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(long)) {
		switch {
		case name == "votes" && json.Unmarshal(long[name], &v.counts) != nil:
			return errors.New("are not a list of whole numbers, in digits only")
		case name == "answered" && json.Unmarshal(long[name], &v.answered) != nil:
			return errors.New("have a value of answered that is neither true nor false")
		case name != "votes" && name != "answered":
			return fmt.Errorf("have an unknown field %q; use votes and answered", name)
		}
	}
	return nil
}

func (w writtenEvent) event() (VotedEvent, error) {
	v := VotedEvent{Event: w.Event}
	var all *bool
	if w.answered != nil {
		v.Event.Answered, all = w.answered.count, w.answered.all
	}
	if len(w.votes) == 0 {
		if err := w.checkCounts(); err != nil {
			return VotedEvent{}, err
		}
	}
	unanswered, said := make([]bool, len(w.votes)), all != nil
	for i, query := range w.votes {
		if query.counts == nil {
			return VotedEvent{}, w.errorf("votes", "of query %d are missing", i+1)
		}
		v.Votes = append(v.Votes, query.counts)
		answered := all
		if query.answered != nil {
			answered, said = query.answered, true
		}
		unanswered[i] = answered != nil && !*answered
	}
	if said {
		if w.Kind != privacy.ConfidentGNMax {
			return VotedEvent{}, w.errorf("answered", "does not belong to this kind; every query is answered")
		}
		v.Unanswered = unanswered
	}
	resolved, err := v.Resolve()
	if err != nil {
		return VotedEvent{}, err
	}
	// Resolve takes a zero for a missing count; here the zero was written.
	for _, f := range []struct {
		name            string
		stated, counted int64
		said            bool
	}{
		{"count", v.Event.Count, resolved.Count, w.has("count")},
		{"asked", v.Event.Asked, resolved.Asked, w.has("asked")},
		{"answered", v.Event.Answered, resolved.Answered, w.has("answered") && all == nil},
	} {
		if f.said && f.stated != f.counted {
			return VotedEvent{}, w.errorf(f.name, "is %d, but the votes give %d; correct it or leave it out", f.stated,
				f.counted)
		}
	}
	v.Event = resolved
	return v, nil
}

// checkCounts refuses an event without votes whose counts are missing.
func (w writtenEvent) checkCounts() error {
	switch {
	case w.Kind != privacy.ConfidentGNMax && !w.has("count"):
		return w.errorf("count", "is missing; give the number of releases")
	case w.Kind == privacy.ConfidentGNMax && !w.has("asked"):
		return w.errorf("asked", "is missing; give the number of queries that were asked")
	case w.Kind == privacy.ConfidentGNMax && !w.has("answered"):
		return w.errorf("answered", "is missing; give the number of queries that were answered, or 0")
	case w.answered != nil && w.answered.all != nil:
		return w.errorf("answered", "is %v without votes; give the number of queries that were answered",
			*w.answered.all)
	}
	return nil
}

// unambiguous refuses JSON that decoders read in different ways: repeated keys in an object, keys with letters
// other than a to z (the decoder ignores case), and null, which the decoder treats as a missing value.
func unambiguous(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var open []map[string]bool // the keys so far of each open object, nil for a list
	isKey := false
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		inObject := func() bool { return len(open) > 0 && open[len(open)-1] != nil }
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				open = append(open, make(map[string]bool))
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			isKey = inObject()
			continue
		case string:
			if isKey {
				keys := open[len(open)-1]
				if keys[token] {
					return fmt.Errorf("byte %d: the key %q appears twice in one object", d.InputOffset(), token)
				}
				if strings.Trim(token, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
					return fmt.Errorf("byte %d: unknown field %q; fields are in small letters", d.InputOffset(), token)
				}
				keys[token] = true
				isKey = false
				continue
			}
		case nil:
			return fmt.Errorf("byte %d: null is not a value; leave the field out or give a number", d.InputOffset())
		}
		isKey = inObject()
	}
}
