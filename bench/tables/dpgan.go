package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/bench/figures"
)

// dpgan measures DPGAN, and the effect of n_D. See README.md.
func dpgan() *experiment {
	plot := ""
	return &experiment{
		name: "dpgan", short: "DPGAN, and the effect of n_D",
		coin: true, seeds: 3, show: lineTable("without records"),
		groups: func() ([]group, error) { return dpganLines(), nil },
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&plot, "plot", "", "write an SVG of the lines nd-... and even-... to `file`")
		},
		done: func(all []*figures.Line) error {
			if plot == "" {
				return nil
			}
			svg, err := plotEvery(all)
			if err != nil {
				return err
			}
			return os.WriteFile(plot, svg, 0o644)
		},
	}
}

// dpganLines are the table. The paper's figures are those of Bie, Kamath and Zhang 2023,
// "Private GANs, Revisited": accuracy of a convolutional network on MNIST and Fashion-MNIST.
func dpganLines() []group {
	// Garments are pictures of one size and the right way up, which is public knowledge. A generator that turns
	// and stretches them as much as digits makes unrealistic ones. Its slower steps and larger samples were tried
	// on Fashion-MNIST at epsilon 10.
	const garments = "dpgan: {rate: 0.1, discriminator: {memory: 0.5}, student: {warp: 0.3, steps: 1}}\n"
	lines := []group{
		{name: "flchain-0.1", data: "flchain", epsilon: 0.1, rows: 6000},
		{name: "flchain-0.3", data: "flchain", epsilon: 0.3, rows: 6000},
		{name: "flchain-1", data: "flchain", epsilon: 1, rows: 6000},
		{name: "flchain-3", data: "flchain", epsilon: 3, rows: 6000},
		{name: "flchain-10", data: "flchain", epsilon: 10, rows: 6000},
		{name: "adult-1", data: "adult", epsilon: 1, rows: 10_000},
		{name: "adult-3", data: "adult", epsilon: 3, rows: 10_000},
		{name: "adult-10", data: "adult", epsilon: 10, rows: 10_000},
		{name: "credit-1", data: "credit", epsilon: 1, rows: 20_000},
		{name: "credit-10", data: "credit", epsilon: 10, rows: 20_000},
		{name: "mnist-10", data: "mnist", epsilon: 10, rows: 60_000, images: true},
		{name: "mnist-1", data: "mnist", epsilon: 1, rows: 60_000, images: true},
		{name: "fashion-10", data: "fashion_mnist", epsilon: 10, rows: 60_000, images: true,
			fields: garments},
		{name: "fashion-1", data: "fashion_mnist", epsilon: 1, rows: 60_000, images: true,
			fields: garments},
	}
	for _, l := range []group{
		{name: "mnist", data: "mnist"}, {name: "fashion", data: "fashion_mnist", fields: garments},
	} {
		l.epsilon, l.rows, l.images, l.fields = 10, 60_000, true, l.fields+"post: [relabel]\n"
		warm := l
		l.name, warm.name = l.name+"-relabel-10", l.name+"-warm-relabel-10"
		warm.fields += "warm_start: {embed: 0.3}\n"
		lines = append(lines, l, warm)
	}
	for _, of := range everySeries {
		for _, n := range of.everies {
			lines = append(lines, group{
				name: of.name(n), data: "mnist", epsilon: 10, rows: 10_000, images: true, alone: true,
				fields: "dpgan: " + of.options(n) + "\n",
			})
		}
	}
	for i := range lines {
		l := &lines[i]
		if l.images && !l.alone {
			l.paper = figures.MustQuote("dpgan", l.data, l.epsilon, "accuracy", "step schedule")
		}
		if !strings.Contains(l.fields, "warm_start:") {
			l.fields += "warm_start: {embed: 0}\n" // embed measures these
		}
	}
	return asLines("dpgan", rowsWorth, lines) // of one teacher: they divide records that DPGAN takes together
}

// series are short runs on MNIST at epsilon 10 that differ only in n_D.
type series struct {
	prefix, says, colour string
	everies              []int
	options              func(n int) string
}

// lastEvery is the largest n_D.
const lastEvery = 50

// everySeries are the compared series: runs with the same number of discriminator steps, and runs with the same
// number of generator steps, with small samples as in the papers.
var everySeries = []series{
	{
		prefix: "nd", says: "500 steps of the discriminator", colour: "#1f77b4",
		everies: []int{1, 2, 5, 10, 20, lastEvery},
		options: func(n int) string {
			return fmt.Sprintf(
				"{steps: 500, discriminator: {kind: dense}, student: {every: %d, steps: 1, batch: 256}}", n)
		},
	}, {
		prefix: "even", says: "300 steps of the generator, samples of 128", colour: "#d95f02",
		everies: []int{1, 10, lastEvery},
		options: func(n int) string {
			return fmt.Sprintf("{steps: %d, rate: 0.00213, discriminator: {kind: dense, memory: 0, generated: 128}, "+
				"student: {every: %d, steps: 1, batch: 128}}", 300*n, n)
		},
	},
}

func (s series) name(n int) string { return fmt.Sprintf("%s-%d", s.prefix, n) }
