package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Checks collects what is wrong with a pipeline's options, each with the name of its
// field.
type Checks struct {
	pipeline string
	errs     []error
}

// NewChecks begins the checks of a pipeline of this name.
func NewChecks(pipeline string) *Checks { return &Checks{pipeline: pipeline} }

// Check notes what is said in place of ok; the format begins with the field.
func (c *Checks) Check(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(c.pipeline+"."+format, args...))
	}
}

// OneOf wants one of some words.
func (c *Checks) OneOf(field, value string, of ...string) {
	words := slices.DeleteFunc(slices.Clone(of), func(s string) bool { return s == "" }) // which leaves it to be chosen
	c.Check(slices.Contains(of, value), "%s: %q is not one of %q", field, value, words)
}

// Between wants a number from lo to hi; not a number is none.
func (c *Checks) Between(field string, v, lo, hi float64) {
	c.Check(v >= lo && v <= hi, "%s: %v is not between %v and %v", field, v, lo, hi)
}

// Positive wants a finite number above 0.
func (c *Checks) Positive(field string, v float64) {
	c.Check(v > 0 && !math.IsInf(v, 0), "%s: %v is not above 0", field, v)
}

// Err is all that was found, nil for nothing.
func (c *Checks) Err() error { return errors.Join(c.errs...) }

// MostCandidates bounds the generated records that stages hold in memory, with a score by each
// discriminator.
const MostCandidates = 2_000_000

// MostUnits bounds the public number of privacy units that a run.yaml may state; aggregators
// add up fewer.
const MostUnits = 1 << 24
