package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// CramersV is the strength of the relation of two categorical columns, from 0 (independent) to 1 (one follows
// from the other): sqrt(chi^2 / (n (k - 1))) with k the smaller number of categories that occur (Cramér 1946).
// a and b hold the category of each row, from 0 and below sizes; weight are the rows' weights, nil for 1 each.
// It is not corrected for small samples, in which independent columns have a little more than 0.
//
// It fails with ErrNoValues without rows, with ErrConstant if a column has only one category, with ErrWeights,
// and for columns of unequal length and categories out of range.
func CramersV(a, b []int32, sizes [2]int, weight []float64) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("cramer's v: %w", err) }
	if len(a) != len(b) {
		return fail(fmt.Errorf("columns of %d and of %d rows", len(a), len(b)))
	}
	w, err := Weights(len(a), weight)
	if err != nil {
		return fail(err)
	}
	total := Sum(w)
	if total == 0 {
		return fail(ErrNoValues)
	}
	ofA, ofB := make([]float64, sizes[0]), make([]float64, sizes[1])
	both := map[[2]int32]float64{}
	for i, x := range a {
		if x < 0 || int(x) >= sizes[0] || b[i] < 0 || int(b[i]) >= sizes[1] {
			return fail(fmt.Errorf("categories %d and %d of row %d: there are %d and %d", x, b[i], i+1, sizes[0],
				sizes[1]))
		}
		ofA[x] += w[i]
		ofB[b[i]] += w[i]
		both[[2]int32{x, b[i]}] += w[i]
	}
	k := min(present(ofA), present(ofB))
	if k < 2 {
		return fail(ErrConstant)
	}
	// chi^2/n = sum of both^2/(a b) - 1: empty cells add nothing. The sum is in the order of the categories, so
	// that the same rows give the same figure.
	sum := 0.0
	inOrder := func(x, y [2]int32) int { return slices.Compare(x[:], y[:]) }
	for _, cell := range slices.SortedFunc(maps.Keys(both), inOrder) {
		if n := both[cell]; n > 0 {
			sum += n / ofA[cell[0]] * (n / ofB[cell[1]])
		}
	}
	return math.Sqrt(max(0, min(1, (sum-1)/float64(k-1)))), nil
}

func present(weights []float64) (n int) {
	for _, w := range weights {
		if w > 0 {
			n++
		}
	}
	return n
}

// CorrelationRatio measures how strongly a number depends on a category, from 0 (all categories have the same
// mean) to 1 (the category determines the number): the square root of the share of the variance that lies
// between the categories (Pearson 1905). Rows whose number is NaN are left out.
//
// It fails as CramersV does.
func CorrelationRatio(categories []int32, size int, numbers, weight []float64) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("correlation ratio: %w", err) }
	if len(categories) != len(numbers) {
		return fail(fmt.Errorf("columns of %d and of %d rows", len(categories), len(numbers)))
	}
	w, err := Weights(len(numbers), weight)
	if err != nil {
		return fail(err)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, v := range numbers {
		if categories[i] < 0 || int(categories[i]) >= size {
			return fail(fmt.Errorf("category %d of row %d: there are %d", categories[i], i+1, size))
		}
		if w[i] > 0 && !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	switch {
	case low > high:
		return fail(ErrNoValues)
	case low == high:
		return fail(ErrConstant)
	}
	sums, weights := make([]float64, size), make([]float64, size)
	var total, mean, squares float64
	for i, v := range numbers {
		if w[i] == 0 || math.IsNaN(v) {
			continue
		}
		x := v/2/(high/2-low/2) - low/2/(high/2-low/2) // from 0 to 1, without overflow
		total += w[i]
		d := x - mean
		mean += d * w[i] / total
		squares += w[i] * d * (x - mean)
		sums[categories[i]] += w[i] * x
		weights[categories[i]] += w[i]
	}
	if present(weights) < 2 {
		return fail(ErrConstant)
	}
	between := 0.0
	for c, n := range weights {
		if n > 0 {
			d := sums[c]/n - mean
			between += n * d * d
		}
	}
	return math.Sqrt(max(0, min(1, between/squares))), nil
}
