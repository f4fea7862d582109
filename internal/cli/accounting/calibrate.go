package accounting

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/pate"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
)

type calibrated struct {
	Epsilon float64       `json:"epsilon"` // the target
	Delta   float64       `json:"delta"`
	Event   privacy.Event `json:"event"` // noise and number of queries
	Claim   privacy.Price `json:"claim"` // what the event costs
	// Telling is how well two neighbouring datasets can be distinguished by the releases.
	Telling meaning.Telling `json:"telling"`
	// Unanimous is the number of teachers that must agree for a vote to survive; null for events without votes.
	Unanimous *int64 `json:"unanimous_teachers"`
}

// calibrateFlags are a target, an event without its noise or its number, and one of these two.
type calibrateFlags struct {
	kind                      string
	epsilon, delta            float64
	queries                   int64
	noise                     float64
	sensitivity, rate         float64
	threshold, thresholdNoise float64
	classes                   int
	survive                   float64
	format                    *string
}

func calibrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "calibrate --kind KIND --epsilon E --delta D (--queries N | --noise X) [--format json]",
		Short: "find the minimum noise or the maximum number of queries for a budget",
	}
	var o calibrateFlags
	f := c.Flags()
	f.StringVar(&o.kind, "kind", "gnmax", "mechanism: "+kindNames())
	f.Float64Var(&o.epsilon, "epsilon", 0, "target epsilon, above 0")
	f.Float64Var(&o.delta, "delta", 0, "target delta, between 0 and 1")
	f.Int64Var(&o.queries, "queries", 0, "find the minimum noise for this number of queries")
	f.Float64Var(&o.noise, "noise", 0, "find the maximum number of queries for this noise: sigma, noise multiplier, "+
		"lambda or epsilon of one query, depending on the kind")
	f.Float64Var(&o.sensitivity, "sensitivity", 1,
		"for gaussian: L2 sensitivity; otherwise: number of sites at which a unit may be")
	f.Float64Var(&o.rate, "rate", 0, "for subsampled-gaussian: probability that a unit is in a sample")
	f.Float64Var(&o.threshold, "threshold", 0, "for confident-gnmax: votes required for an answer")
	f.Float64Var(&o.thresholdNoise, "threshold-noise", 3,
		"for confident-gnmax: noise of the test as a multiple of the answer's noise")
	f.IntVar(&o.classes, "classes", 2, "for votes: number of classes")
	f.Float64Var(&o.survive, "survive", 0.95, "for votes: probability that a unanimous vote survives the noise")
	o.format = cli.Format(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.check(c.Flags()); err != nil {
			return err
		}
		return o.calibrate(c.Flags().Changed("queries"))
	}
	return c
}

// check refuses flags that do not belong together.
func (o *calibrateFlags) check(f *pflag.FlagSet) error {
	kind := privacy.Kind(o.kind)
	if _, known := noiseOf(&privacy.Event{Kind: kind}); known == nil {
		return cli.Misuse("--kind %q: use one of %s", o.kind, kindNames())
	}
	if f.Changed("queries") == f.Changed("noise") {
		return cli.Misuse("give either --queries to find the noise, or --noise to find the number of queries")
	}
	for name, of := range map[string]privacy.Kind{
		"rate": privacy.SubsampledGaussian, "threshold": privacy.ConfidentGNMax,
		"threshold-noise": privacy.ConfidentGNMax,
	} {
		if f.Changed(name) && of != kind {
			return cli.Misuse("--%s is for %s, not for %s", name, of, kind)
		}
	}
	return nil
}

// calibrate finds the noise for a number of queries, or the number for a noise.
func (o *calibrateFlags) calibrate(queries bool) error {
	target, err := privacy.NewBudget(o.epsilon, o.delta)
	if err != nil {
		return cli.Misuse("%v", err)
	}
	e := privacy.Event{Kind: privacy.Kind(o.kind)}
	if e.Kind == privacy.Gaussian || o.sensitivity != 1 {
		e.Sensitivity = o.sensitivity
	}
	switch e.Kind {
	case privacy.SubsampledGaussian:
		e.Rate = o.rate
	case privacy.ConfidentGNMax:
		e.Threshold, e.Sigma1, e.Sigma2 = o.threshold, o.thresholdNoise, 1
	}
	answer := calibrated{Epsilon: target.Epsilon, Delta: target.Delta}
	if queries {
		answer.Event, err = privacy.Calibrate(e.Times(o.queries), target)
	} else {
		answer.Event, err = mostQueries(e, o.noise, target)
	}
	if err != nil {
		return err
	}
	if answer.Claim, err = privacy.Account([]privacy.Event{answer.Event}, target.Delta); err != nil {
		return err
	}
	answer.Telling, err = meaning.Tell([]privacy.Event{answer.Event}, target.Epsilon, target.Delta)
	if err != nil {
		return err
	}
	switch e.Kind {
	case privacy.GNMax, privacy.ConfidentGNMax, privacy.LNMax:
		n, err := pate.TeachersToSurvive(answer.Event, o.classes, o.survive)
		if err != nil {
			return err
		}
		answer.Unanimous = &n
	}
	if *o.format == "json" {
		return cli.PrintJSON(answer)
	}
	printCalibrated(answer, o.classes, o.survive)
	return nil
}

// noiseOf returns the noise field of an event and its name; nil if the kind is unknown. For a confident query it
// is the noise of the answer.
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

// mostQueries is the event with this noise, as often as the target allows.
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
	fmt.Printf("%s: %s with %s %.9g", e.Kind, text.Several(queries, "query"), name, *noise)
	if e.Kind == privacy.ConfidentGNMax {
		fmt.Printf(" and sigma1 %.9g, all answered", e.Sigma1)
	}
	fmt.Printf("\ncost epsilon %.9g of %g at delta %g (%s)\n", c.Claim.Epsilon, c.Epsilon, c.Delta, c.Claim.Accountant)
	printTelling(c.Telling, meaning.Guarantee{Epsilon: c.Epsilon, Delta: c.Delta})
	if c.Unanimous != nil {
		fmt.Printf("a unanimous vote of %d classes survives with probability %g if there are at least %s\n",
			classes, survive, text.Several(*c.Unanimous, "teacher"))
	}
}
