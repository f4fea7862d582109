package iw

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// The methods that weight synthetic rows.
const (
	None          = pipeline.NoWeights
	Discriminator = "discriminator"
	Noised        = "logreg-noised"
	Debiased      = "logreg-debiased"
	PrivateMLP    = "dp-mlp"
	// For comparison, NOT PRIVATE.
	Exact    = "logreg"
	ExactMLP = "mlp"
)

// Methods has all of them.
var Methods = []string{None, Discriminator, Noised, Debiased, PrivateMLP, Exact, ExactMLP}

// Fits is whether a method fits coefficients at the aggregator.
func Fits(method string) bool { return method == Noised || method == Debiased }

// NotPrivate is whether a method is for comparison only.
func NotPrivate(method string) bool { return method == Exact || method == ExactMLP }
