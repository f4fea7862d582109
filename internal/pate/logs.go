package pate

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/conclave-dp/conclave/internal/normal"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// The data-dependent bounds use probabilities far below the smallest float64, so they are stored as natural
// logarithms. This file has the functions that they share.

// logOfSum is log(e^a + e^b). Gonum's floats.LogSumExp ends in a plain log, which would round the relevant sums,
// such as 1 + 1e-30, to a divergence of zero.
func logOfSum(a, b float64) float64 {
	hi, lo := max(a, b), min(a, b)
	if math.IsInf(lo, -1) || math.IsInf(hi, 1) {
		return hi
	}
	return hi + math.Log1p(math.Exp(lo-hi))
}

// logOneLess is log(1 - e^x) for x <= 0, NaN above.
func logOneLess(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}

// logTailAt is log P[N(0,1) > z] for every z; [normal.LogTail] is for z >= 0.
func logTailAt(z float64) float64 {
	switch {
	case math.IsInf(z, 1):
		return math.Inf(-1)
	case z >= 0:
		return normal.LogTail(z)
	default:
		return math.Log1p(-normal.Tail(-z))
	}
}

func square(x float64) float64 { return x * x }

// finite is false for NaN and both infinities.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkVotes refuses an invalid histogram of votes. Its messages contain no count, because votes are private.
func checkVotes(votes []int64) error {
	if len(votes) < 2 {
		return privacy.FieldErrorf("votes", "has %d classes; a histogram needs at least 2", len(votes))
	}
	total := int64(0)
	for class, n := range votes {
		if n < 0 {
			return privacy.FieldErrorf("votes", "has a negative count for class %d; counts are votes, zero or more",
				class)
		}
		if total > math.MaxInt64-n {
			return privacy.FieldErrorf("votes", "has more votes than fit into 64 bits; check the histogram")
		}
		total += n
	}
	if total == 0 {
		return privacy.FieldErrorf("votes", "has no votes; leave out queries without votes")
	}
	return nil
}

func checkPositive(field string, x float64) error {
	if !(x > 0) || !finite(x) {
		return privacy.FieldErrorf(field, "is %v; it must be a finite number above zero", x)
	}
	return nil
}

// checkFigure is the last check of every exported bound: a figure that float64 cannot hold is an error, never a
// number that looks like a small cost.
func checkFigure(what string, x float64) (float64, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return 0, privacy.FieldErrorf(what,
			"is not a finite number; the noise is too small or too large for these orders")
	}
	return x, nil
}

// unionBound is the logarithm of an upper bound on P[the winner is not the largest bin]. beats(gap) is the log
// probability that a bin gap votes behind overtakes the largest one in a comparison of the two.
//
// Why it holds: if the largest bin does not win, it lost at least one comparison, so the probability is at most
// the sum (Papernot et al. 2018, proof of Proposition 7). The largest bin also wins at least as often as any
// other, so with probability at least 1/m: log(1 - 1/m) caps the sum.
func unionBound(votes []int64, beats func(gap float64) float64) float64 {
	first := 0
	for i, n := range votes {
		if n > votes[first] {
			first = i
		}
	}
	logs := make([]float64, 0, len(votes)-1)
	for i, n := range votes {
		if i != first {
			logs = append(logs, beats(float64(votes[first]-n)))
		}
	}
	return min(floats.LogSumExp(logs), math.Log1p(-1/float64(len(votes))))
}
