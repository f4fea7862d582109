package pgb

import (
	"fmt"
	"math"
)

// Alpha bounds [Game.Gap] of a game at a rate, if the mean loss of selections, compared with the best, is at
// most loss (see [SelectionLoss]):
//
//	rate/8 + ln(candidates)/(rate rounds) + loss
//
// Why: the weights are Hedge's on losses 1 - D_t(b) in [0, 1]. With W_t the sum of the weights and phi_1
// uniform, ln(W_{T+1}/W_1) is at least rate sum_t D_t(b) - ln|B| for every b, and at most sum_t (rate E_{phi_t}
// D_t + rate^2/8) by Hoeffding's lemma. So
//
//	mean_t U(phi_t, D_t) <= min_b mean_t U(b, D_t) + rate/8 + ln|B|/(rate T)
//
// (Cesa-Bianchi and Lugosi 2006, Theorem 2.2). U is linear in both players: the right side has min_b U(b, mean
// D), and the left side is at least mean_t max_j U(phi_t, D_j) - loss, which is at least max_j U(mean phi, D_j)
// - loss.
func Alpha(candidates, rounds int, rate, loss float64) float64 {
	return rate/8 + explored(candidates, rounds, rate) + loss
}

// AlphaOfPaper is the bound of the paper's Theorem 3: Alpha with 4 rate in place of rate/8. The rate
// sqrt(ln(candidates)/rounds)/2 minimizes it.
func AlphaOfPaper(candidates, rounds int, rate, loss float64) float64 {
	return 4*rate + explored(candidates, rounds, rate) + loss
}

// explored is the loss of the weights while they are still nearly uniform.
func explored(candidates, rounds int, rate float64) float64 {
	if candidates <= 1 {
		return 0
	}
	return math.Log(float64(candidates)) / (rate * float64(rounds))
}

// SelectionLoss bounds the loss of selections by the exponential mechanism in every round, with probability
// 1-beta over all rounds:
//
//	2 ln(discriminators rounds / beta) / (records epsilon)
//
// Epsilon is that of one selection. records is the public number that divides the sum of scores, so that a
// record changes U by at most 1/records. A discriminator that is worse than the best by x is selected with
// probability at most exp(-x epsilon records / 2) (McSherry and Talwar 2007); the rest is a union bound.
func SelectionLoss(discriminators, rounds int, records, epsilon, beta float64) float64 {
	return 2 * math.Log(float64(discriminators)*float64(rounds)/beta) / (records * epsilon)
}

// Gap is how far average plays are from an equilibrium, for the discriminators' mean scores of real records:
// max_j U(weights, D_j) - min U(phi, mixture) over weights phi that the classes allow. It is at least 0, up to
// rounding; neither player gains more than that by another play. It is NOT PRIVATE: real has true means. It
// returns an error if plays or means are of another game.
func (g *Game) Gap(real []float64, p *Plays) (float64, error) {
	if len(real) != len(g.scores) || len(p.Mixture) != len(g.scores) || len(p.Weights) != g.candidates {
		return 0, fmt.Errorf("pgb: %d means and plays of %d discriminators and %d candidates in a game of %d and %d",
			len(real), len(p.Mixture), len(p.Weights), len(g.scores), g.candidates)
	}
	worst, mixed := math.Inf(-1), 0.0
	for j, row := range g.scores {
		worst = math.Max(worst, real[j]+1-dot(p.Weights, row))
		mixed += p.Mixture[j] * real[j]
	}
	scores := p.Mixed(g.scores)
	best := mixed + 1
	for _, members := range g.strata {
		most := 0.0
		for _, b := range members {
			most = math.Max(most, scores[b])
		}
		best -= most * float64(len(members)) / float64(g.candidates)
	}
	return worst - best, nil
}
