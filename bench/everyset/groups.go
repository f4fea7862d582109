package main

import (
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/bench/stages"
)

// short cuts training short, that of a warm start too, which takes less than by default so
// that two stages fit beside it.
const short = `warm_start: {embed: 0.3}
embed: {fit: {steps: 5}}
pategan: {teacher: {steps: 2}, student: {generator_steps: 2}}
dpgan: {steps: 3, discriminator: {reuse: 1, generated: 200}, student: {steps: 1, batch: 100}}
`

// afterAny are the methods that need nothing but synthetic rows.
var afterAny = []stages.Case{
	{Name: "noised", Run: "weights: logreg-noised"},
	{Name: "debiased-laplace", Run: "weights: logreg-debiased\nweighting: {noise: laplace}"},
	{Name: "debiased-norm-gamma", Run: "weights: logreg-debiased\nweighting: {noise: norm-gamma}"},
	{Name: "debiased-gaussian", Run: "weights: logreg-debiased"},
	{Name: "dp-mlp", Run: "weights: dp-mlp\nweighting: {mlp: {steps: 10}}"},
	{Name: "resample", Run: "weights: logreg-debiased\nweighting: {use: resample}"},
	{Name: "logreg", Run: "weights: logreg", NotPrivate: true},
	{Name: "mlp", Run: "weights: mlp\nweighting: {mlp: {steps: 10}}", NotPrivate: true},
}

// afterGAN need discriminators.
var afterGAN = []stages.Case{
	{Name: "drs", Run: "post: [drs]"},
	{Name: "pgb", Run: "post: [pgb]\npgb: {rounds: 50}"},
	{Name: "pgb-drs", Run: "post: [pgb, drs]\npgb: {rounds: 50}"},
	{Name: "pgb-exact", Run: "post: [pgb]\npgb: {rounds: 50, private: false}", NotPrivate: true},
	{Name: "discriminator", Run: "weights: discriminator"},
	{Name: "pgb-debiased", Run: "post: [pgb]\npgb: {rounds: 50}\nweights: logreg-debiased\nweighting: {noise: laplace}"},
	{Name: "pgb-drs-dp-mlp", Run: "post: [pgb, drs]\npgb: {rounds: 50}\nweights: dp-mlp\nweighting: {mlp: {steps: 10}}"},
}

// refused are the stages of pipelines that leave no discriminator.
var refused = []stages.Case{
	{Name: "pgb", Run: "post: [pgb]", Refused: "there is no discriminator after"},
	{Name: "drs", Run: "post: [drs]", Refused: "there is no discriminator after"},
	{Name: "discriminator", Run: "weights: discriminator", Refused: "there is no discriminator after"},
}

// groups are all sets after all pipelines.
func groups() (all []stages.Group) {
	for _, data := range []string{"flchain", "adult", "titanic", "breast_cancer_wisconsin", "banknote", "boston_housing", "census1940"} {
		for _, pipeline := range []string{"pategan", "dpgan", "embed", "gpate"} {
			g := stages.Group{
				Name: data + "-" + pipeline, Data: data, Epsilon: 3, Delta: 1e-5, Pipeline: pipeline, Teachers: 20, Rows: 300, Sites: 2,
				Run: short,
			}
			switch pipeline {
			case "gpate":
				g.Run = ""
				g.Cases = refused
			case "embed":
				g.Run = "embed: {fit: {steps: 5}}"
				g.Cases = append(append(g.Cases, afterAny...), refused...)
			default:
				g.Cases = append(append(g.Cases, afterGAN...), afterAny...)
			}
			if data == "adult" || data == "census1940" {
				g.Cases = slices.Clone(g.Cases)
				for i, c := range g.Cases {
					if strings.Contains(c.Run, "norm-gamma") {
						g.Cases[i].Refused = "too many entries for norm-Gamma noise" // 100 features
					}
				}
			}
			all = append(all, g)
		}
	}
	return all
}
