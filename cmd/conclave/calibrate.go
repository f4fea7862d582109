package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// calibrated is the answer of `privacy calibrate`.
type calibrated struct {
	Epsilon float64       `json:"epsilon"` // the target
	Delta   float64       `json:"delta"`
	Event   privacy.Event `json:"event"` // noise and number of queries
	Claim   privacy.Claim `json:"claim"` // what the event costs
	// Unanimous is how many teachers must agree for a vote to survive; null for
	// events that are no votes.
	Unanimous *int64 `json:"unanimous_teachers"`
}

func calibrate(_ context.Context, args []string) error {
	f := flags("privacy calibrate", "privacy calibrate --kind KIND --epsilon E --delta D (--queries N | --noise X)")
	kind := f.String("kind", "gnmax", "mechanism: "+kindNames())
	epsilon := f.Float64("epsilon", 0, "target epsilon, above 0")
	delta := f.Float64("delta", 0, "target delta, between 0 and 1")
	queries := f.Int64("queries", 0, "find the least noise for this number of queries")
	noise := f.Float64("noise", 0, "find the most queries for this noise: sigma, noise multiplier, lambda or epsilon of one query, as the kind has it")
	sensitivity := f.Float64("sensitivity", 1, "of gaussian: L2 sensitivity")
	rate := f.Float64("rate", 0, "of subsampled-gaussian: probability of a unit to be in a sample")
	threshold := f.Float64("threshold", 0, "of confident-gnmax: votes to be answered")
	thresholdNoise := f.Float64("threshold-noise", 3, "of confident-gnmax: noise of the test in proportion to that of the answer")
	classes := f.Int("classes", 2, "of votes: number of classes")
	survive := f.Float64("survive", 0.95, "of votes: probability with which a unanimous vote survives the noise")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	e := privacy.Event{Kind: privacy.Kind(*kind)}
	if _, known := noiseOf(&e); known == nil {
		return misuse(f, "--kind %q: use one of %s", *kind, kindNames())
	}
	if given["queries"] == given["noise"] {
		return misuse(f, "give either --queries, to find the noise, or --noise, to find the number of queries")
	}
	for name, of := range map[string]privacy.Kind{
		"sensitivity": privacy.Gaussian, "rate": privacy.SubsampledGaussian,
		"threshold": privacy.ConfidentGNMax, "threshold-noise": privacy.ConfidentGNMax,
	} {
		if given[name] && of != e.Kind {
			return misuse(f, "--%s belongs to %s, not to %s", name, of, e.Kind)
		}
	}
	target, err := privacy.NewBudget(*epsilon, *delta)
	if err != nil {
		return misuse(f, "%v", err)
	}
	switch e.Kind {
	case privacy.Gaussian:
		e.Sensitivity = *sensitivity
	case privacy.SubsampledGaussian:
		e.Rate = *rate
	case privacy.ConfidentGNMax:
		e.Threshold, e.Sigma1, e.Sigma2 = *threshold, *thresholdNoise, 1
	}
	answer := calibrated{Epsilon: target.Epsilon, Delta: target.Delta}
	if given["queries"] {
		answer.Event, err = privacy.Calibrate(e.Times(*queries), target)
	} else {
		answer.Event, err = mostQueries(e, *noise, target)
	}
	if err != nil {
		return err
	}
	if answer.Claim, err = privacy.Account([]privacy.Event{answer.Event}, target.Delta); err != nil {
		return err
	}
	switch e.Kind {
	case privacy.GNMax, privacy.ConfidentGNMax, privacy.LNMax:
		n, err := privacy.TeachersToSurvive(answer.Event, *classes, *survive)
		if err != nil {
			return err
		}
		answer.Unanimous = &n
	}
	if *format == "json" {
		return printJSON(answer)
	}
	printCalibrated(answer, *classes, *survive)
	return nil
}

// noiseOf returns the field of an event that is its noise, and the field's name;
// nil where the kind is not known. A confident query's is that of its answer.
func noiseOf(e *privacy.Event) (name string, noise *float64) {
	switch e.Kind {
	case privacy.Gaussian, privacy.GNMax:
		return "sigma", &e.Sigma
	case privacy.SubsampledGaussian:
		return "noise_multiplier", &e.NoiseMultiplier
	case privacy.ConfidentGNMax:
		return "sigma2", &e.Sigma2
	case privacy.LNMax:
		return "lambda", &e.Lambda
	case privacy.Laplace, privacy.Exponential:
		return "epsilon", &e.Epsilon
	}
	return "", nil
}

// mostQueries is the event with the noise, as often as the target allows.
func mostQueries(e privacy.Event, noise float64, target privacy.Budget) (privacy.Event, error) {
	_, field := noiseOf(&e)
	*field = noise
	if e.Kind == privacy.ConfidentGNMax {
		e.Sigma1 *= noise
	}
	n, err := privacy.MaxQueries(e, target)
	return e.Times(n), err
}

func printCalibrated(c calibrated, classes int, survive float64) {
	e := c.Event
	queries := max(e.Count, e.Asked)
	name, noise := noiseOf(&e)
	fmt.Printf("%s: %d queries with %s %.9g", e.Kind, queries, name, *noise)
	if e.Kind == privacy.ConfidentGNMax {
		fmt.Printf(" and sigma1 %.9g, all answered", e.Sigma1)
	}
	fmt.Printf("\ncost epsilon %.9g of %g at delta %g (%s)\n", c.Claim.Epsilon, c.Epsilon, c.Delta, c.Claim.Accountant)
	if c.Unanimous != nil {
		fmt.Printf("a vote of %d classes that is unanimous survives with probability %g from %d teachers on\n", classes, survive, *c.Unanimous)
	}
}
