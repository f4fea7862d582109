package pate

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// VotedEvent is an event together with the votes that it decided, where they are
// known: one histogram (a count per class) per query.
//
// Votes may accompany gnmax, lnmax and confident-gnmax. The event's count, or asked and answered, must then agree
// with the votes; zeros are derived from them. Unanswered belongs to confident-gnmax: it is true for each query
// that failed the test; nil says that all were answered. Without votes an event has its data-independent cost.
//
// Only the winner of a query with votes may have been released. If noisy counts were released too, leave the votes
// out: no data-dependent bound covers them.
type VotedEvent struct {
	Event      privacy.Event
	Votes      [][]int64
	Unanswered []bool
}

// Resolve checks the event and its votes and returns the event with its counts
// filled in, for [privacy.Account]. The errors wrap a [*privacy.FieldError] and hold no count of
// votes.
func (v VotedEvent) Resolve() (privacy.Event, error) {
	e := v.Event
	if len(v.Votes) == 0 {
		if len(v.Unanswered) > 0 {
			return privacy.Event{}, eventError(e, "unanswered",
				"has %d entries without votes; give one histogram per query", len(v.Unanswered))
		}
		return e, e.Validate()
	}
	for i, votes := range v.Votes {
		if err := checkVotes(votes); err != nil {
			return privacy.Event{}, fmt.Errorf("%s event: query %d: %w", e.Kind, i+1, err)
		}
	}
	asked := int64(len(v.Votes))
	answered := asked
	for _, not := range v.Unanswered {
		if not {
			answered--
		}
	}
	switch {
	case e.Sensitivity != 0:
		return privacy.Event{}, eventError(e, "sensitivity",
			"is %v, with votes; data-dependent bounds are for a unit that changes one vote: leave out one of them",
			e.Sensitivity)
	case e.Kind != privacy.GNMax && e.Kind != privacy.LNMax && e.Kind != privacy.ConfidentGNMax:
		return privacy.Event{}, eventError(e, "votes", "do not belong to this kind")
	case e.Kind != privacy.ConfidentGNMax && len(v.Unanswered) > 0:
		return privacy.Event{}, eventError(e, "unanswered", "does not belong to this kind; every query is answered")
	case len(v.Unanswered) > 0 && int64(len(v.Unanswered)) != asked:
		return privacy.Event{}, eventError(e, "unanswered", "has %d entries for %d histograms; give one per query",
			len(v.Unanswered), asked)
	}
	if e.Kind != privacy.ConfidentGNMax {
		if err := agree(e, "count", &e.Count, asked); err != nil {
			return privacy.Event{}, err
		}
		return e, e.Validate()
	}
	if err := agree(e, "asked", &e.Asked, asked); err != nil {
		return privacy.Event{}, err
	}
	if err := agree(e, "answered", &e.Answered, answered); err != nil {
		return privacy.Event{}, err
	}
	return e, e.Validate()
}

func agree(e privacy.Event, field string, stated *int64, counted int64) error {
	if *stated != 0 && *stated != counted {
		return eventError(e, field, "is %d, but the votes give %d; correct it or leave it out", *stated, counted)
	}
	*stated = counted
	return nil
}

func eventError(e privacy.Event, field, format string, args ...any) error {
	return fmt.Errorf("%s event: %w", e.Kind, privacy.FieldErrorf(field, format, args...))
}

// Claim holds the epsilon of each data-dependent accountant at the given delta, nil if the accountant does not
// apply.
type Claim struct {
	RDP            *float64 `json:"rdp"`
	PATEGANMoments *float64 `json:"pategan_moments"`
}

// DataDependent returns what the events cost for the votes that were cast.
//
//   - RDP: the bounds of gnmax, confident-gnmax and lnmax queries, added up on the grid of [privacy.Orders] and
//     converted as by [privacy.Account]; events without votes count with their data-independent cost. Nil if no
//     event has votes or no order gives a finite epsilon. It is never above the rdp epsilon of [privacy.Account]
//     for the same events.
//   - PATEGANMoments: the figure of [PATEGANMoments], if all events are two-class lnmax with votes and the same
//     lambda.
//
// Why it holds: for the dataset D that cast the votes and each neighbour D', the
// divergences of the single answers from D to D' add up (Mironov 2017,
// Proposition 1), and the sum turns into P[M(D) in S] <= e^epsilon P[M(D') in S] +
// delta.
//
// What it does not promise. The figure is a statement about one dataset, in one direction, for the queries and the
// number of answers as observed. It is not differential privacy, and no filter may be built on it. It depends on
// the votes and so is private itself: publish it only if the run chose the papers' rule and says so. Probabilities
// of outcomes are those of the papers' continuous noise; with the integer noise of package gnmax the likely
// outcome is missed slightly more often.
//
// Errors wrap a [*privacy.FieldError].
func DataDependent(events []VotedEvent, delta float64) (Claim, error) {
	if err := privacy.CheckDelta(delta); err != nil {
		return Claim{}, err
	}
	grid := privacy.Orders()
	rho := make([]float64, len(grid))
	voted := false
	for i, v := range events {
		e, err := v.Resolve()
		if err == nil {
			voted = voted || len(v.Votes) > 0
			err = addVoted(rho, grid, e, v)
		}
		if err != nil {
			return Claim{}, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	var claim Claim
	if !voted {
		return claim, nil
	}
	if epsilon := privacy.EpsilonFromRDP(rho, delta); !math.IsInf(epsilon, 1) {
		claim.RDP = &epsilon
	}
	if votes, lambda, ok := pateganVotes(events); ok {
		epsilon, err := PATEGANMoments(votes, lambda, delta)
		if err != nil {
			return Claim{}, err
		}
		claim.PATEGANMoments = &epsilon
	}
	return claim, nil
}

// pateganVotes joins the histograms of all events if the moments accountant applies.
func pateganVotes(events []VotedEvent) (votes [][]int64, lambda float64, ok bool) {
	for i, v := range events {
		if i == 0 {
			lambda = v.Event.Lambda
		}
		notTwo := func(h []int64) bool { return len(h) != 2 }
		if v.Event.Kind != privacy.LNMax || v.Event.Lambda != lambda || len(v.Votes) == 0 ||
			slices.ContainsFunc(v.Votes, notTwo) {
			return nil, 0, false
		}
		votes = append(votes, v.Votes...)
	}
	return votes, lambda, len(votes) > 0
}
