package privacy

import (
	"fmt"
	"math"
)

// FieldError says which value of an event, a budget or a ledger entry cannot be
// used, and what would do.
type FieldError struct {
	Field   string // as in JSON, for example "sigma1"
	Problem string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// FieldErrorf returns a [*FieldError] with a formatted problem.
func FieldErrorf(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// finite is false for NaN and both infinities.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// positive is true for numbers above zero, and false for NaN and infinity.
func positive(x float64) bool { return x > 0 && finite(x) }
