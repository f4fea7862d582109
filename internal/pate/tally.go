package pate

import (
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// addVoted adds the divergences of one resolved event to rho, order by order.
func addVoted(rho, grid []float64, e privacy.Event, v VotedEvent) error {
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
	case privacy.GNMax:
		for _, votes := range v.Votes {
			costs.add(e.Sigma, gnmaxLogQ(votes, e.Sigma))
		}
	case privacy.ConfidentGNMax:
		for i, votes := range v.Votes {
			costs.add(math.Sqrt2*e.Sigma1, thresholdOutcome(votes, e.Threshold, e.Sigma1).logQ)
			if len(v.Unanswered) == 0 || !v.Unanswered[i] {
				costs.add(e.Sigma2, gnmaxLogQ(votes, e.Sigma2))
			}
		}
	case privacy.LNMax:
		// The bound covers both kinds of noise; see lnmaxLogQ.
		for _, votes := range v.Votes {
			costs.add(e.Lambda, lnmaxLogQ(votes, e.Lambda))
		}
		return costs.addLNMax(rho, grid, e.Lambda)
	}
	costs.addGaussian(rho, grid)
	return nil
}

// tally counts how often each cost occurs. Thousands of queries often have few different histograms, and only the
// log q of a histogram matters.
type tally struct {
	at    map[tallied]int
	what  []tallied // in order of appearance, so that sums are reproducible
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

func (t *tally) addLNMax(rho, grid []float64, lambda float64) error {
	for i, alpha := range grid {
		independent, err := lnmaxIndependent(lambda, alpha)
		if err != nil {
			return err
		}
		for j, c := range t.what {
			rho[i] += t.count[j] * min(independent, pureLikelyRDP(c.logQ, 2*lambda, alpha))
		}
	}
	return nil
}
