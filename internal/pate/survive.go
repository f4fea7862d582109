package pate

import (
	"fmt"
	"math"
	"sort"

	"github.com/conclave-dp/conclave/internal/normal"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// mostTeachers bounds the search.
const mostTeachers = math.MaxInt32

// TeachersToSurvive returns how many teachers must agree on one class so that the noisy winner is that class with
// at least the given probability: a unanimous vote that survives the noise. The event is a query of votes; for a
// confident one the result is for the answer after the test has passed.
//
// Another of the classes-1 empty bins wins with at most (classes-1) P[X >= n], where X is the difference of two
// noises: for GNMax N(0, 2 sigma²), for LNMax P[X >= n] = (2 + lambda n) / (4 e^(lambda n)) (Papernot et al. 2017,
// Lemma 4). For more than two classes that is a union bound, so fewer teachers may be enough.
func TeachersToSurvive(query privacy.Event, classes int, probability float64) (int64, error) {
	if classes < 2 {
		return 0, privacy.FieldErrorf("classes", "is %d; a vote needs at least 2", classes)
	}
	if !(probability > 0.5 && probability < 1) {
		return 0, privacy.FieldErrorf("probability", "is %v; it must lie between 0.5 and 1, both excluded", probability)
	}
	var lost func(votes float64) float64
	switch query.Kind {
	case privacy.GNMax:
		lost = func(n float64) float64 { return normal.Tail(n / (math.Sqrt2 * query.Sigma)) }
	case privacy.ConfidentGNMax:
		lost = func(n float64) float64 { return normal.Tail(n / (math.Sqrt2 * query.Sigma2)) }
	case privacy.LNMax:
		lost = func(n float64) float64 {
			return (2 + query.Lambda*n) / 4 * math.Exp(-query.Lambda*n)
		}
	default:
		return 0, fmt.Errorf("%s event: %w", query.Kind,
			privacy.FieldErrorf("kind", "has no votes; use gnmax, confident-gnmax or lnmax"))
	}
	if err := query.Times(1).Validate(); err != nil {
		return 0, err
	}
	allowed := (1 - probability) / float64(classes-1)
	n := sort.Search(mostTeachers, func(n int) bool { return lost(float64(n)) <= allowed })
	if n == mostTeachers {
		return 0, fmt.Errorf("%s: no number of teachers below %d survives this noise: %w", query.Kind, mostTeachers,
			privacy.ErrUnreachable)
	}
	return int64(n), nil
}
