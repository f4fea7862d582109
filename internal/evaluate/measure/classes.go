package measure

import (
	"errors"
	"fmt"
	"slices"
)

// ErrOneClass means that the rows have only one class, so that there is nothing to tell apart. A collapsed
// generator produces such tables; the caller decides what that means.
var ErrOneClass = errors.New("only one class among the rows")

// CheckClasses fails with ErrOneClass if there are no positive or no negative rows.
func CheckClasses(positive []bool) error {
	switch n := len(positive); {
	case n == 0:
		return fmt.Errorf("%w: there are no rows", ErrOneClass)
	case !slices.Contains(positive, true):
		return fmt.Errorf("%w: all %d are negative", ErrOneClass, n)
	case !slices.Contains(positive, false):
		return fmt.Errorf("%w: all %d are positive", ErrOneClass, n)
	}
	return nil
}

// weighClasses adds up the weights of positive and of negative rows. It fails with ErrOneClass if one sum is 0.
func weighClasses(positive []bool, weight []float64) (pos, neg float64, err error) {
	if err := CheckClasses(positive); err != nil {
		return 0, 0, err
	}
	for i, p := range positive {
		if p {
			pos += weight[i]
		} else {
			neg += weight[i]
		}
	}
	switch {
	case pos == 0:
		return 0, 0, fmt.Errorf("%w: the positive ones weigh nothing", ErrOneClass)
	case neg == 0:
		return 0, 0, fmt.Errorf("%w: the negative ones weigh nothing", ErrOneClass)
	}
	return pos, neg, nil
}
