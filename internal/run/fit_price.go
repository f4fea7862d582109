package run

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

const (
	// mostFitted is the largest number of coefficients that aggregators fit.
	mostFitted = 400
	// mostAsked is the largest round that aggregators take, with room for all but the
	// synthetic records.
	mostAsked = 60 << 20
)

// checkFit refuses a fit that could not be asked, or have its noise drawn, when the training
// is paid for.
func (s *Spec) checkFit(stages Stages, schema *partition.Schema) error {
	fit, ok := stages.of(runspec.Coefficients)
	if !ok {
		return nil
	}
	width, rows := iw.Width(encode.New(schema), classesOf(schema), Section[iw.Options](s).Squares), s.Release.Rows
	if Section[iw.Options](s).Use == iw.UseResample {
		rows = min(pgb.MaxCandidates, rows*Section[iw.Options](s).Pool)
	}
	switch {
	case width > mostFitted:
		return fmt.Errorf("weights: %s: the schema's columns have %d features and %d coefficients at most are fitted; use dp-mlp, or leave weighting.squares out", s.Weights, width, mostFitted)
	case 4*rows*width > mostAsked:
		return fmt.Errorf("weights: %s: %d synthetic rows of %d features are more than the %d bytes of a question; lower release.rows or weighting.pool, or use dp-mlp", s.Weights, rows, width, mostAsked)
	}
	// A unit moves coefficients by so many steps of the lattice at most, whatever lambda is:
	// its step is above 2^-15 of the sensitivity over the root of the width; see
	// ratio.LatticeFor.
	l2 := math.Ceil((1<<15+1)*math.Sqrt(float64(width))) + 1
	var err error
	switch m := fit.Mechanism; {
	case m.Kind == privacy.Gaussian:
		_, err = gnmax.NewGaussianSum(int64(l2), m.Sigma)
	case fit.Variant == privacy.NormGamma:
		_, err = gnmax.NewNormGamma(m.Epsilon, int64(l2), width)
	default:
		l1 := int64(l2 * math.Ceil(math.Sqrt(float64(width))))
		_, err = gnmax.LaplaceCounts(gnmax.NewSource(), []int64{0}, l1, m.Epsilon)
	}
	if err != nil {
		return fmt.Errorf("weighting: %s noise on %d coefficients for a share of %v: %w; raise weighting.share, or use other noise", Section[iw.Options](s).Noise, width, Section[iw.Options](s).Share, err)
	}
	return nil
}
