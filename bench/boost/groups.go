package main

import (
	"fmt"

	"github.com/conclave-dp/conclave/bench/stages"
)

// cases are the rows of the paper's tables. GAN and DRS have the whole budget, as in the
// scripts of its authors; boosting takes a fifth of it by itself, theirs too. What they call
// DRS rejects by the last discriminator, and after boosting by the mixture.
var cases = []stages.Case{
	{Name: "GAN"},
	{Name: "DRS", Run: "post: [drs]"},
	{Name: "PGB", Run: "post: [pgb]"},
	{Name: "PGB+DRS", Run: "post: [pgb, drs]"},
}

// groups are the paper's two private experiments with tables, after either GAN, with the
// start that runs have by default and without one.
func groups() (all []stages.Group) {
	for _, set := range []stages.Group{
		// 1/(2n), the authors' delta, for 891 and 31,728 rows.
		{Name: "titanic", Data: "titanic", Epsilon: 2, Delta: 1.0 / (2 * 891), Rows: 891, Teachers: 100, Measure: titanic},
		{Name: "census1940", Data: "census1940", Epsilon: 1, Delta: 1.0 / (2 * 31728), Rows: compared, Teachers: 200, Measure: census},
	} {
		for _, pipeline := range []string{"dpgan", "pategan"} {
			for _, start := range []string{"warm", "cold"} {
				g := set
				g.Name = fmt.Sprintf("%s-%s-%s", set.Name, pipeline, start)
				g.Pipeline, g.Cases = pipeline, cases
				if pipeline == "dpgan" {
					g.Teachers = 1 // they divide the records of a node, which DPGAN takes together
				}
				if start == "cold" {
					g.Run = "warm_start: {embed: 0}"
				}
				all = append(all, g)
			}
		}
	}
	return all
}
