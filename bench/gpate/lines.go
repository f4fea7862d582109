package main

import "github.com/conclave-dp/conclave/bench/table"

const (
	winner    = "{answers: winner}"
	histogram = "{answers: histogram}"
)

// lines are the table. The paper's figures are those of its tables: credit AUROC 0.907;
// MNIST 0.588 at epsilon 1 and 0.809 at 10, 0.548 at 1 without using the votes'
// agreement; Fashion-MNIST 0.581 and 0.693.
var lines = []table.Line{
	{Name: "flchain-sum", Data: "flchain", Epsilon: 1, Teachers: 1000, Rows: 6000},
	{Name: "flchain-histogram", Data: "flchain", Epsilon: 1, Teachers: 1000, Rows: 6000, Options: histogram},
	{Name: "flchain-winner", Data: "flchain", Epsilon: 1, Teachers: 1000, Rows: 6000, Options: winner},
	{Name: "flchain-sum-10", Data: "flchain", Epsilon: 10, Teachers: 1000, Rows: 6000},
	{Name: "flchain-winner-10", Data: "flchain", Epsilon: 10, Teachers: 1000, Rows: 6000, Options: winner},
	{Name: "adult-sum", Data: "adult", Epsilon: 1, Teachers: 2000, Rows: 10_000},
	{Name: "adult-histogram", Data: "adult", Epsilon: 1, Teachers: 2000, Rows: 10_000, Options: histogram},
	{Name: "adult-winner", Data: "adult", Epsilon: 1, Teachers: 2000, Rows: 10_000, Options: winner},
	{Name: "adult-sum-10", Data: "adult", Epsilon: 10, Teachers: 2000, Rows: 10_000},
	{Name: "credit-sum", Data: "credit", Epsilon: 1, Teachers: 2000, Rows: 20_000, Paper: 0.907},
	{Name: "credit-histogram", Data: "credit", Epsilon: 1, Teachers: 2000, Rows: 20_000, Options: histogram},
	{Name: "credit-winner", Data: "credit", Epsilon: 1, Teachers: 2000, Rows: 20_000, Options: winner},
	{Name: "credit-sum-10", Data: "credit", Epsilon: 10, Teachers: 2000, Rows: 20_000},
	{Name: "mnist-sum", Data: "mnist", Epsilon: 1, Teachers: 4000, Rows: 10_000, Images: true, Paper: 0.548},
	{Name: "mnist-winner", Data: "mnist", Epsilon: 1, Teachers: 4000, Rows: 10_000, Images: true, Options: winner, Paper: 0.548},
	{Name: "mnist-sum-10", Data: "mnist", Epsilon: 10, Teachers: 4000, Rows: 10_000, Images: true, Paper: 0.809},
	{Name: "fashion-sum", Data: "fashion_mnist", Epsilon: 1, Teachers: 4000, Rows: 10_000, Images: true, Paper: 0.581},
	{Name: "fashion-sum-10", Data: "fashion_mnist", Epsilon: 10, Teachers: 4000, Rows: 10_000, Images: true, Paper: 0.693},
	{Name: "mnist-dense", Data: "mnist", Epsilon: 1, Teachers: 4000, Rows: 10_000, Images: true, Options: papersTeachers, Paper: 0.548},
	{Name: "mnist-winner-dependent", Data: "mnist", Epsilon: 100, Teachers: 4000, Rows: 10_000, Images: true, Alone: true, Options: papersVotes, Paper: 0.588},
	{Name: "fashion-winner-dependent", Data: "fashion_mnist", Epsilon: 100, Teachers: 4000, Rows: 10_000, Images: true, Alone: true, Options: papersVotes, Paper: 0.581},
	{Name: "flchain-winner-dependent", Data: "flchain", Epsilon: 100, Teachers: 1000, Rows: 6000, Alone: true, Options: winner},
}

// papersTeachers are those of the paper's images in size: dense, 784-128-1, told the class,
// kept over rounds.
const papersTeachers = "{rounds: 20, teacher: {model: hidden, hidden: 128, networks: one, features: plain, memory: run, steps: 3}, records: 100}"

// papersVotes are the paper's votes.
const papersVotes = "{answers: winner, rounds: 60, records: 32, noise: 150}"

// dependent are the lines that run until the data-dependent epsilon, the paper's, comes to
// this; their epsilon is then the budget for all data sets, which the run stays below.
var dependent = map[string]float64{"mnist-winner-dependent": 1, "fashion-winner-dependent": 1, "flchain-winner-dependent": 1}
