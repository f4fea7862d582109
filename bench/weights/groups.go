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
		{Name: "logreg-noised, gaussian", Run: "weights: logreg-noised"},
		{Name: "logreg-noised, laplace", Run: "weights: logreg-noised\nweighting: {noise: laplace}"},
		{Name: "logreg-debiased, laplace", Run: "weights: logreg-debiased\nweighting: {noise: laplace}", Bare: "logreg-debiased, laplace: its rows without weights"},
		{Name: "logreg-debiased, norm-gamma", Run: "weights: logreg-debiased\nweighting: {noise: norm-gamma}"},
		{Name: "logreg-debiased, gaussian", Run: "weights: logreg-debiased", Bare: "logreg-debiased, gaussian: its rows without weights"},
		{Name: "dp-mlp", Run: "weights: dp-mlp", Bare: "dp-mlp: its rows without weights"},
		{Name: "logreg (NOT PRIVATE)", Run: "weights: logreg", NotPrivate: true},
		{Name: "mlp (NOT PRIVATE)", Run: "weights: mlp", NotPrivate: true},
	}
	if pipeline == "embed" { // which has no discriminator
		all = all[1:]
		all[len(all)-1].Bare = "none"
	}
	return all
}

// groups are data sets of the paper at its two budgets, after each pipeline.
func groups() (all []stages.Group) {
	for _, pipeline := range []string{"pategan", "dpgan", "embed"} {
		for _, set := range []stages.Group{
			{Name: "breast", Data: "breast_cancer_wisconsin", Measure: classes},
			{Name: "banknote", Data: "banknote", Measure: classes},
			{Name: "boston", Data: "boston_housing", Measure: numbers},
		} {
			for _, epsilon := range []float64{1, 6} {
				for _, start := range []string{"warm", "cold"} {
					g := set
					g.Name = fmt.Sprintf("%s-%s-%s-%g", set.Name, pipeline, start, epsilon)
					g.Pipeline, g.Epsilon, g.Delta, g.Rows, g.Teachers = pipeline, epsilon, 1e-5, 1000, 50
					g.Cases = cases(pipeline)
					if pipeline != "pategan" {
						g.Teachers = 1 // they divide the records of a node, which these take together
					}
					if start == "cold" {
						if pipeline == "embed" {
							continue
						}
						g.Run = "warm_start: {embed: 0}"
					}
					all = append(all, g)
				}
			}
		}
	}
	return all
}
