package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/conclave-dp/conclave/partition/encode"
)

// Checks collects the errors in a pipeline's options, each with the name of its field.
type Checks struct {
	pipeline string
	errs     []error
}

// NewChecks starts the checks of a pipeline with this name.
func NewChecks(pipeline string) *Checks { return &Checks{pipeline: pipeline} }

// Check adds an error unless ok; the format begins with the field.
func (c *Checks) Check(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(c.pipeline+"."+format, args...))
	}
}

// OneOf requires one of the given words.
func (c *Checks) OneOf(field, value string, of ...string) {
	words := slices.DeleteFunc(slices.Clone(of), func(s string) bool { return s == "" }) // an empty word means: choose
	c.Check(slices.Contains(of, value), "%s: %q is not one of %q", field, value, words)
}

// Between requires a number from lo to hi. NaN is refused.
func (c *Checks) Between(field string, v, lo, hi float64) {
	c.Check(v >= lo && v <= hi, "%s: %s is not between %s and %s", field, plain(v), plain(lo), plain(hi))
}

// Positive requires a finite number above 0.
func (c *Checks) Positive(field string, v float64) {
	c.Check(v > 0 && !math.IsInf(v, 0), "%s: %v is not above 0", field, v)
}

// Chosen requires a number from lo to hi, or unset, which lets the pipeline choose.
func (c *Checks) Chosen(field string, v, unset, lo, hi float64) {
	c.Check(v == unset || v >= lo && v <= hi, "%s: %s is not between %s and %s, or %s to have it chosen", field,
		plain(v), plain(lo), plain(hi), plain(unset))
}

// plain writes a whole number without an exponent.
func plain(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Decay requires the decay of a moving average, or -1, which lets the pipeline choose.
func (c *Checks) Decay(field string, v float64) {
	c.Check(v == -1 || v >= 0 && v < 1, "%s: %v is not at least 0 and below 1, or -1 to have it chosen", field, v)
}

// Noise requires a size of noise, or 0, which lets the pipeline choose.
func (c *Checks) Noise(v float64) {
	c.Check(v >= 0 && !math.IsInf(v, 0), "noise: %v is not 0 (chosen) or above", v)
}

// Rounds checks a quorum as a share of the teachers, and a deadline in seconds.
func (c *Checks) Rounds(quorum, deadline float64) {
	c.Check(quorum > 0 && quorum <= 1, "quorum: %v is not a share of the teachers, above 0 and at most 1", quorum)
	c.Between("deadline", deadline, 1e-3, 24*3600)
}

// ImagesOnly refuses the options that are set if the encoder's records are not images.
func (c *Checks) ImagesOnly(e *encode.Encoder, set map[string]bool) {
	for _, field := range slices.Sorted(maps.Keys(set)) {
		c.Check(!set[field] || e.Image() != nil, "%s is for images only; use another", field)
	}
}

// Take records an error about a field, if there is one.
func (c *Checks) Take(field string, err error) { c.Check(err == nil, "%s: %w", field, err) }

// Err joins all errors; nil if there are none.
func (c *Checks) Err() error { return errors.Join(c.errs...) }

// MostCandidates bounds the generated records that stages hold in memory, with a score by each
// discriminator.
const MostCandidates = 2_000_000

// MostUnits bounds the public number of privacy units that a run.yaml may state; aggregators
// add up fewer.
const MostUnits = 1 << 24
