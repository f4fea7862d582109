package main

import (
	"fmt"

	"github.com/conclave-dp/conclave/bench/table"
)

// everies are the n_D that are compared.
var everies = []int{1, 2, 5, 10, 20, 50}

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
	{Name: "fashion-10", Data: "fashion_mnist", Epsilon: 10, Rows: 60_000, Images: true, Paper: 0.748},
	{Name: "fashion-1", Data: "fashion_mnist", Epsilon: 1, Rows: 60_000, Images: true, Paper: 0.680},
}, ofEvery()...)

// ofEvery are short runs with as many steps of the discriminator each, and one of the
// generator after every n_D of them.
func ofEvery() (short []table.Line) {
	for _, n := range everies {
		short = append(short, table.Line{
			Name: everyName(n), Data: "mnist", Epsilon: 10, Rows: 10_000, Images: true, Alone: true,
			Options: fmt.Sprintf("{steps: 500, discriminator: {kind: dense}, student: {every: %d, steps: 1, batch: 256}}", n),
		})
	}
	return short
}

func everyName(n int) string { return fmt.Sprintf("nd-%d", n) }

func init() {
	for i := range lines {
		lines[i].Teachers = 1 // they divide the records of a node, which DPGAN takes together
	}
}
