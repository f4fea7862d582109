package measure

import (
	"errors"
	"fmt"
)

// ErrOneClass says that the rows hold one class only, so that there is nothing
// to tell apart. A collapsed generator produces such tables; the caller
// decides what that is worth.
var ErrOneClass = errors.New("only one class among the rows")

// CountClasses counts positive and negative rows; ErrOneClass when either is
// missing.
func CountClasses(positive []bool) (pos, neg int, err error) {
	for _, p := range positive {
		if p {
			pos++
		} else {
			neg++
		}
	}
	switch {
	case len(positive) == 0:
		return 0, 0, fmt.Errorf("%w: there are no rows", ErrOneClass)
	case pos == 0:
		return pos, neg, fmt.Errorf("%w: all %d are negative", ErrOneClass, neg)
	case neg == 0:
		return pos, neg, fmt.Errorf("%w: all %d are positive", ErrOneClass, pos)
	}
	return pos, neg, nil
}

// weighClasses adds up the weights of positive and of negative rows; ErrOneClass
// when either is missing or weighs nothing.
func weighClasses(positive []bool, weight []float64) (pos, neg float64, err error) {
	if _, _, err := CountClasses(positive); err != nil {
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
