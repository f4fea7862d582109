package pgb

import (
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Options are the options of a game.
type Options struct {
	// Rounds is the number of selections of a discriminator; each is paid for and a round trip. More come closer to
	// the equilibrium, and each is less certain. The default is that of the paper's authors.
	Rounds int `yaml:"rounds"`
	// Rate is how much a selection moves the weights: a candidate's weight grows by the factor exp(`rate` x score).
	// Higher comes closer to the equilibrium, where a few candidates that all discriminators overrate have all the
	// weight. 0 takes the root of 8 ln(`candidates`)/`rounds` with `complements`, else half the root of
	// ln(`candidates`)/`rounds`, as in the paper.
	Rate float64 `yaml:"rate"`
}

// DefaultOptions returns the options of a game that sets none. Zero values are not defaults: start from these.
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

// ChosenFor returns the options with the rate chosen for a number of candidates.
func (o Options) ChosenFor(candidates int) Options {
	if o.Rate == 0 {
		// One candidate has all the weight at any rate.
		o.Rate = math.Sqrt(math.Log(float64(max(2, candidates)))/float64(max(1, o.Rounds))) / 2
	}
	return o
}

// TightRate is sqrt(8 ln(candidates)/rounds), which minimizes [Alpha].
func TightRate(candidates, rounds int) float64 {
	return math.Sqrt(8 * math.Log(float64(max(2, candidates))) / float64(max(1, rounds)))
}
