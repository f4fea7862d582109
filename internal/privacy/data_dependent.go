package privacy

import (
	"fmt"
	"slices"
)

// VotedEvent is an event together with the votes that it decided, where they are
// known: one histogram (a count per class) per query.
//
// Votes may accompany gnmax, lnmax and confident-gnmax. The event's count, or
// asked and answered, must then agree with the votes, or be zero and are
// derived. Unanswered belongs to confident-gnmax: true for each query that the
// test turned down; nil says that all were answered. Without votes an event
// costs what it costs for all datasets.
//
// The winner must be all that was released of a query with votes. Noisy counts
// beside it are not covered by any data-dependent bound: leave the votes out.
type VotedEvent struct {
	Event      Event
	Votes      [][]int64
	Unanswered []bool
}

// Resolve checks the event and its votes and returns the event with its counts
// filled in, for [Account]. The errors wrap a [*FieldError] and hold no count of
// votes.
func (v VotedEvent) Resolve() (Event, error) {
	e := v.Event
	if len(v.Votes) == 0 {
		if len(v.Unanswered) > 0 {
			return Event{}, e.errorf("unanswered", "has %d entries without votes; give one histogram per query", len(v.Unanswered))
		}
		return e, e.Validate()
	}
	for i, votes := range v.Votes {
		if _, err := checkVotes(votes); err != nil {
			return Event{}, fmt.Errorf("%s event: query %d: %w", e.Kind, i+1, err)
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
	case e.Kind != GNMax && e.Kind != LNMax && e.Kind != ConfidentGNMax:
		return Event{}, e.errorf("votes", "do not belong to this kind")
	case e.Kind != ConfidentGNMax && len(v.Unanswered) > 0:
		return Event{}, e.errorf("unanswered", "does not belong to this kind; every query is answered")
	case len(v.Unanswered) > 0 && int64(len(v.Unanswered)) != asked:
		return Event{}, e.errorf("unanswered", "has %d entries for %d histograms; give one per query", len(v.Unanswered), asked)
	}
	if e.Kind != ConfidentGNMax {
		if err := e.agree("count", &e.Count, asked); err != nil {
			return Event{}, err
		}
		return e, e.Validate()
	}
	if err := e.agree("asked", &e.Asked, asked); err != nil {
		return Event{}, err
	}
	if err := e.agree("answered", &e.Answered, answered); err != nil {
		return Event{}, err
	}
	return e, e.Validate()
}

func (e Event) agree(field string, stated *int64, counted int64) error {
	if *stated != 0 && *stated != counted {
		return e.errorf(field, "is %d, the votes say %d; correct one or leave it out", *stated, counted)
	}
	*stated = counted
	return nil
}

// DataDependentClaim holds the epsilon of each data-dependent accountant at the
// asked delta, nil where it does not apply.
type DataDependentClaim struct {
	RDP            *float64 `json:"rdp"`
	PATEGANMoments *float64 `json:"pategan_moments"`
}

// DataDependent returns what the events cost for the votes that were cast.
//
//   - RDP: the bounds of [GNMaxRDP], [ConfidentRDP] and [LNMaxRDP], added up on
//     the grid of [Orders] and converted as by [Account]; events without votes
//     enter with their data-independent cost. Nil where no event has votes or no
//     order gives a finite epsilon. It is never above the rdp epsilon of
//     [Account] for the same events.
//   - PATEGANMoments: the figure of [PATEGANMoments], where all events are
//     two-class lnmax with votes and one lambda.
//
// Why it holds: for the dataset D that cast the votes and each neighbour D', the
// divergences of the single answers from D to D' add up (Mironov 2017,
// Proposition 1), and the sum turns into P[M(D) in S] <= e^epsilon P[M(D') in S] +
// delta.
//
// What it does not promise. The figure is a statement about the one dataset, in
// one direction, for the queries and the number of answers as they came out: no
// differential privacy, and no filter may be built on it. It is private itself,
// as it depends on the votes (rule 6 of the project's design): publish it only
// through [PlanSmoothRelease], or where the run chose the papers' rule and says
// so. Probabilities of outcomes are those of the papers' continuous noise;
// for the whole-numbered noise of package gnmax use [DataDependentInteger].
//
// Errors wrap a [*FieldError].
func DataDependent(events []VotedEvent, delta float64) (DataDependentClaim, error) {
	return dataDependent(events, delta, continuousNoise)
}

// DataDependentInteger is [DataDependent] for votes decided with the discrete
// Gaussian and Laplace noise of package gnmax, ties decided by lot. Probabilities
// of unlikely outcomes are bounded for that noise: a little above those of
// DataDependent for GNMax where sigma is some tens of votes; for the threshold
// test, which passes at whole numbers only, as if the threshold lay up to half a
// vote off. Sigmas must be at least [MinSigma].
func DataDependentInteger(events []VotedEvent, delta float64) (DataDependentClaim, error) {
	return dataDependent(events, delta, integerNoise)
}

func dataDependent(events []VotedEvent, delta float64, noise voteNoise) (DataDependentClaim, error) {
	if err := checkDelta(delta); err != nil {
		return DataDependentClaim{}, err
	}
	grid := Orders()
	rho := make([]float64, len(grid))
	voted := false
	for i, v := range events {
		e, err := v.Resolve()
		if err == nil {
			voted = voted || len(v.Votes) > 0
			err = addVoted(rho, grid, e, v, noise)
		}
		if err != nil {
			return DataDependentClaim{}, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	var claim DataDependentClaim
	if !voted {
		return claim, nil
	}
	if epsilon := bestEpsilon(rho, delta); finite(epsilon) {
		claim.RDP = &epsilon
	}
	if votes, lambda, ok := pateganVotes(events); ok {
		epsilon, err := PATEGANMoments(votes, lambda, delta)
		if err != nil {
			return DataDependentClaim{}, err
		}
		claim.PATEGANMoments = &epsilon
	}
	return claim, nil
}

// pateganVotes joins the histograms of all events where the moments accountant
// applies.
func pateganVotes(events []VotedEvent) (votes [][]int64, lambda float64, ok bool) {
	for i, v := range events {
		if i == 0 {
			lambda = v.Event.Lambda
		}
		notTwo := func(h []int64) bool { return len(h) != 2 }
		if v.Event.Kind != LNMax || v.Event.Lambda != lambda || len(v.Votes) == 0 || slices.ContainsFunc(v.Votes, notTwo) {
			return nil, 0, false
		}
		votes = append(votes, v.Votes...)
	}
	return votes, lambda, len(votes) > 0
}
