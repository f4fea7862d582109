package shape

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Noise is what a mechanism adds to a sum.
type Noise interface {
	// Add returns the sums with noise added to each entry.
	Add(src *gnmax.Source, sums []int64) ([]int64, error)
	// Scale is the scale of the noise on an entry, in whole steps.
	Scale() float64
}

// newNoise makes the noise of a sum from the mechanism of its plan entry, whose norm and rate must fit; see
// [runspec.Norms].
//
//   - Gaussian noise is [gnmax.GaussianSum]. In a sum over samples each contributor takes part
//     independently with the charged probability.
//   - Laplace noise is [gnmax.LaplaceCounts], a norm-Gamma vector [gnmax.NormGamma].
func newNoise(v *vector, planned privacy.Planned, run *spec.Spec) (Noise, error) {
	if rate := runspec.Rate(planned); v.rate != rate {
		return nil, fault.Refusedf("the round asks for a sum over a sample of rate %v, but entry %q of the plan of "+
			"run %q pays for rate %v; ask with that rate", v.rate, planned.Kind, run.PB.GetName(), rate)
	}
	noise, err := noiseOf(v, planned)
	if err != nil {
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), err)
	}
	return noise, nil
}

func noiseOf(v *vector, planned privacy.Planned) (Noise, error) {
	m := planned.Mechanism
	if m.Kind != privacy.Exponential && runspec.Norms(planned) != nil {
		if err := runspec.PaysSum(planned, v.wire()); err != nil {
			return nil, err
		}
	}
	switch {
	case m.Kind == privacy.Gaussian, m.Kind == privacy.SubsampledGaussian:
		sum, err := spec.GaussianSum(planned, v.sensitivity())
		if err != nil {
			return nil, err
		}
		return gaussian{sum}, nil
	case m.Kind == privacy.Laplace && planned.Variant == privacy.NormGamma:
		gamma, err := gnmax.NewNormGamma(m.Epsilon, v.sensitivity(), v.entries)
		if err != nil {
			return nil, err
		}
		return normGamma{gamma, v.entries}, nil
	case m.Kind == privacy.Laplace:
		if err := spec.CheckLaplace(v.sensitivity(), m.Epsilon); err != nil {
			return nil, fmt.Errorf("%s with a bound of %d steps: %w; lower the bound, or open a run with a larger "+
				"epsilon for them", planned.Kind, v.bound, err)
		}
		return laplace{v.sensitivity(), m.Epsilon}, nil
	}
	return nil, spec.OtherMechanism(planned, privacy.Gaussian, privacy.SubsampledGaussian, privacy.Laplace)
}

// wire is the vector's wire form, with the fields that a price depends on.
func (q *vector) wire() *conclavev1.Vector {
	per := conclavev1.Vector_PER_UNIT
	if q.perTeacher {
		per = conclavev1.Vector_PER_TEACHER
	}
	return &conclavev1.Vector{Norm: q.norm, Per: per, Rate: q.rate}
}

type gaussian struct{ *gnmax.GaussianSum }

func (g gaussian) Add(src *gnmax.Source, sums []int64) ([]int64, error) { return g.Release(src, sums) }
func (g gaussian) Scale() float64                                       { return g.Sigma().Float() }

type laplace struct {
	unit    int64
	epsilon float64
}

func (l laplace) Add(src *gnmax.Source, sums []int64) ([]int64, error) {
	return gnmax.LaplaceCounts(src, sums, l.unit, l.epsilon)
}
func (l laplace) Scale() float64 { return float64(l.unit) / l.epsilon }

// normGamma draws the length of the noise over all entries together. Its shape parameter is the number of entries.
type normGamma struct {
	*gnmax.NormGamma
	entries int
}

func (g normGamma) Add(src *gnmax.Source, sums []int64) ([]int64, error) { return g.Release(src, sums) }
func (g normGamma) Scale() float64 {
	scale, _ := g.NormGamma.Scale().Float64()
	return float64(g.entries) * scale
}
