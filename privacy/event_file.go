package privacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ParseEvents reads a JSON list of events with the fields of [Event]. In place
// of its counts an event of votes may have them:
//
//	{"kind": "gnmax", "sigma": 40, "votes": [[12, 188], [180, 20]]}
//	{"kind": "confident-gnmax", "threshold": 120, "sigma1": 30, "sigma2": 20,
//	 "votes": [[12, 188], {"votes": [101, 99], "answered": false}]}
//
// An "answered" of true or false beside "votes" holds for all of the event's
// queries. A list without events, unknown or repeated fields, null, invalid
// events and anything behind the list are errors; those of an event name it,
// counted from 1.
func ParseEvents(r io.Reader) ([]VotedEvent, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	if err := unambiguous(raw); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var written []writtenEvent
	if err := d.Decode(&written); err != nil {
		return nil, fmt.Errorf("events are not a JSON list of known fields: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("events: something follows the list; a file holds one list")
	}
	if len(written) == 0 {
		return nil, errors.New("events: the list is empty; a file names at least one release")
	}
	events := make([]VotedEvent, len(written))
	for i, w := range written {
		v, err := w.event()
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		events[i] = v
	}
	return events, nil
}

// writtenEvent is an event as it stands in a file.
type writtenEvent struct {
	Event
	Answered *answeredField `json:"answered"` // hides the event's own
	Votes    []writtenVotes `json:"votes"`
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
	if err := json.Unmarshal(raw, &a.all); err != nil || a.all == nil {
		return fmt.Errorf("answered is %s; give a whole number of queries, or true or false beside votes", raw)
	}
	return nil
}

// writtenVotes is a histogram: a list of counts, or an object that says also
// whether the query was answered.
type writtenVotes struct {
	counts   []int64
	answered *bool
}

func (v *writtenVotes) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte("[")) {
		return json.Unmarshal(raw, &v.counts)
	}
	var long struct {
		Votes    []int64 `json:"votes"`
		Answered *bool   `json:"answered"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&long); err != nil {
		return fmt.Errorf("votes of a query are a list of counts, or an object with votes and answered: %w", err)
	}
	v.counts, v.answered = long.Votes, long.Answered
	return nil
}

func (w writtenEvent) event() (VotedEvent, error) {
	v := VotedEvent{Event: w.Event}
	var all *bool
	switch {
	case w.Answered != nil:
		v.Event.Answered, all = w.Answered.count, w.Answered.all
	case w.Kind == ConfidentGNMax && len(w.Votes) == 0:
		return VotedEvent{}, w.errorf("answered", "is missing; give the number of queries that were answered, 0 where none was")
	}
	if all != nil && len(w.Votes) == 0 {
		return VotedEvent{}, w.errorf("answered", "is %v without votes; give the number of queries that were answered", *all)
	}
	unanswered, said := make([]bool, len(w.Votes)), all != nil
	for i, query := range w.Votes {
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
		if w.Kind != ConfidentGNMax {
			return VotedEvent{}, w.errorf("answered", "does not belong to this kind; every query is answered")
		}
		v.Unanswered = unanswered
	}
	var err error
	v.Event, err = v.Resolve()
	return v, err
}

// unambiguous refuses what JSON decoders read in one way or another: keys that
// an object repeats, keys with other letters than a to z (the decoder would not
// mind capitals) and null, which it takes for a value that was left out.
func unambiguous(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var open []map[string]bool // of each object its keys so far, nil for a list
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
					return fmt.Errorf("byte %d: the key %q stands twice in one object", d.InputOffset(), token)
				}
				if strings.Trim(token, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
					return fmt.Errorf("byte %d: unknown field %q; fields are in small letters", d.InputOffset(), token)
				}
				keys[token] = true
				isKey = false
				continue
			}
		case nil:
			return fmt.Errorf("byte %d: null is no value; leave the field out or give a number", d.InputOffset())
		}
		isKey = inObject()
	}
}
