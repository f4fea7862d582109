package privacy

import (
	"fmt"
	"math"
)

// Kind names a mechanism.
type Kind string

// The mechanisms an [Event] can name. See mechanism.go for what each of them
// costs and why.
const (
	Gaussian           Kind = "gaussian"
	SubsampledGaussian Kind = "subsampled-gaussian"
	GNMax              Kind = "gnmax"
	ConfidentGNMax     Kind = "confident-gnmax"
	LNMax              Kind = "lnmax"
	Laplace            Kind = "laplace"
	Exponential        Kind = "exponential"
)

// Event is a release, or a number of equal ones. Its fields depend on its kind:
//
//	gaussian             sigma, sensitivity (L2), count
//	subsampled-gaussian  rate (of the Poisson sample), noise_multiplier (sigma over L2 sensitivity), count
//	gnmax                sigma (of each bin), count
//	confident-gnmax      threshold (votes), sigma1 (of the test), sigma2 (of each bin), asked, answered
//	lnmax                lambda (inverse scale of each bin), count
//	laplace              epsilon, count
//	exponential          epsilon, count
//
// All kinds except gaussian omit a sensitivity of 1. Otherwise it is the number of sites at which one privacy unit
// may be, and the noise is calibrated to the change at one of them; see [Event.PerUnit].
//
// A count is never omitted, because an event without it would cost nothing.
type Event struct {
	Kind            Kind    `json:"kind"`
	Sigma           float64 `json:"sigma,omitempty"`
	Sensitivity     float64 `json:"sensitivity,omitempty"`
	Rate            float64 `json:"rate,omitempty"`
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	Threshold       float64 `json:"threshold,omitempty"`
	Sigma1          float64 `json:"sigma1,omitempty"`
	Sigma2          float64 `json:"sigma2,omitempty"`
	Lambda          float64 `json:"lambda,omitempty"`
	Epsilon         float64 `json:"epsilon,omitempty"`
	Count           int64   `json:"count,omitempty"`
	Asked           int64   `json:"asked,omitempty"`
	Answered        int64   `json:"answered,omitempty"`
}

// Validate refuses an event whose cost would not be a positive number: unknown
// kinds, noise that is zero, negative, NaN or infinite, counts below one,
// more answered than asked, and fields that do not belong to the kind. The
// error wraps a [*FieldError].
func (e Event) Validate() error {
	m, ok := mechanisms[e.Kind]
	if !ok {
		return FieldErrorf("kind", "%q is unknown; use one of %v", e.Kind, kinds)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"sigma", e.Sigma}, {"sensitivity", e.Sensitivity}, {"rate", e.Rate},
		{"noise_multiplier", e.NoiseMultiplier}, {"sigma1", e.Sigma1},
		{"sigma2", e.Sigma2}, {"lambda", e.Lambda}, {"epsilon", e.Epsilon},
	} {
		switch {
		case f.name == "sensitivity" && !m.has(f.name) && f.value != 0:
			if !overlaps(f.value) {
				return e.errorf(f.name, "is %v; %s", f.value, overlapRule)
			}
		case m.has(f.name) && !positive(f.value):
			return e.errorf(f.name, "is %v; it must be a finite number above zero", f.value)
		case !m.has(f.name) && f.value != 0: // also true for NaN
			return e.errorf(f.name, "does not belong to this kind")
		}
	}
	if e.Rate > 1 {
		return e.errorf("rate", "is %v; it is the probability of a unit to be in the sample, at most 1", e.Rate)
	}
	switch {
	case m.has("threshold") && (!finite(e.Threshold) || e.Threshold < 0):
		return e.errorf("threshold", "is %v; it must be a number of votes, zero or more", e.Threshold)
	case !m.has("threshold") && e.Threshold != 0:
		return e.errorf("threshold", "does not belong to this kind")
	}
	if m.has("asked") {
		return e.validateAsked()
	}
	switch {
	case e.Asked != 0:
		return e.errorf("asked", "does not belong to this kind")
	case e.Answered != 0:
		return e.errorf("answered", "does not belong to this kind")
	case e.Count < 1:
		return e.errorf("count", "is %d; it must be at least 1", e.Count)
	}
	return nil
}

func (e Event) validateAsked() error {
	switch {
	case e.Count != 0:
		return e.errorf("count", "does not belong to this kind; use asked and answered")
	case e.Asked < 1:
		return e.errorf("asked", "is %d; it must be at least 1", e.Asked)
	case e.Answered < 0 || e.Answered > e.Asked:
		return e.errorf("answered", "is %d of %d asked; it must be between 0 and asked", e.Answered, e.Asked)
	}
	return nil
}

func (e Event) errorf(field, format string, args ...any) error {
	return fmt.Errorf("%s event: %w", e.Kind, FieldErrorf(field, format, args...))
}

// parameters is the event without its counts: equal for events of the same mechanism.
func (e Event) parameters() Event {
	e.Count, e.Asked, e.Answered = 0, 0, 0
	return e
}

// Times is the event with n in place of its counts; confident queries count as answered.
func (e Event) Times(n int64) Event {
	e = e.parameters()
	if e.Kind == ConfidentGNMax {
		e.Asked, e.Answered = n, n
	} else {
		e.Count = n
	}
	return e
}

// Merge adds up the counts of equal mechanisms and keeps the order in which they first appear. It does not change the
// cost of the events.
func Merge(events []Event) []Event {
	merged := make([]Event, 0, len(events))
	at := make(map[Event]int, len(events))
	for _, e := range events {
		i, seen := at[e.parameters()]
		// A sum that overflows stays two events, which costs the same.
		if !seen || merged[i].Count > math.MaxInt64-e.Count ||
			merged[i].Asked > math.MaxInt64-e.Asked || merged[i].Answered > math.MaxInt64-e.Answered {
			at[e.parameters()] = len(merged)
			merged = append(merged, e)
			continue
		}
		merged[i].Count += e.Count
		merged[i].Asked += e.Asked
		merged[i].Answered += e.Answered
	}
	return merged
}

// FieldError says which value of an event, a budget or a ledger entry is invalid, and which values are valid.
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
