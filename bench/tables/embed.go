package main

import (
	"fmt"

	"github.com/conclave-dp/conclave/bench/figures"
)

// embed measures embedding matching, and what a warm start is worth to the GANs. See README.md.
func embed() *experiment {
	return &experiment{
		name: "embed", short: "embedding matching, and warm starts of the GANs",
		coin: true, seeds: 3, show: lineTable("without records", shapes, trends),
		groups: func() ([]group, error) { return embedLines(), nil },
	}
}

// embedLines are the table. The paper's figures are those of DP-MERF, which matches embeddings too.
func embedLines() []group {
	// Garments are pictures of one size and the right way up, which is public knowledge. A generator that turns
	// and stretches them as much as digits makes unrealistic ones.
	const garments = "embed: {student: {warp: 0.3}}"
	lines := []group{
		{name: "flchain-0.1", data: "flchain", epsilon: 0.1, rows: 6000},
		{name: "flchain-0.3", data: "flchain", epsilon: 0.3, rows: 6000},
		{name: "flchain-1", data: "flchain", epsilon: 1, rows: 6000},
		{name: "flchain-10", data: "flchain", epsilon: 10, rows: 6000},
		{name: "adult-0.1", data: "adult", epsilon: 0.1, rows: 10_000},
		{name: "adult-1", data: "adult", epsilon: 1, rows: 10_000},
		{name: "adult-10", data: "adult", epsilon: 10, rows: 10_000},
		{name: "credit-1", data: "credit", epsilon: 1, rows: 20_000},
		{name: "titanic-1", data: "titanic", epsilon: 1, rows: 2000},
		{name: "census1940-1", data: "census1940", epsilon: 1, rows: 10_000, worth: unlabelledAlike},
		// its label is a number
		{name: "boston-1", data: "boston_housing", epsilon: 1, rows: 1000, worth: unlabelledAlike},
		{name: "mnist-1", data: "mnist", epsilon: 1, rows: 60_000, images: true},
		{name: "mnist-10", data: "mnist", epsilon: 10, rows: 60_000, images: true},
		{name: "fashion-1", data: "fashion_mnist", epsilon: 1, rows: 60_000, images: true, fields: garments},
		{name: "fashion-10", data: "fashion_mnist", epsilon: 10, rows: 60_000, images: true,
			fields: garments},
	}
	// Patches show the texture of garments. Digits have none. This was chosen on training images too.
	const texture = "embed: {features: {patches: 1}, student: {warp: 0.3}}"
	for _, l := range []group{
		{name: "mnist", data: "mnist"}, {name: "fashion", data: "fashion_mnist", fields: texture},
		{name: "fashion-plain", data: "fashion_mnist", fields: garments},
	} {
		for _, epsilon := range []float64{1, 10} {
			labelled := l
			labelled.name, labelled.epsilon = fmt.Sprintf("%s-relabel-%v", l.name, epsilon), epsilon
			labelled.rows, labelled.images, labelled.fields = 60_000, true, l.fields+"\npost: [relabel]"
			lines = append(lines, labelled)
		}
	}
	for i := range lines {
		if l := &lines[i]; l.images {
			l.paper = figures.MustQuote("dpgan", l.data, l.epsilon, "accuracy", "DP-MERF")
		}
	}
	// With and without a warm start that costs a share of the budget.
	for _, p := range []struct {
		pipeline string
		teachers int
	}{{"pategan", 1000}, {"dpgan", 1}} {
		for _, l := range []group{{data: "flchain", rows: 6000}, {data: "adult", rows: 10_000}} {
			for _, share := range []float64{0, 0.3, 0.7} {
				l.name = fmt.Sprintf("warm-%s-%s-%v", p.pipeline, l.data, share)
				l.epsilon, l.alone, l.pipeline, l.teachers = 1, true, p.pipeline, p.teachers
				l.fields = fmt.Sprintf("warm_start: {embed: %v}", share)
				lines = append(lines, l)
			}
		}
	}
	return asLines("embed", rowsAlike, lines)
}
