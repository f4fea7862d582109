package iw

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/ratio"
)

// The uses of weights.
const (
	UseColumn   = "column"
	UseResample = "resample"
)

// Options are the section `weighting:` of a run.yaml. This section configures `weights`; see docs/weights.md.
type Options struct {
	// Use is what happens with the weights. `column`: the rows get a last column `weight`. `resample`: rows are drawn
	// by their weights and have no such column, for programs that cannot use weights.
	Use string `yaml:"use"`
	// Pool is how many times as many rows `resample` draws from, at most 2,000,000 rows.
	Pool int `yaml:"pool"`
	// Share is the part of epsilon that the fit may cost by itself. A larger share makes the weights more accurate and
	// leaves less for the training. Free methods take none.
	Share float64 `yaml:"share"`
	// Records is the **public** number of privacy units at all sites; do not count it in the data. 0 takes the sum of
	// the class counts, which were paid for.
	Records int `yaml:"records"`
	// Squares is whether regressions see the squares of numbers, and so how wide columns are. More coefficients mean
	// more noise.
	Squares bool `yaml:"squares"`
	// Clip is the largest L2 norm of a record's features, for regressions; longer ones are scaled down. Less needs less
	// noise and sees unusual records less. 0 takes the norm that 95 in 100 synthetic rows do not exceed.
	Clip float64 `yaml:"clip"`
	// Lambda is the strength of the regularization, for regressions; at least clip^2/8192. More needs less noise and
	// moves weights towards 1. 0 takes the strength at which the noise puts a deviation of about 0.5 on the log-weight
	// of the longest record.
	Lambda float64 `yaml:"lambda"`
	// Noise is the noise of `logreg-noised` and `logreg-debiased`. `gaussian` is the least. `laplace` follows the
	// paper, and `norm-gamma` takes at most 40 coefficients. These two are pure DP, and mostly much larger.
	Noise string `yaml:"noise"`
	// Bound is the largest weight: larger ones are cut so that none is above it when their mean is 1. A cut raises the
	// effective sample size and is itself a bias. With 0 nothing is cut.
	Bound float64 `yaml:"bound"`

	MLP MLP `yaml:"mlp"`
}

// MLP is the network of `dp-mlp` and `mlp`. This section configures `weights: dp-mlp` and `mlp`: a network that tells
// real from synthetic rows. It is trained by sums of clipped gradients over samples of the real rows.
type MLP struct {
	// Hidden is the width of the hidden layer. 0 makes it a logistic regression in which every iterate is private.
	Hidden int `yaml:"hidden"`
	// Rate is the probability of each privacy unit to be in a step's sample, for `dp-mlp`.
	Rate float64 `yaml:"rate"`
	// Steps is the number of steps, each a round trip. More steps have more noise in each.
	Steps int `yaml:"steps"`
	// Clip is the largest L2 norm of a unit's gradient, for `dp-mlp`.
	Clip float64 `yaml:"clip"`
	// StepSize is the step size of the optimizer, Adam. Lower it if training diverges.
	StepSize float64 `yaml:"step_size"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options {
	return Options{
		Use: UseColumn, Pool: 4, Share: 0.3, Noise: "gaussian",
		MLP: MLP{Hidden: 16, Rate: 0.1, Steps: 200, Clip: 1, StepSize: 0.02},
	}
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("weighting")
	c.Check(o.Use == UseColumn || o.Use == UseResample, "use: %q is unknown; use column or resample", o.Use)
	c.Check(o.Pool >= 1 && o.Pool <= 100, "pool: %d is not between 1 and 100", o.Pool)
	c.Check(o.Share > 0 && o.Share < 1, "share: %v is not a share of the budget, above 0 and below 1", o.Share)
	c.Check(o.Records >= 0 && o.Records <= pipeline.MostUnits, "records: %d is not between 0 (of the class counts) "+
		"and %d",
		o.Records, pipeline.MostUnits)
	c.Check(o.Clip >= 0 && o.Clip <= 1e6, "clip: %v is not between 0 (chosen) and 1000000", o.Clip)
	c.Check(o.Lambda >= 0 && o.Lambda <= 1e6, "lambda: %v is not between 0 (chosen) and 1000000", o.Lambda)
	least := ratio.LeastLambda(o.Clip)
	c.Check(o.Lambda == 0 || o.Lambda >= least, "lambda: %v is below %v, the minimum for clip %v; use at least that, "+
		"or dp-mlp", o.Lambda, least, o.Clip)
	c.Check(slices.Contains([]string{"gaussian", "laplace", "norm-gamma"}, o.Noise),
		"noise: %q is unknown; use gaussian, laplace or norm-gamma", o.Noise)
	c.Check(o.Bound == 0 || o.Bound >= 1 && o.Bound <= 1e9, "bound: %v is not 0 (none) or between 1 and 1e9", o.Bound)
	m := o.MLP
	c.Check(m.Hidden >= 0 && m.Hidden <= 1024, "mlp.hidden: %d is not between 0 and 1024", m.Hidden)
	c.Check(m.Rate > 0 && m.Rate <= 1, "mlp.rate: %v is not above 0 and at most 1", m.Rate)
	c.Check(m.Steps >= 1 && m.Steps <= 100_000, "mlp.steps: %d is not between 1 and 100000", m.Steps)
	c.Check(m.Clip >= 1e-9 && m.Clip <= 1e6, "mlp.clip: %v is not between 1e-9 and 1000000", m.Clip)
	c.Check(m.StepSize > 0 && m.StepSize <= 100, "mlp.step_size: %v is not above 0 and at most 100", m.StepSize)
	return c.Err()
}

// TakeAll gives the stage all of the budget, for a run of its own.
func (o *Options) TakeAll() { o.Share = 1 }
