package iw

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/ratio"
)

// uneven is the share of the rows below which an effective size causes a warning.
const uneven = 0.1

func weigh(
	ctx context.Context, of pipeline.Options, draw func(n int) (pipeline.Rows, error), s *pipeline.Session,
) (*pipeline.Weighed, error) {
	o, n := of.(*Options), s.Rows
	if o.Use == UseResample {
		n = min(pipeline.MostCandidates, n*o.Pool)
	}
	r, err := draw(n)
	if err != nil {
		return nil, err
	}
	m := new(pipeline.Weighed)
	if m.Table, err = s.Table(r.X, r.Classes); err != nil {
		return nil, err
	}
	m.Unweighted = m.Table
	// Encode the rows as they are released: with rounded integers and empty cells.
	encoded := s.Encoder.Encode(m.Table)
	r.X, r.Classes = encoded.Features, encoded.Classes
	w := &weigher{o: o, rows: r, s: s}
	logs, err := w.logs(ctx)
	if err != nil {
		return nil, err
	}
	m.Weights = ratio.SelfNormalized(bounded(logs, o.Bound))
	if err := w.report(m.Weights); err != nil || o.Use != UseResample {
		return m, err
	}
	places, err := ratio.Resample(m.Weights, s.Rows, s.Seed)
	if err != nil {
		return nil, w.failed(err)
	}
	shuffle := rand.New(rand.NewPCG(s.Seed, 0x2e5))
	shuffle.Shuffle(len(places), func(a, b int) { places[a], places[b] = places[b], places[a] })
	taken := r.Take(places, encoded.Width)
	m.Weights = nil
	m.Table, err = s.Table(taken.X, taken.Classes)
	s.Note("%d of these rows were drawn by weight.", len(places))
	return m, err
}

// weighted describes rows with weights.
func weighted(of pipeline.Options, f pipeline.Followed) string {
	if of.(*Options).Use == UseResample {
		return fmt.Sprintf("drawn by weight (%s)", f.Weights)
	}
	return fmt.Sprintf("weighted (%s)", f.Weights)
}

// weigher finds the log-weights of rows.
type weigher struct {
	o    *Options
	rows pipeline.Rows
	s    *pipeline.Session
}

// failed returns an error that says why there are no weights.
func (w *weigher) failed(err error) error {
	return fmt.Errorf("%w: weights: %w", pipeline.ErrStage, err)
}

func (w *weigher) report(weights []float64) error {
	effective, err := ratio.EffectiveSize(weights)
	if err != nil {
		return w.failed(err)
	}
	n := len(weights)
	w.s.Note("Weights (%s): %d rows have an effective sample size of %.0f.", w.s.Weights, n, effective)
	if effective < uneven*float64(n) {
		w.s.Note("Very few rows have most of the weight, so estimates from them are mostly chance; a larger " +
			"weighting.share, a lower weighting.bound or another method gives more even weights.")
	}
	return nil
}

// logs returns the rows' log-weights, up to a constant.
func (w *weigher) logs(ctx context.Context) ([]float64, error) {
	switch w.s.Weights {
	case Discriminator:
		return w.withinClasses(w.rows.Odds), nil
	case PrivateMLP, ExactMLP:
		return w.network(ctx)
	}
	return w.regression(ctx)
}

// withinClasses removes from log-odds what they say about classes. Discriminators know class shares only up to
// a constant, and these are known from elsewhere.
func (w *weigher) withinClasses(odds []float64) []float64 {
	logs := make([]float64, len(odds))
	for c := range w.s.Classes {
		most, sum, n := math.Inf(-1), 0.0, 0.0
		for i, of := range w.rows.Classes {
			if of == c {
				most = math.Max(most, odds[i])
			}
		}
		for i, of := range w.rows.Classes {
			if of == c {
				sum, n = sum+math.Exp(odds[i]-most), n+1
			}
		}
		for i, of := range w.rows.Classes {
			if of == c {
				logs[i] = odds[i] - most - math.Log(sum/n)
			}
		}
	}
	return logs
}

// bounded cuts log-weights so that none is above bound times the mean weight; with 0 it cuts none. Weights that
// are not cut keep their proportions.
func bounded(logs []float64, bound float64) []float64 {
	if bound == 0 {
		return logs
	}
	// Cut weights equal bound times the mean. The higher the cut, the further it is above the mean: find the
	// highest cut that still meets the bound.
	largest, smallest := slices.Max(logs), slices.Min(logs)
	excess := func(cut float64) float64 { // of the cut over bound times the mean, relative to the cut
		var mean float64
		for _, l := range logs {
			mean += math.Exp(math.Min(l-cut, 0)) / float64(len(logs))
		}
		return 1 - bound*mean
	}
	cut := largest
	if excess(largest) > 0 {
		low, high := smallest, largest // at the smallest, all weights are equal, and bound is at least 1
		for range 200 {
			if cut = (low + high) / 2; excess(cut) > 0 {
				high = cut
			} else {
				low = cut
			}
		}
		cut = low
	}
	cuts := make([]float64, len(logs))
	for i, l := range logs {
		cuts[i] = math.Min(l, cut)
	}
	return cuts
}
