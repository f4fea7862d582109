package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// AUROC is the area under the receiver operating characteristic: the chance
// that a random positive row scores above a random negative one, a tie
// counting half (the Mann-Whitney statistic). 0.5 is guessing, 1 is perfect. Rows are
// drawn in proportion to their weight; nil is 1 each.
//
// It fails for slices of unequal length, a score that is NaN, with ErrWeights,
// and with ErrOneClass when one of the classes has no row of positive weight.
func AUROC(positive []bool, scores, weight []float64) (float64, error) {
	r, err := rank(positive, scores, weight)
	if err != nil {
		return 0, fmt.Errorf("auroc: %w", err)
	}
	// From the highest score down, every negative row counts all positive rows above it, and half of those with
	// the same score.
	var wins, above, below float64
	for p, n := range r.ties {
		wins += n * (above + p/2)
		above += p
		below += n
	}
	return min(wins/(above*below), 1), nil
}

// AveragePrecision is the area under the precision-recall curve as a step
// function: the sum over falling thresholds of the precision times the gain in
// recall (the definition of scikit-learn; nothing is interpolated). Guessing
// gives about the share of positive rows. Weights and errors are those of AUROC.
func AveragePrecision(positive []bool, scores, weight []float64) (float64, error) {
	r, err := rank(positive, scores, weight)
	if err != nil {
		return 0, fmt.Errorf("average precision: %w", err)
	}
	var area, hits, misses float64
	for p, n := range r.ties {
		hits += p
		misses += n
		if p > 0 {
			area += hits / (hits + misses) * p
		}
	}
	return min(area/hits, 1), nil
}

// ranked holds rows in order from the highest score to the lowest.
type ranked struct {
	positive       []bool
	scores, weight []float64
	order          []int
}

// scored refuses labels and scores that do not match, and returns the rows' weights.
func scored(positive []bool, scores, weight []float64) ([]float64, error) {
	if len(positive) != len(scores) {
		return nil, fmt.Errorf("%d labels but %d scores", len(positive), len(scores))
	}
	for i, s := range scores {
		if math.IsNaN(s) {
			return nil, fmt.Errorf("score of row %d is not a number", i+1)
		}
	}
	return Weights(len(scores), weight)
}

func rank(positive []bool, scores, weight []float64) (ranked, error) {
	w, err := scored(positive, scores, weight)
	if err != nil {
		return ranked{}, err
	}
	if _, _, err := weighClasses(positive, w); err != nil {
		return ranked{}, err
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return ranked{positive, scores, w, order}, nil
}

// ties yields the weights of positive and of negative rows of each score, the highest first.
func (r ranked) ties(yield func(p, n float64) bool) {
	for start := 0; start < len(r.order); {
		at := r.scores[r.order[start]]
		var p, n float64
		for ; start < len(r.order) && r.scores[r.order[start]] == at; start++ {
			if i := r.order[start]; r.positive[i] {
				p += r.weight[i]
			} else {
				n += r.weight[i]
			}
		}
		if !yield(p, n) {
			return
		}
	}
}
