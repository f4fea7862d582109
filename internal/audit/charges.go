package audit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// errUneven says that the runs of one spec have no common claim.
var errUneven = errors.New("runs with the same spec were charged differently, so they have no common claim to audit")

// readCharges checks the chain of a ledger and returns the merged events of each run. Unlike `conclave ledger verify`
// it does not recompute the price of every run: the audit prices one of them, because all must be equal.
func readCharges(lines [][]byte) (map[string][]privacy.Event, error) {
	runs := map[string][]privacy.Event{}
	var last ledger.Entry
	for i, line := range lines {
		e, err := ledger.ParseNext(line, last.Seq, last.Hash)
		if err != nil {
			return nil, fmt.Errorf("ledger line %d: %w", i+1, err)
		}
		last = e
		if e.Type == ledger.EntryRelease {
			runs[e.Run] = privacy.Merge(append(runs[e.Run], e.Events...))
		}
	}
	return runs, nil
}

// common returns the events that every run was charged for.
func common(runs map[string][]privacy.Event) ([]privacy.Event, error) {
	var events []privacy.Event
	for _, charged := range runs {
		charged = worst(charged)
		if events == nil {
			events = charged
		}
		if !slices.Equal(events, charged) {
			return nil, fmt.Errorf("%w: %+v and %+v", errUneven, events, charged)
		}
	}
	return events, nil
}

// worst counts every question of a Confident-GNMax as answered, as the filter reserved it. The true number is
// known only afterwards, so it cannot be a parameter of a guarantee.
func worst(events []privacy.Event) []privacy.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Answered = events[i].Asked
	}
	return events
}
