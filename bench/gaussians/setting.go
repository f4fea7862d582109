package main

import (
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/drs"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/privacy"
)

type setting struct {
	records int
	// epsilon is for GAN and boosting together; each selection costs selection. 0 means a run that is NOT PRIVATE.
	epsilon, delta, selection float64
	options                   dpgan.Options
	game                      pgb.Options
	reject                    drs.Options
	// candidates is the number of points from each kept generator, drawn the number of points of each method.
	candidates, drawn int
}

// authors is the number of records in the scripts of the paper's authors.
const authors = 25_000

// standard is the setting of the documented figures, with this epsilon, or NOT PRIVATE.
func standard(epsilon float64, records int) setting {
	o := dpgan.DefaultOptions()
	o.Steps, o.Rate, o.Clip = 1000, 0.01, 3
	o.Discriminator = dpgan.Discriminator{
		Kind: "dense", Layers: 1, Hidden: 64, Classes: "each", Features: "pieces", Cosines: 1, Loss: dpgan.Logistic,
		Optimizer: "adam", StepSize: 0.01, StepEnd: 0.003, Momentum: 0.5, Reuse: 1, Generated: 500,
	}
	o.Student = dpgan.Student{
		Generator: "dense", Noise: 2, Hidden: 64, Layers: 3, Follow: dpgan.Climb, Every: 1, Steps: 1, Batch: 500,
		StepSize: 1e-3, StepEnd: 5e-4, Average: 0.99, Keep: 20,
	}
	return setting{
		records: records, epsilon: epsilon, delta: 1 / (2 * float64(records)), selection: 0.006, options: o,
		game: pgb.DefaultOptions(), reject: drs.DefaultOptions(), candidates: 500, drawn: 5000,
	}
}

func (s setting) selections() []privacy.Event {
	return []privacy.Event{{Kind: privacy.Exponential, Epsilon: s.selection, Count: int64(s.game.Rounds)}}
}

// steps are the GAN's steps, with this noise multiplier.
func (s setting) steps(noise float64) []privacy.Event {
	return []privacy.Event{{Kind: privacy.SubsampledGaussian, Rate: s.options.Rate, NoiseMultiplier: noise,
		Count: int64(s.options.Steps)}}
}

// noise is the GAN's noise multiplier, for all steps in addition to all selections; 0 if nothing is private.
func (s setting) noise() (float64, error) {
	if s.epsilon == 0 {
		return 0, nil
	}
	budget, err := privacy.NewBudget(s.epsilon, s.delta)
	if err != nil {
		return 0, err
	}
	return privacy.SampledSigma(budget, s.options.Rate, int64(s.options.Steps), s.selections())
}

// costs are the epsilons of the GAN alone, of the selections alone, and of both together.
func (s setting) costs(noise float64) ([3]float64, error) {
	var costs [3]float64
	for i, events := range [][]privacy.Event{s.steps(noise), s.selections(),
		append(s.steps(noise), s.selections()...)} {
		claim, err := privacy.Account(events, s.delta)
		if err != nil {
			return costs, err
		}
		costs[i] = claim.Epsilon
	}
	return costs, nil
}
