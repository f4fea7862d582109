package iw

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

// validate reports what does not go with the rest of the run.
func validate(_ pipeline.Options, f pipeline.Followed) (errs []error) {
	if !slices.Contains(Methods, f.Weights) {
		return []error{fmt.Errorf("weights: %q is not a method; use %s", f.Weights, strings.Join(Methods, ", "))}
	}
	// What a discriminator says of rows has gone into boosting and rejection already; to
	// weight what is left by it would count it twice.
	if len(f.Post) > 0 && f.Weights == Discriminator {
		errs = append(errs, fmt.Errorf("weights: %s: post: %s has chosen rows by discriminators already, and their "+
			"weights would count twice; use another method, or leave post out", f.Weights, strings.Join(f.Post, ", ")))
	}
	if NotPrivate(f.Weights) && f.Private {
		errs = append(errs, fmt.Errorf("weights: %s is NOT PRIVATE, and the release is marked private; set "+
			"release.private: false for a comparison, or use logreg-debiased", f.Weights))
	}
	if NotPrivate(f.Weights) && !f.Real {
		errs = append(errs, fmt.Errorf("weights: %s takes the real rows of evaluate.train; name them", f.Weights))
	}
	return errs
}

// maxNetwork is the largest that aggregators take.
const maxNetwork = 1 << 17

// check reports what the schema does not allow.
func check(of pipeline.Options, f pipeline.Followed) (errs []error) {
	o := of.(*Options)
	if f.Weights == None {
		return nil
	}
	if f.Schema.Image != nil {
		return []error{fmt.Errorf("weights: %s: rows of images are not weighted; use none", f.Weights)}
	}
	if err := f.Schema.AcceptsWeights(); err != nil && o.Use == UseColumn {
		errs = append(errs, fmt.Errorf("weights: %s: %w; or set weighting.use: resample", f.Weights, err))
	}
	if f.Weights == PrivateMLP || f.Weights == ExactMLP {
		if n := Parameters(f.Encoder, f.Classes, o.MLP.Hidden); n > maxNetwork {
			errs = append(errs, fmt.Errorf("weighting.mlp.hidden: %d makes a network of %d weights, and %d is the "+
				"most; lower it", o.MLP.Hidden, n, maxNetwork))
		}
	}
	return errs
}
