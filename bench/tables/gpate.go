package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/local"
	pipeline "github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// gpate measures G-PATE. See README.md.
func gpate() *experiment {
	return &experiment{
		name: "gpate", short: "G-PATE, by sums and by votes",
		coin: true, seeds: 3, show: lineTable("coin flips"),
		groups: func() ([]group, error) { return gpateLines(), nil },
	}
}

// gpateLines are the table.
func gpateLines() []group {
	const (
		winner    = "gpate: {answers: winner}"
		histogram = "gpate: {answers: histogram}"
		// Those of the paper's images in size: dense, 784-128-1, told the class, kept over rounds.
		papersTeachers = "gpate: {rounds: 20, teacher: {model: hidden, hidden: 128, networks: one, features: plain, " +
			"memory: run, steps: 3}, records: 100}"
		papersVotes = "gpate: {answers: winner, rounds: 60, records: 32, noise: 150}"
	)
	var lines []group
	add := func(of group, more ...group) {
		for _, l := range more {
			l.data, l.teachers, l.rows, l.images = of.data, of.teachers, of.rows, of.images
			lines = append(lines, l)
		}
	}
	// Lines that run until the data-dependent epsilon, the paper's, comes to 1 have a large budget,
	// which they stay below.
	add(group{data: "flchain", teachers: 1000, rows: 6000},
		group{name: "flchain-sum", epsilon: 1},
		group{name: "flchain-histogram", epsilon: 1, fields: histogram},
		group{name: "flchain-winner", epsilon: 1, fields: winner},
		group{name: "flchain-sum-10", epsilon: 10},
		group{name: "flchain-winner-10", epsilon: 10, fields: winner},
		group{name: "flchain-winner-dependent", epsilon: 100, alone: true, fields: winner, runs: untilDependent(1)})
	add(group{data: "adult", teachers: 2000, rows: 10_000},
		group{name: "adult-sum", epsilon: 1},
		group{name: "adult-histogram", epsilon: 1, fields: histogram},
		group{name: "adult-winner", epsilon: 1, fields: winner},
		group{name: "adult-sum-10", epsilon: 10})
	add(group{data: "credit", teachers: 2000, rows: 20_000},
		group{name: "credit-sum", epsilon: 1},
		group{name: "credit-sum-warm", epsilon: 1, fields: "warm_start: {embed: 0.7}", worth: papersFour},
		group{name: "credit-histogram", epsilon: 1, fields: histogram},
		group{name: "credit-winner", epsilon: 1, fields: winner},
		group{name: "credit-sum-10", epsilon: 10})
	add(group{data: "mnist", teachers: 4000, rows: 10_000, images: true},
		group{name: "mnist-sum", epsilon: 1},
		group{name: "mnist-winner", epsilon: 1, fields: winner},
		group{name: "mnist-sum-10", epsilon: 10},
		group{name: "mnist-dense", epsilon: 1, fields: papersTeachers},
		group{name: "mnist-winner-dependent", epsilon: 100, alone: true, fields: papersVotes,
			runs: untilDependent(1)})
	add(group{data: "fashion_mnist", teachers: 4000, rows: 10_000, images: true},
		group{name: "fashion-sum", epsilon: 1},
		group{name: "fashion-sum-10", epsilon: 10},
		group{name: "fashion-winner-dependent", epsilon: 100, alone: true, fields: papersVotes,
			runs: untilDependent(1)})
	for i := range lines {
		lines[i].paper = gpatePaper(&lines[i])
	}
	return asLines("gpate", rowsWorth, lines)
}

// gpatePaper is the paper's figure for a line, 0 if it has none. On MNIST at epsilon 1 it has one without using
// the votes' agreement too, which lines with a data-independent guarantee stand beside.
func gpatePaper(l *group) float64 {
	switch {
	case l.data == "credit" && l.epsilon == 1:
		return figures.MustQuote("gpate", l.data, 1, auroc, "G-PATE")
	case l.images && l.runs != nil:
		return figures.MustQuote("gpate", l.data, 1, accuracy, "G-PATE")
	case l.data == "mnist" && l.epsilon == 1:
		return figures.MustQuote("gpate", l.data, 1, "accuracy of the data-independent variant", "G-PATE")
	case l.images:
		return figures.MustQuote("gpate", l.data, l.epsilon, accuracy, "G-PATE")
	}
	return 0
}

// untilDependent runs a case twice: a first run finds how many rounds a data-dependent epsilon
// pays for.
func untilDependent(epsilon float64) func(context.Context, *attempt, *figures.Line) (*table, *results.Result, error) {
	return func(ctx context.Context, a *attempt, o *figures.Line) (*table, *results.Result, error) {
		collected := &votes{}
		_, result, err := a.run(ctx, nil, local.Options{Hooks: aggregator.Hooks{Votes: collected.see}})
		if err != nil {
			return nil, nil, err
		}
		rounds, _, err := collected.roundsFor(epsilon, result.Outputs["ledger"])
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(os.Stderr, "%s: %d rounds fit a data-dependent epsilon of %v\n", a.group.name, rounds, epsilon)
		if rounds == 0 {
			return nil, nil, errors.New("not one round fits the data-dependent epsilon; give the votes more noise")
		}
		*collected = votes{}
		rows, result, err := a.run(ctx, func(s *runfile.Spec) {
			runfile.Section[pipeline.Options](s).Rounds = rounds
		}, local.Options{Hooks: aggregator.Hooks{Votes: collected.see}})
		if err != nil {
			return nil, result, err
		}
		_, o.Dependent, err = collected.roundsFor(math.Inf(1), result.Outputs["ledger"])
		return rows, result, err
	}
}

// papersFour is the mean AUROC of the four classifiers that the paper has for credit.
var papersFour = &measure{names: []string{auroc}, of: func(
	ctx context.Context, d *dataset, rows *table) ([]float64, error) {
	models, err := classify.Named("logistic regression", "adaboost", "bagging", "multi-layer perceptron")
	if err != nil {
		return nil, err
	}
	area, err := meanAUROC(ctx, d, rows, models...)
	return []float64{area}, err
}}
