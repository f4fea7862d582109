package drs

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Options say how much is rejected. The zero value of a field is not its default; start from
// [DefaultOptions].
type Options struct {
	// Percentile is that of the candidates of the burn-in which are accepted with
	// probability one half: the shift gamma is the percentile of F (see [Accept]). Lower
	// ones accept more, and less exactly. Default: 95. 0 shifts nothing: candidates are
	// accepted in proportion to D/(1-D), which may take many.
	Percentile float64 `yaml:"percentile"`
	// Burn is the number of candidates that are looked at first, for the largest score and
	// the percentile; they are not used. Default: 10000, as in the paper's experiments.
	Burn int `yaml:"burn"`
	// Tries is the number of candidates for each wanted record after which nothing more is
	// tried. Default: 1000.
	Tries int `yaml:"tries"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options { return Options{Percentile: 95, Burn: 10_000, Tries: 1000} }

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("drs")
	c.Check(o.Percentile >= 0 && o.Percentile <= 100, "percentile: %v is not between 0 (no shift) and 100",
		o.Percentile)
	c.Between("burn", float64(o.Burn), 1, 1e8)
	c.Between("tries", float64(o.Tries), 1, 1e8)
	return c.Err()
}
