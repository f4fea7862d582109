package audit

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

const (
	// pilotShare is the inverse share of trials that choose the event. Few are enough, because the bound is flat
	// around its best event.
	pilotShare = 4
	// pilotAlpha is the margin for the pilot's counts. The guarantee does not depend on it.
	pilotAlpha = 0.1
	// maxThresholds bounds the number of events tried on the pilot.
	maxThresholds = 64
	// MinRuns is the smallest number of trials per world that can be split.
	MinRuns = 2 * pilotShare
)

// Event is a set of releases: those whose statistic is on one side of a threshold.
type Event struct {
	// Over is the world in which the event is expected more often: 0 or 1.
	Over int `json:"over"`
	// Above says that the event is a statistic of at least Threshold; otherwise it is one of at most Threshold.
	Above     bool    `json:"above"`
	Threshold float64 `json:"threshold"`
}

func (e Event) holds(x float64) bool {
	if e.Above {
		return x >= e.Threshold
	}
	return x <= e.Threshold
}

func (e Event) count(xs []float64) int {
	n := 0
	for _, x := range xs {
		if e.holds(x) {
			n++
		}
	}
	return n
}

// Bound is a lower bound on epsilon and the evidence for it.
type Bound struct {
	// Epsilon is zero if nothing was found.
	Epsilon float64 `json:"epsilon"`
	Event   Event   `json:"event"`
	// Seen counts the trials of each world in which the event happened, among the Of trials that were not used to
	// choose it.
	Seen [2]int `json:"seen"`
	Of   [2]int `json:"of"`
}

// ClopperPearson returns bounds on a probability from k successes in n trials. Each bound is wrong with
// probability at most alpha, so both hold with probability at least 1 - 2 alpha (Clopper and Pearson 1934).
func ClopperPearson(k, n int, alpha float64) (low, high float64) {
	low, high = 0, 1
	if k > 0 {
		low = mathext.InvRegIncBeta(float64(k), float64(n-k+1), alpha)
	}
	if k < n {
		high = mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-alpha)
	}
	return low, high
}

// epsilonOf is the epsilon that the counts of an event prove at delta, if each of the two probability bounds fails
// with probability alpha. It is at least zero.
func epsilonOf(kP, nP, kQ, nQ int, delta, alpha float64) float64 {
	low, _ := ClopperPearson(kP, nP, alpha)
	_, high := ClopperPearson(kQ, nQ, alpha)
	if low <= delta {
		return 0
	}
	return max(0, math.Log((low-delta)/high))
}

// LowerBound returns a lower bound on the program's epsilon at delta, from one statistic per trial of each world.
// It is too high with probability at most 1 - confidence, for all distributions; trials must be independent.
//
// The first quarter of the trials of each world chooses the event: the threshold, the side, and the world in which
// it is more likely. The other three quarters test only this event, with half of 1 - confidence for each of the
// two probabilities. So the choice needs no correction for multiple tests.
//
// Errors are fewer than [MinRuns] trials of a world, a statistic that is not a number, and a delta or confidence
// that is not between 0 and 1.
func LowerBound(trials [2][]float64, delta, confidence float64) (Bound, error) {
	if !(delta >= 0 && delta < 1) || !(confidence > 0 && confidence < 1) {
		return Bound{}, fmt.Errorf("delta is %v and confidence %v; both must lie between 0 and 1", delta, confidence)
	}
	var pilot, rest [2][]float64
	for world, xs := range trials {
		if len(xs) < MinRuns {
			return Bound{}, fmt.Errorf("world %d has %d trials; use at least %d, and a thousand to detect errors",
				world, len(xs), MinRuns)
		}
		if slices.ContainsFunc(xs, math.IsNaN) {
			return Bound{}, fmt.Errorf("a statistic of world %d is not a number", world)
		}
		at := len(xs) / pilotShare
		pilot[world], rest[world] = xs[:at], xs[at:]
	}
	alpha := (1 - confidence) / 2
	b := Bound{Of: [2]int{len(rest[0]), len(rest[1])}}
	b.Event = choose(pilot, b.Of, delta, alpha)
	for world, xs := range rest {
		b.Seen[world] = b.Event.count(xs)
	}
	p, q := b.Event.Over, 1-b.Event.Over
	b.Epsilon = epsilonOf(b.Seen[p], b.Of[p], b.Seen[q], b.Of[q], delta, alpha)
	return b, nil
}

// choose returns the most promising event: the one with the largest bound if the remaining trials show it as often
// as the pilot. If none is promising it returns the first.
func choose(pilot [2][]float64, of [2]int, delta, alpha float64) Event {
	values := slices.Concat(pilot[0], pilot[1])
	slices.Sort(values)
	values = slices.Compact(values)
	best, promise := Event{Above: true, Threshold: values[len(values)/2]}, math.Inf(-1)
	for i := range min(len(values), maxThresholds) {
		t := values[i*len(values)/min(len(values), maxThresholds)]
		for _, e := range []Event{{0, true, t}, {0, false, t}, {1, true, t}, {1, false, t}} {
			p, q := e.Over, 1-e.Over
			// The pilot's result is taken with a margin; otherwise rare events would be chosen by luck.
			low, _ := ClopperPearson(e.count(pilot[p]), len(pilot[p]), pilotAlpha)
			_, high := ClopperPearson(e.count(pilot[q]), len(pilot[q]), pilotAlpha)
			kP, kQ := math.Floor(low*float64(of[p])), math.Ceil(high*float64(of[q]))
			if got := epsilonOf(int(kP), of[p], int(kQ), of[q], delta, alpha); got > promise {
				best, promise = e, got
			}
		}
	}
	return best
}
