// Package roundtest builds what tests of an aggregator send: specs of runs, the rounds of all kinds of
// questions, and the answers of nodes.
package roundtest

import (
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Planned is a plan entry for count uses of a mechanism; 0 means as many as the budget admits.
func Planned(kind string, mechanism privacy.Event, count int64) privacy.Planned {
	return privacy.Planned{Kind: kind, Mechanism: mechanism, Count: count}
}

// Histograms is an entry that releases all counts of a vote.
func Histograms(p privacy.Planned) privacy.Planned {
	p.Variant = privacy.Histogram
	return p
}

func GNMax(sigma float64) privacy.Event { return privacy.Event{Kind: privacy.GNMax, Sigma: sigma} }

func LNMax(lambda float64) privacy.Event { return privacy.Event{Kind: privacy.LNMax, Lambda: lambda} }

func Laplace(epsilon float64) privacy.Event {
	return privacy.Event{Kind: privacy.Laplace, Epsilon: epsilon}
}

func ConfidentMax(threshold, sigma1, sigma2 float64) privacy.Event {
	return privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: threshold, Sigma1: sigma1, Sigma2: sigma2}
}

func Gaussian(multiplier float64) privacy.Event {
	return privacy.Event{Kind: privacy.Gaussian, Sigma: multiplier, Sensitivity: 1}
}

func Subsampled(multiplier, rate float64) privacy.Event {
	return privacy.Event{Kind: privacy.SubsampledGaussian, NoiseMultiplier: multiplier, Rate: rate}
}

func Exponential(epsilon float64) privacy.Event {
	return privacy.Event{Kind: privacy.Exponential, Epsilon: epsilon}
}

// Times are the events of n uses of a mechanism.
func Times(n int64, mechanism privacy.Event) []privacy.Event {
	return []privacy.Event{mechanism.Times(n)}
}

// Asks sets a run's plan. The constructors of rounds name its first entry, and those for class counts its second; see
// paid.
func Asks(plan ...privacy.Planned) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) { s.Plan = runspec.Of(plan) }
}

// Trains replaces the first entry of a run's plan.
func Trains(p privacy.Planned) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) { s.Plan[0] = runspec.Of(privacy.Plan{p})[0] }
}

// Also adds entries to a run's plan.
func Also(plan ...privacy.Planned) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) { s.Plan = append(s.Plan, runspec.Of(plan)...) }
}

// Shares changes the price of a run's class counts.
func Shares(epsilon float64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) { s.Plan[1].Mechanism.Epsilon = epsilon }
}

// Wholly makes the filter price the whole plan before the first release.
func Wholly(s *conclavev1.RunSpec) { s.Filter = string(privacy.FilterPLD) }

// Both applies changes one after the other.
func Both(changes ...func(*conclavev1.RunSpec)) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		for _, change := range changes {
			change(s)
		}
	}
}

// Paid makes a round name the first plan entry for its kind of question in a stage, or the first entry of all if
// there is none.
func Paid(spec *conclavev1.RunSpec, stage string, r *conclavev1.Round) *conclavev1.Round {
	r.Planned = 0
	for i, p := range spec.GetPlan() {
		if p.GetKind() == r.GetKind() && p.GetStage() == stage {
			r.Planned = uint32(i)
			break
		}
	}
	return r
}

// SamplesOf configures a run for class counts and this many sums over samples.
func SamplesOf(multiplier, rate float64, rounds int64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Pipeline = "dpgan"
		Both(Wholly, Trains(Planned(runspec.Discriminator, Subsampled(multiplier, rate), rounds)))(s)
	}
}

// Embedding is a plan entry for as many embeddings as the budget admits.
func Embedding(sigma float64) privacy.Planned {
	return Planned(runspec.Embedding, Gaussian(sigma), 0)
}

// EmbeddingOf configures a run that may ask for embeddings with this noise.
func EmbeddingOf(sigma float64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Pipeline = "embed"
		Asks(Embedding(sigma))(s)
	}
}

// FitOf configures a run that may fit with this noise: Gaussian as often as its budget admits, pure once, by a plan
// that is priced as a whole.
func FitOf(noise privacy.Event) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Epsilon = 20
		Asks(Planned(runspec.Fit, noise, 0))(s)
		if noise.Kind == privacy.Laplace {
			Both(Wholly, Asks(Planned(runspec.Fit, noise, 1)))(s)
		}
	}
}

// GammaOf is FitOf with norm-Gamma noise.
func GammaOf(epsilon float64) func(*conclavev1.RunSpec) {
	return Both(FitOf(Laplace(epsilon)), func(s *conclavev1.RunSpec) { s.Plan[0].Variant = privacy.NormGamma })
}

// SumsOf configures a run for sums of gradients with a noise multiplier.
func SumsOf(multiplier float64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Pipeline = "gpate"
		Trains(Planned(runspec.GradientSums, Gaussian(multiplier), 0))(s)
	}
}

// BinsBy configures a run for votes on gradients with this mechanism.
func BinsBy(mechanism privacy.Event) func(*conclavev1.RunSpec) {
	return Trains(Histograms(Planned(runspec.GradientVotes, mechanism, 0)))
}

// SelectionsOf configures a run that may select.
func SelectionsOf(epsilon float64, count int64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Epsilon = 100
		Asks(Planned(runspec.Scores, Exponential(epsilon), count))(s)
	}
}

// Spec is a run of as many votes as its budget admits, and of class counts once.
func Spec() *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: "r", Dataset: "d", Pipeline: "pategan", SchemaSha256: Schema, Epsilon: 10, Delta: 1e-5,
		Unit: "record", Guarantee: "data-independent", Teachers: 8, Quorum: 0.5, DeadlineSeconds: 60,
		Plan: runspec.Of(privacy.Plan{
			Histograms(Planned(runspec.Votes, GNMax(20), 0)), Planned(runspec.ClassCounts, Laplace(0.1), 1),
		}),
	}
}

const Schema = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// InStage assigns an entry to a stage after training.
func InStage(stage string, p privacy.Planned) privacy.Planned {
	p.Stage = stage
	return p
}
