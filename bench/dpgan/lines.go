package main

import (
	"fmt"

	"github.com/conclave-dp/conclave/bench/table"
)

// series are short runs on MNIST at epsilon 10 that differ in n_D alone.
type series struct {
	prefix, says, colour string
	everies              []int
	options              func(n int) string
}

// all are those that are compared: runs of as many steps of the discriminator each, and runs
// of as many of the generator, with small samples as the papers have them.
var all = []series{
	{
		prefix: "nd", says: "500 steps of the discriminator", colour: "#1f77b4", everies: []int{1, 2, 5, 10, 20, 50},
		options: func(n int) string {
			return fmt.Sprintf("{steps: 500, discriminator: {kind: dense}, student: {every: %d, steps: 1, batch: 256}}", n)
		},
	}, {
		prefix: "even", says: "300 steps of the generator, samples of 128", colour: "#d95f02", everies: []int{1, 10, 50},
		options: func(n int) string {
			return fmt.Sprintf("{steps: %d, rate: 0.00213, discriminator: {kind: dense, memory: 0, generated: 128}, student: {every: %d, steps: 1, batch: 128}}", 300*n, n)
		},
	},
}

// garments are pictures of one size and the right way up, which is public: a generator that
// turns and stretches them as much as digits makes what nobody wears. Its slower steps and
// larger samples were tried on Fashion-MNIST at epsilon 10.
const garments = "{rate: 0.1, discriminator: {memory: 0.5}, student: {warp: 0.3, steps: 1}}"

// lastEvery is the largest n_D.
const lastEvery = 50

// lines are the table. The paper's figures are those of Bie, Kamath and Zhang 2023, "Private
// GANs, Revisited": accuracy of a convolutional network on MNIST and Fashion-MNIST.
var lines = append([]table.Line{
	{Name: "flchain-0.1", Data: "flchain", Epsilon: 0.1, Rows: 6000},
	{Name: "flchain-0.3", Data: "flchain", Epsilon: 0.3, Rows: 6000},
	{Name: "flchain-1", Data: "flchain", Epsilon: 1, Rows: 6000},
	{Name: "flchain-3", Data: "flchain", Epsilon: 3, Rows: 6000},
	{Name: "flchain-10", Data: "flchain", Epsilon: 10, Rows: 6000},
	{Name: "adult-1", Data: "adult", Epsilon: 1, Rows: 10_000},
	{Name: "adult-3", Data: "adult", Epsilon: 3, Rows: 10_000},
	{Name: "adult-10", Data: "adult", Epsilon: 10, Rows: 10_000},
	{Name: "credit-1", Data: "credit", Epsilon: 1, Rows: 20_000},
	{Name: "credit-10", Data: "credit", Epsilon: 10, Rows: 20_000},
	{Name: "mnist-10", Data: "mnist", Epsilon: 10, Rows: 60_000, Images: true, Paper: 0.950},
	{Name: "mnist-1", Data: "mnist", Epsilon: 1, Rows: 60_000, Images: true, Paper: 0.801},
	{Name: "fashion-10", Data: "fashion_mnist", Epsilon: 10, Rows: 60_000, Images: true, Paper: 0.748, Options: garments},
	{Name: "fashion-1", Data: "fashion_mnist", Epsilon: 1, Rows: 60_000, Images: true, Paper: 0.680, Options: garments},
}, ofEvery()...)

// ofEvery are the lines of the series.
func ofEvery() (short []table.Line) {
	for _, of := range all {
		for _, n := range of.everies {
			short = append(short, table.Line{
				Name: of.name(n), Data: "mnist", Epsilon: 10, Rows: 10_000, Images: true, Alone: true,
				Options: of.options(n),
			})
		}
	}
	return short
}

func (s series) name(n int) string { return fmt.Sprintf("%s-%d", s.prefix, n) }

func init() {
	for i := range lines {
		lines[i].Run = "warm_start: {embed: 0}" // bench/embed measures these
		lines[i].Teachers = 1                   // they divide the records of a node, which DPGAN takes together
	}
}
