package iw

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/ratio"
)

// What weights are for.
const (
	UseColumn   = "column"
	UseResample = "resample"
)

// Options are the `weighting:` part of a run. The zero value of a field is not its default;
// start from [DefaultOptions].
type Options struct {
	// Use: column adds the column weight to the rows; resample draws rows by their weights
	// in its place, from Pool times as many. Defaults: column, 4.
	Use  string `yaml:"use"`
	Pool int    `yaml:"pool"`
	// Share is the part of the run's epsilon that the fit may cost by itself. Default: 0.3.
	Share float64 `yaml:"share"`
	// Records is the public number of privacy units. Default: 0, that of the class counts,
	// which were paid for.
	Records int `yaml:"records"`
	// Squares shows the regression the squares of numbers besides. Default: false, the
	// paper's.
	Squares bool `yaml:"squares"`
	// Clip bounds the L2 norm of a record's features in public units; longer ones are
	// scaled down. Less needs less noise. Default: 0, chosen: by the synthetic rows, which
	// are public.
	Clip float64 `yaml:"clip"`
	// Lambda is the strength of the regularization: more needs less noise and moves weights
	// towards 1. Default: 0, chosen.
	Lambda float64 `yaml:"lambda"`
	// Noise of fitted coefficients: gaussian, laplace (the paper's) or norm-gamma. Default:
	// gaussian.
	Noise string `yaml:"noise"`
	// Bound is the most that a weight may be, of weights of mean 1; what few rows weigh much
	// says little. Default: 0, no bound: a cut is a bias of its own.
	Bound float64 `yaml:"bound"`
	// MLP are the options of dp-mlp and mlp.
	MLP MLP `yaml:"mlp"`
}

// MLP is a network that tells real from synthetic rows, trained by sums of clipped
// gradients over samples of the real ones.
type MLP struct {
	// Hidden is the width of its one hidden layer; 0 makes it a logistic regression, of
	// which every iterate is private. Default: 16.
	Hidden int `yaml:"hidden"`
	// Rate is the probability of a privacy unit to be in a step's sample, Steps their
	// number. Defaults: 0.1, 200.
	Rate  float64 `yaml:"rate"`
	Steps int     `yaml:"steps"`
	// Clip is the largest L2 norm of a unit's gradient. Default: 1.
	Clip float64 `yaml:"clip"`
	// StepSize is Adam's. Default: 0.02.
	StepSize float64 `yaml:"step_size"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options {
	return Options{
		Use: UseColumn, Pool: 4, Share: 0.3, Noise: "gaussian",
		MLP: MLP{Hidden: 16, Rate: 0.1, Steps: 200, Clip: 1, StepSize: 0.02},
	}
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("weighting")
	c.Check(o.Use == UseColumn || o.Use == UseResample, "use: %q is not known; use column or resample", o.Use)
	c.Check(o.Pool >= 1 && o.Pool <= 100, "pool: %d is not between 1 and 100", o.Pool)
	c.Check(o.Share > 0 && o.Share < 1, "share: %v is not a share of the budget, above 0 and below 1", o.Share)
	c.Check(o.Records >= 0 && o.Records <= pipeline.MostUnits, "records: %d is not between 0 (of the class counts) "+
		"and %d",
		o.Records, pipeline.MostUnits)
	c.Check(o.Clip >= 0 && o.Clip <= 1e6, "clip: %v is not between 0 (chosen) and 1000000", o.Clip)
	c.Check(o.Lambda >= 0 && o.Lambda <= 1e6, "lambda: %v is not between 0 (chosen) and 1000000", o.Lambda)
	least := ratio.LeastLambda(o.Clip)
	c.Check(o.Lambda == 0 || o.Lambda >= least, "lambda: %v is below %v, the least for clip %v, with which the passes "+
		"of a fit are proven enough; use more, or dp-mlp", o.Lambda, least, o.Clip)
	c.Check(slices.Contains([]string{"gaussian", "laplace", "norm-gamma"}, o.Noise),
		"noise: %q is not known; use gaussian, laplace or norm-gamma", o.Noise)
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
