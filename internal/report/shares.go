package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// Shares say how the answers of one round are spread: what share of the teachers
// called each row real, as it was released. They are computed from released,
// noisy answers and so cost nothing more; noise may put them outside [0, 1].
type Shares struct {
	// Noise is the standard deviation of the noise of one share.
	Noise float64 `json:"noise"`
	P10   float64 `json:"p10"`
	P25   float64 `json:"p25"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P90   float64 `json:"p90"`
}

// SharesOf summarizes the released shares of a round, each with noise of that
// standard deviation; nil when none was released.
func SharesOf(released []float32, noise float64) *Shares {
	if len(released) == 0 {
		return nil
	}
	sorted := make([]float64, len(released))
	for i, v := range released {
		sorted[i] = float64(v)
	}
	slices.Sort(sorted)
	return &Shares{
		Noise: noise, P10: quantile(sorted, 0.1), P25: quantile(sorted, 0.25), P50: quantile(sorted, 0.5),
		P75: quantile(sorted, 0.75), P90: quantile(sorted, 0.9),
	}
}

// quantile interpolates between the neighbouring values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	below := int(math.Floor(at))
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

func (s *Shares) check() error {
	if s == nil {
		return nil
	}
	last := math.Inf(-1)
	for _, v := range []float64{s.P10, s.P25, s.P50, s.P75, s.P90} {
		if !text.Finite(v) || v < last {
			return fmt.Errorf("the shares are no quantiles in rising order: %+v", *s)
		}
		last = v
	}
	if !text.Finite(s.Noise) || s.Noise < 0 {
		return fmt.Errorf("the noise of the shares is %v", s.Noise)
	}
	return nil
}
