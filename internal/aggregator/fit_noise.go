package aggregator

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// fitNoise is the noise of fitted coefficients.
type fitNoise struct {
	kind           conclavev1.FitNoise_Kind
	epsilon, sigma float64
}

func newFitNoise(pb *conclavev1.FitNoise) (*fitNoise, error) {
	f := &fitNoise{kind: pb.GetKind(), epsilon: pb.GetEpsilon(), sigma: pb.GetSigma()}
	switch {
	case f.kind == conclavev1.FitNoise_KIND_GAUSSIAN && f.epsilon == 0:
		_, err := gnmax.NewGaussianSum(minGradientBound, f.sigma)
		return f, err
	case (f.kind == conclavev1.FitNoise_KIND_LAPLACE || f.kind == conclavev1.FitNoise_KIND_NORM_GAMMA) && f.sigma == 0:
		return f, f.cost().Validate()
	}
	return nil, fmt.Errorf("noise %v with epsilon %v and sigma %v; use Gaussian with sigma, or Laplace or norm-Gamma with epsilon", f.kind, f.epsilon, f.sigma)
}

func (f *fitNoise) cost() privacy.Event {
	if f.kind == conclavev1.FitNoise_KIND_GAUSSIAN {
		return privacy.Event{Kind: privacy.Gaussian, Sigma: f.sigma, Sensitivity: 1, Count: 1}
	}
	return privacy.Event{Kind: privacy.Laplace, Epsilon: f.epsilon, Count: 1}
}
