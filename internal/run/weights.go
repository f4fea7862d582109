package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline/iw"
)

func (s *Spec) validateWeights() error {
	if !slices.Contains(iw.Methods, s.Weights) {
		return fmt.Errorf("weights: %q is not a method; use %s", s.Weights, strings.Join(iw.Methods, ", "))
	}
	var errs []error
	if iw.NotPrivate(s.Weights) {
		if s.Release.Private {
			errs = append(errs, fmt.Errorf("weights: %s is NOT PRIVATE, and the release is marked private; set release.private: false for a comparison, or use logreg-debiased", s.Weights))
		}
		if s.Evaluate.Train == "" {
			errs = append(errs, fmt.Errorf("weights: %s takes the real rows of evaluate.train; name them", s.Weights))
		}
	}
	return errors.Join(errs...)
}
