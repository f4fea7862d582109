package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// AUROC is the area under the receiver operating characteristic: the chance
// that a random positive row scores above a random negative one, a tie
// counting half (the Mann-Whitney statistic). 0.5 is guessing, 1 is perfect.
//
// It fails for slices of unequal length, a score that is NaN, and with
// ErrOneClass when one of the classes is missing.
func AUROC(positive []bool, scores []float64) (float64, error) {
	pos, neg, order, err := ranked(positive, scores)
	if err != nil {
		return 0, fmt.Errorf("auroc: %w", err)
	}
	// Walking from the highest score down, every negative row is beaten by all
	// positives above it and half of those it ties with.
	var wins, above float64
	for group := range ties(order, scores) {
		p, n := splitGroup(group, positive)
		wins += n * (above + p/2)
		above += p
	}
	return wins / (float64(pos) * float64(neg)), nil
}

// AveragePrecision is the area under the precision-recall curve as a step
// function: the sum over falling thresholds of the precision times the gain in
// recall (the definition of scikit-learn; nothing is interpolated). Guessing
// gives about the share of positive rows. It fails like AUROC.
func AveragePrecision(positive []bool, scores []float64) (float64, error) {
	pos, _, order, err := ranked(positive, scores)
	if err != nil {
		return 0, fmt.Errorf("average precision: %w", err)
	}
	var sum, hits, seen float64
	for group := range ties(order, scores) {
		p, n := splitGroup(group, positive)
		hits += p
		seen += p + n
		sum += hits / seen * p
	}
	return sum / float64(pos), nil
}

// ranked checks the input and gives the rows' order from the highest score to
// the lowest.
func ranked(positive []bool, scores []float64) (pos, neg int, order []int, err error) {
	if len(positive) != len(scores) {
		return 0, 0, nil, fmt.Errorf("%d labels but %d scores", len(positive), len(scores))
	}
	for i, s := range scores {
		if math.IsNaN(s) {
			return 0, 0, nil, fmt.Errorf("score of row %d is not a number", i+1)
		}
	}
	if pos, neg, err = CountClasses(positive); err != nil {
		return 0, 0, nil, err
	}
	order = make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return pos, neg, order, nil
}

// ties yields runs of equal scores, in the given order.
func ties(order []int, scores []float64) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		for start := 0; start < len(order); {
			end := start + 1
			for end < len(order) && scores[order[end]] == scores[order[start]] {
				end++
			}
			if !yield(order[start:end]) {
				return
			}
			start = end
		}
	}
}

func splitGroup(group []int, positive []bool) (p, n float64) {
	for _, i := range group {
		if positive[i] {
			p++
		}
	}
	return p, float64(len(group)) - p
}
