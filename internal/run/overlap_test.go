package run

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Every plan of a pipeline or stage pays for a unit at three sites: the aggregator accepts the plan, its price stays
// within the budget, and each release has three times the noise, or more if sites sample.
func TestPlansPayForOverlap(t *testing.T) {
	schema := partitiontest.Schema(t, wideText)
	for name, c := range map[string][]string{
		"votes":              {votes, "teachers: 500\npategan: {mechanism: gnmax, labels: 64}"},
		"laplace votes":      {votes, "teachers: 500\npategan: {mechanism: lnmax, labels: 64}"},
		"confident votes":    {votes, "teachers: 500\npategan: {mechanism: confident-gnmax, labels: 64}"},
		"gradients":          {gradients},
		"votes on gradients": {gradients, histograms},
		"confident winners":  {gradients, winners},
		"samples":            {steps, "dpgan: {steps: 10}"},
		"embedding":          {embedding},
		"marginals":          {"pipeline: marginals"},
		"a start":            {gradients, "warm_start: {embed: 0.5}"},
		"selections":         {votes, "pategan: {labels: 64}\npost: [pgb]"},
		"laplace weights":    {votes, "pategan: {labels: 64}\nweights: logreg-noised\nweighting: {noise: laplace}"},
		"gamma weights":      {votes, "pategan: {labels: 64}\nweights: logreg-noised\nweighting: {noise: norm-gamma}"},
		"gaussian weights":   {votes, "pategan: {labels: 64}\nweights: logreg-noised\nweighting: {noise: gaussian}"},
		"sampled weights":    {votes, "pategan: {labels: 64}\nweights: dp-mlp\nweighting: {mlp: {steps: 10}}"},
		"quality":            {embedding, "quality: {budget: 0.2}"},
		"masked":             {gradients, inMasks()},
		"masked selections":  {steps, "dpgan: {steps: 10}\npost: [pgb]", inMasks()},
	} {
		if testing.Short() && slices.Contains([]string{"samples", "sampled weights", "masked selections"}, name) {
			continue // one thread of arithmetic, and slow with a race detector
		}
		t.Run(name, func(t *testing.T) {
			planned := map[int]privacy.Plan{}
			for _, overlap := range []int{1, 3} {
				s := runOf(t, append(c, fmt.Sprintf("privacy: {overlap: %d, epsilon: 3}", overlap))...)
				p, err := NewPlan(s, schema)
				testkit.Must(t, err)
				if planned[overlap], err = runspec.Plan(RunSpec(p, s, schema, "data", false)); err != nil {
					t.Fatalf("at %d sites: %v", overlap, err)
				}
				claim, err := privacy.Account(p.Planned().Events(), 1e-5)
				if err != nil || claim.Epsilon > 3 || claim.Epsilon < 1.5 {
					t.Errorf("at %d sites all of it costs %v of 3 (%v)", overlap, claim.Epsilon, err)
				}
			}
			for i, p := range planned[1] {
				one, three := p.Mechanism, planned[3][i].Mechanism
				noise := noiseOf(three) / noiseOf(one)
				if one.Kind == privacy.SubsampledGaussian && one.Rate < 1 {
					if three.Rate != one.Rate || noise < 3 {
						t.Errorf("%s: %v for one site, %v for three", p.Kind, one, three)
					}
					continue
				}
				if math.Abs(noise-3) > 1e-3 && !hasSamples(planned[1]) {
					t.Errorf("%s has %v times the noise for three sites: %v", p.Kind, noise, three)
				}
			}
		})
	}
}

// hasSamples reports whether other noise is calibrated together with that of samples, which then grows more.
func hasSamples(p privacy.Plan) bool {
	return slices.ContainsFunc(p, func(e privacy.Planned) bool {
		return e.Mechanism.Kind == privacy.SubsampledGaussian
	})
}

// noiseOf is proportional to the noise of a mechanism.
func noiseOf(e privacy.Event) float64 {
	for _, sigma := range []float64{e.Sigma, e.Sigma2, e.NoiseMultiplier} {
		if sigma > 0 {
			return sigma
		}
	}
	return 1 / (e.Lambda + e.Epsilon)
}
