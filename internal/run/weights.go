package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The methods that weight synthetic rows.
const (
	weightsNone          = "none"
	weightsDiscriminator = "discriminator"
	weightsNoised        = "logreg-noised"
	weightsDebiased      = "logreg-debiased"
	weightsMLP           = "dp-mlp"
	// For comparison, NOT PRIVATE.
	weightsExact    = "logreg"
	weightsExactMLP = "mlp"
)

var weightMethods = []string{weightsNone, weightsDiscriminator, weightsNoised, weightsDebiased, weightsMLP, weightsExact, weightsExactMLP}

// fits is whether coefficients are fitted at the aggregator.
func (s *Spec) fits() bool { return s.Weights == weightsNoised || s.Weights == weightsDebiased }

// weightsNotPrivate is whether a method is for comparison only.
func weightsNotPrivate(method string) bool {
	return method == weightsExact || method == weightsExactMLP
}

func (s *Spec) validateWeights() error {
	if !slices.Contains(weightMethods, s.Weights) {
		return fmt.Errorf("weights: %q is not a method; use %s", s.Weights, strings.Join(weightMethods, ", "))
	}
	var errs []error
	if weightsNotPrivate(s.Weights) {
		if s.Release.Private {
			errs = append(errs, fmt.Errorf("weights: %s is NOT PRIVATE, and the release is marked private; set release.private: false for a comparison, or use logreg-debiased", s.Weights))
		}
		if s.Evaluate.Train == "" {
			errs = append(errs, fmt.Errorf("weights: %s takes the real rows of evaluate.train; name them", s.Weights))
		}
	}
	return errors.Join(errs...)
}
