package pgb

import (
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Options are those of a game. The zero value of a field is not its default; start from
// [DefaultOptions].
type Options struct {
	// Rounds is the number of selections, each paid for: more come closer to the
	// equilibrium of less certain selections. Default: 400, as in the experiments of the
	// paper's authors.
	Rounds int `yaml:"rounds"`
	// Rate is how much a round moves the weights: a candidate's grows by the factor
	// exp(rate x score). Default: 0, chosen: sqrt(ln(candidates)/rounds)/2, the paper's.
	// Higher ones come closer to the equilibrium, up to [TightRate]; but there the weights
	// are on the few candidates that all discriminators overrate, and what is made of them is
	// worse (bench/gaussians), unless their opposites play too: runs take that rate
	// with opposites.
	Rate float64 `yaml:"rate"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options { return Options{Rounds: 400} }

// The largest games. A round is a question and an entry of the ledger.
const (
	maxRounds = 100_000
	maxRate   = 1000
)

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("pgb")
	c.Check(o.Rounds >= 1 && o.Rounds <= maxRounds, "rounds: %d is not between 1 and %d", o.Rounds, maxRounds)
	c.Check(o.Rate >= 0 && o.Rate <= maxRate, "rate: %v is not between 0 (chosen) and %d", o.Rate, maxRate)
	return c.Err()
}

// ChosenFor returns the options with the rate filled in for a number of candidates.
func (o Options) ChosenFor(candidates int) Options {
	if o.Rate == 0 {
		// One candidate has all the weight at any rate.
		o.Rate = math.Sqrt(math.Log(float64(max(2, candidates)))/float64(max(1, o.Rounds))) / 2
	}
	return o
}

// TightRate is sqrt(8 ln(candidates)/rounds), where [Alpha] is least.
func TightRate(candidates, rounds int) float64 {
	return math.Sqrt(8 * math.Log(float64(max(2, candidates))) / float64(max(1, rounds)))
}
