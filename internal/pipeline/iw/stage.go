package iw

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/reducer"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Stage registers weights.
var Stage = pipeline.Stage{
	Name: "weighting", Options: pipeline.Defaults(DefaultOptions),
	Discriminators: func(f pipeline.Followed) bool { return f.Weights == Discriminator },
	Validate:       validate, Check: check, Share: share, Price: price, Messages: messages,
	Weigh: weigh, Weighted: weighted,
	Kinds: []question.Kind{logistic.Sum}, Reducers: []reducer.Reducer{logistic.Fit},
	Asks: []pipeline.StageQuestion{
		{Stage: runspec.Sampled, Kind: runspec.Discriminator, Says: func(sums int, numbers int64) string {
			return fmt.Sprintf("The weighting network learned from %s over samples of the records, each of %s with "+
				"noise.", text.Several(sums, "sum"), text.Several(numbers, "number"))
		}},
		{Stage: runspec.Coefficients, Kind: runspec.Fit, Says: func(_ int, coefficients int64) string {
			return fmt.Sprintf("The coefficients of the weighting regression, %s in total, were released with "+
				"noise.", text.Several(coefficients, "number"))
		}},
	},
}

// The methods that weight synthetic rows.
const (
	None          = pipeline.NoWeights
	Discriminator = "discriminator"
	Noised        = "logreg-noised"
	Debiased      = "logreg-debiased"
	PrivateMLP    = "dp-mlp"
	// These are for comparison, NOT PRIVATE:
	Exact    = "logreg"
	ExactMLP = "mlp"
)

// Methods has all of them.
var Methods = []string{None, Discriminator, Noised, Debiased, PrivateMLP, Exact, ExactMLP}

// Fits tells whether a method fits coefficients at the aggregator.
func Fits(method string) bool { return method == Noised || method == Debiased }

// NotPrivate tells whether a method is for comparison only.
func NotPrivate(method string) bool { return method == Exact || method == ExactMLP }

// validate reports conflicts with the rest of the run.
func validate(_ pipeline.Options, f pipeline.Followed) (errs []error) {
	if !slices.Contains(Methods, f.Weights) {
		return []error{fmt.Errorf("weights: %q is not a method; use %s", f.Weights, strings.Join(Methods, ", "))}
	}
	// Boosting and rejection have already used the discriminator; weighting their rows by it would count it
	// twice. New labels are ones that it never saw with these rows.
	if len(f.Post) > 0 && f.Weights == Discriminator {
		errs = append(errs, fmt.Errorf("weights: %s: post: %s changes the rows, or the labels, that discriminators "+
			"judged; use another method, or leave out post", f.Weights, strings.Join(f.Post, ", ")))
	}
	if NotPrivate(f.Weights) && f.Private {
		errs = append(errs, fmt.Errorf("weights: %s is NOT PRIVATE, but the release is marked private; set "+
			"release.private: false for a comparison, or use logreg-debiased", f.Weights))
	}
	if NotPrivate(f.Weights) && !f.Real {
		errs = append(errs, fmt.Errorf("weights: %s needs the real rows of evaluate.train; set it", f.Weights))
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
		return []error{fmt.Errorf("weights: %s: images cannot be weighted; use none", f.Weights)}
	}
	if err := f.Schema.AcceptsWeights(); err != nil && o.Use == UseColumn {
		errs = append(errs, fmt.Errorf("weights: %s: %w; or set weighting.use: resample", f.Weights, err))
	}
	if f.Weights == PrivateMLP || f.Weights == ExactMLP {
		if n := Parameters(f.Encoder, f.Classes, o.MLP.Hidden); n > maxNetwork {
			errs = append(errs, fmt.Errorf("weighting.mlp.hidden: %d makes a network of %d weights; the maximum is "+
				"%d; lower it", o.MLP.Hidden, n, maxNetwork))
		}
	}
	return errs
}
