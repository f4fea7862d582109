package main

import (
	"fmt"

	"github.com/conclave-dp/conclave/bench/stages"
)

// cases are the ways to weight. A method that learns from records takes its share of the
// run's budget, so the rows below it are a little worse than those of none; all cost the same.
func cases(pipeline string) []stages.Case {
	all := []stages.Case{
		{Name: "discriminator", Run: "weights: discriminator", Bare: "none"},
		{Name: "logreg-noised gaussian", Run: "weights: logreg-noised"},
		{Name: "logreg-noised laplace", Run: "weights: logreg-noised\nweighting: {noise: laplace}"},
		{Name: "logreg-debiased laplace", Run: "weights: logreg-debiased\nweighting: {noise: laplace}", Bare: "logreg-debiased laplace (its rows unweighted)"},
		{Name: "logreg-debiased norm-gamma", Run: "weights: logreg-debiased\nweighting: {noise: norm-gamma}"},
		{Name: "logreg-debiased gaussian", Run: "weights: logreg-debiased", Bare: "logreg-debiased gaussian (its rows unweighted)"},
		{Name: "dp-mlp", Run: "weights: dp-mlp", Bare: "dp-mlp (its rows unweighted)"},
		{Name: "logreg (NOT PRIVATE)", Run: "weights: logreg", NotPrivate: true},
		{Name: "mlp (NOT PRIVATE)", Run: "weights: mlp", NotPrivate: true},
	}
	if pipeline == "embed" { // which has no discriminator
		all = all[1:]
		all[len(all)-1].Bare = "none"
	}
	return all
}

// starts are what a generator begins with: what runs have by default, nothing, or nothing and
// a third of the steps, which leaves a bias that is plain to see and takes a third of the time.
var starts = map[string][]struct{ name, run string }{
	"pategan": {{"warm", ""}, {"cold", "warm_start: {embed: 0}"}},
	"dpgan":   {{"warm", ""}, {"cold", "warm_start: {embed: 0}"}, {"short", "warm_start: {embed: 0}\ndpgan: {steps: 30}"}},
	"embed":   {{"warm", ""}, {"short", "embed: {fit: {steps: 200}}"}},
}

// groups are data sets of the paper at its two budgets, after each pipeline.
func groups() (all []stages.Group) {
	for _, pipeline := range []string{"pategan", "dpgan", "embed"} {
		for _, start := range starts[pipeline] {
			for _, set := range []stages.Group{
				{Name: "breast", Data: "breast_cancer_wisconsin", Measure: classes},
				{Name: "banknote", Data: "banknote", Measure: classes},
				{Name: "boston", Data: "boston_housing", Measure: numbers},
			} {
				for _, epsilon := range []float64{1, 6} {
					g := set
					g.Name = fmt.Sprintf("%s-%s-%s-%g", set.Name, pipeline, start.name, epsilon)
					g.Pipeline, g.Epsilon, g.Delta, g.Rows, g.Teachers, g.Run = pipeline, epsilon, 1e-5, 1000, 50, start.run
					g.Cases = cases(pipeline)
					if pipeline != "pategan" {
						g.Teachers = 1 // they divide the records of a node, which these take together
					}
					all = append(all, g)
				}
			}
		}
	}
	return all
}
