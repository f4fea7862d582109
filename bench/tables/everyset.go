package main

import (
	"slices"
	"strings"
)

// everyset runs each stage and each method of weights once, with short training. It only checks that all of them
// run and verify. See README.md.
func everyset() *experiment {
	return &experiment{
		name: "everyset", short: "run every stage and method once, shortened, on seven data sets",
		seeds: 5, groups: func() ([]group, error) { return everysetGroups(), nil },
	}
}

// cutShort shortens training and that of a warm start, which takes less of the budget than by default so that two
// stages fit beside it.
const cutShort = `warm_start: {embed: 0.3}
embed: {fit: {steps: 5}}
pategan: {teacher: {steps: 2}, student: {generator_steps: 2}}
dpgan: {steps: 3, discriminator: {reuse: 1, generated: 200}, student: {steps: 1, batch: 100}}
`

// afterAny are the methods that need only synthetic rows.
var afterAny = []runCase{
	{name: "noised", fields: "weights: logreg-noised"},
	{name: "debiased-laplace", fields: "weights: logreg-debiased\nweighting: {noise: laplace}"},
	{name: "debiased-norm-gamma", fields: "weights: logreg-debiased\nweighting: {noise: norm-gamma}"},
	{name: "debiased-gaussian", fields: "weights: logreg-debiased"},
	{name: "dp-mlp", fields: "weights: dp-mlp\nweighting: {mlp: {steps: 10}}"},
	{name: "resample", fields: "weights: logreg-debiased\nweighting: {use: resample}"},
	{name: "logreg", fields: "weights: logreg", notPrivate: true},
	{name: "mlp", fields: "weights: mlp\nweighting: {mlp: {steps: 10}}", notPrivate: true},
}

// afterGAN need discriminators.
var afterGAN = []runCase{
	{name: "drs", fields: "post: [drs]"},
	{name: "pgb", fields: "post: [pgb]\npgb: {rounds: 50}"},
	{name: "pgb-drs", fields: "post: [pgb, drs]\npgb: {rounds: 50}"},
	{name: "pgb-exact", fields: "post: [pgb]\npgb: {rounds: 50, private: false}", notPrivate: true},
	{name: "discriminator", fields: "weights: discriminator"},
	{name: "pgb-debiased",
		fields: "post: [pgb]\npgb: {rounds: 50}\nweights: logreg-debiased\nweighting: {noise: laplace}"},
	{name: "pgb-drs-dp-mlp",
		fields: "post: [pgb, drs]\npgb: {rounds: 50}\nweights: dp-mlp\nweighting: {mlp: {steps: 10}}"},
}

// refused are the stages of pipelines that leave no discriminator.
var refused = []runCase{
	{name: "pgb", fields: "post: [pgb]", refused: "there is no discriminator after"},
	{name: "drs", fields: "post: [drs]", refused: "there is no discriminator after"},
	{name: "discriminator", fields: "weights: discriminator", refused: "there is no discriminator after"},
}

func everysetGroups() (all []group) {
	for _, data := range []string{"flchain", "adult", "titanic", "breast_cancer_wisconsin", "banknote",
		"boston_housing", "census1940"} {
		for _, pipeline := range []string{"pategan", "dpgan", "embed", "gpate"} {
			g := group{
				name: data + "-" + pipeline, data: data, epsilon: 3, delta: 1e-5, pipeline: pipeline, teachers: 20,
				rows: 300, sites: 2,
				fields: cutShort,
			}
			switch pipeline {
			case "gpate":
				g.fields = ""
				g.cases = refused
			case "embed":
				g.fields = "embed: {fit: {steps: 5}}"
				g.cases = append(append(g.cases, afterAny...), refused...)
			default:
				g.cases = append(append(g.cases, afterGAN...), afterAny...)
			}
			if data == "adult" || data == "census1940" {
				g.cases = slices.Clone(g.cases)
				for i, c := range g.cases {
					if strings.Contains(c.fields, "norm-gamma") {
						g.cases[i].refused = "too many entries for norm-Gamma noise" // 100 features
					}
				}
			}
			all = append(all, g)
		}
	}
	return all
}
