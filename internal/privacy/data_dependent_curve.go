package privacy

import (
	"math"
	"slices"
)

// addVoted adds the divergences of one resolved event to rho, order by order.
func addVoted(rho, grid []float64, e Event, v VotedEvent, noise voteNoise) error {
	if len(v.Votes) == 0 {
		for i, alpha := range grid {
			cost, err := e.RDP(alpha)
			if err != nil {
				return err
			}
			rho[i] += cost
		}
		return nil
	}
	var costs tally
	switch e.Kind {
	case GNMax:
		if err := noise.check("sigma", e.Sigma); err != nil {
			return err
		}
		for _, votes := range v.Votes {
			costs.add(e.Sigma, noise.gnmaxLogQ(votes, e.Sigma))
		}
	case ConfidentGNMax:
		if err := noise.check("sigma1", e.Sigma1); err != nil {
			return err
		}
		if err := noise.check("sigma2", e.Sigma2); err != nil {
			return err
		}
		for i, votes := range v.Votes {
			costs.add(math.Sqrt2*e.Sigma1, noise.thresholdLogQ(votes, e.Threshold, e.Sigma1))
			if len(v.Unanswered) == 0 || !v.Unanswered[i] {
				costs.add(e.Sigma2, noise.gnmaxLogQ(votes, e.Sigma2))
			}
		}
	case LNMax:
		// Its bound covers both kinds of noise, see LNMaxLogQ.
		for _, votes := range v.Votes {
			costs.add(e.Lambda, lnmaxLogQ(votes, e.Lambda))
		}
		costs.addLNMax(rho, grid, e.Lambda)
		return nil
	}
	costs.addGaussian(rho, grid)
	return nil
}

// tally counts how often each cost occurs: thousands of queries often have few
// different histograms, and all that matters of one is its log q.
type tally struct {
	at    map[tallied]int
	what  []tallied // in the order of appearance, so that sums do not vary
	count []float64
}

type tallied struct{ noise, logQ float64 }

func (t *tally) add(noise, logQ float64) {
	key := tallied{noise, logQ}
	i, seen := t.at[key]
	if !seen {
		if t.at == nil {
			t.at = make(map[tallied]int)
		}
		i = len(t.what)
		t.at[key] = i
		t.what = append(t.what, key)
		t.count = append(t.count, 0)
	}
	t.count[i]++
}

func (t *tally) addGaussian(rho, grid []float64) {
	for j, c := range t.what {
		l := newLikelyOutcome(c.logQ, c.noise)
		for i, alpha := range grid {
			rho[i] += t.count[j] * l.rdp(alpha)
		}
	}
}

func (t *tally) addLNMax(rho, grid []float64, lambda float64) {
	for i, alpha := range grid {
		independent := 2 * pureRDP(lambda, alpha)
		for j, c := range t.what {
			rho[i] += t.count[j] * min(independent, pureLikelyRDP(c.logQ, 2*lambda, alpha))
		}
	}
}

// voteNoise says how likely an outcome is: log q of GNMax, and that of the
// threshold test.
type voteNoise struct {
	gnmaxLogQ     func(votes []int64, sigma float64) float64
	thresholdLogQ func(votes []int64, threshold, sigma1 float64) float64
	minSigma      float64
}

var (
	continuousNoise = voteNoise{
		gnmaxLogQ: gnmaxLogQ,
		thresholdLogQ: func(votes []int64, threshold, sigma1 float64) float64 {
			return thresholdOutcome(votes, threshold, sigma1).logQ
		},
	}
	integerNoise = voteNoise{gnmaxLogQ: gnmaxIntegerLogQ, thresholdLogQ: thresholdIntegerLogQ, minSigma: MinSigma}
)

func (n voteNoise) check(field string, sigma float64) error {
	if sigma < n.minSigma {
		return FieldErrorf(field, "is %v; whole-numbered noise needs at least %v", sigma, n.minSigma)
	}
	return nil
}

// gnmaxIntegerLogQ is [GNMaxLogQ] for discrete Gaussian noise with sigma >= 1.
//
// The difference of two such noises takes the value d with probability at most
// (1+s) phi(d), where phi is the density of N(0, 2 sigma²): the product of the two
// probabilities is a Gaussian in the middle times phi's exponential, and by
// Poisson summation sums of Gaussians over whole numbers lie within 1+s, s =
// 2.01 exp(-pi² sigma²), of their integrals. A match is lost by more than the
// gap, or at the gap with probability 1/2:
//
//	q <= (1+s) (sum over d >= gap of phi(d) - phi(gap)/2).
//
// Where phi is convex, from one standard deviation on, each phi(d) is at most
// the integral over [d-1/2, d+1/2]. Nearer, matches are lost with probability at
// most 1/2.
func gnmaxIntegerLogQ(votes []int64, sigma float64) float64 {
	width := math.Sqrt2 * sigma
	slack := math.Log1p(2.01 * math.Exp(-math.Pi*math.Pi*sigma*sigma))
	return unionBound(votes, func(gap float64) float64 {
		if gap-0.5 < width {
			return -math.Ln2
		}
		tail := logTailAt((gap - 0.5) / width)
		half := -square(gap/width)/2 - math.Log(2*width*math.Sqrt(2*math.Pi))
		return slack + tail + logOneLess(half-tail)
	})
}

// thresholdIntegerLogQ is the log q of the threshold test for discrete Gaussian
// noise with sigma1 >= 1, which passes at the next whole number of votes. The
// noise is k with probability at most its density phi(k), by Poisson summation;
// convexity as above. Within one standard deviation the rarer outcome has
// probability at most 1/2, since noise of at least zero has more than that.
func thresholdIntegerLogQ(votes []int64, threshold, sigma1 float64) float64 {
	distance := math.Ceil(threshold) - float64(slices.Max(votes))
	if distance <= 0 {
		distance = 1 - distance // it fails where the noise is below the distance
	}
	if distance-0.5 < sigma1 {
		return -math.Ln2
	}
	return logTailAt((distance - 0.5) / sigma1)
}
