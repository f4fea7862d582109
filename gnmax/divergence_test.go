package gnmax

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// outputs holds the exact probabilities of everything that a mechanism may release, on two neighbouring datasets.
type outputs struct{ p, q []float64 }

// divergence is the Rényi divergence of order alpha of p from q.
func (o outputs) divergence(alpha float64) float64 {
	sum := 0.0
	for i, p := range o.p {
		if q := o.q[i]; p > 0 && q > 0 { // one of them is below 1e-300 otherwise
			sum += math.Exp(alpha*math.Log(p) + (1-alpha)*math.Log(q))
		}
	}
	return math.Log(sum) / (alpha - 1)
}

// hockeyStick is the smallest delta with which p is (epsilon, delta)-close to q.
func (o outputs) hockeyStick(epsilon float64) float64 {
	sum := 0.0
	for i, p := range o.p {
		sum += max(0, p-math.Exp(epsilon)*o.q[i])
	}
	return sum
}

// divergenceOrders keep (alpha-1) times a move within the enumerated noise.
var divergenceOrders = []float64{1.05, 1.5, 2, 3, 5, 8}

// violation reports if the outputs are easier to tell apart than the event charges for, in either direction: by Rényi
// divergence, and by every (epsilon, delta) that the accountants with a formula claim. It is nil if they are not.
func (o outputs) violation(e privacy.Event) error {
	const rounding = 1e-9
	for _, o := range []outputs{o, {p: o.q, q: o.p}} {
		for _, alpha := range divergenceOrders {
			charged, err := e.RDP(alpha)
			if err != nil {
				return err
			}
			if d := o.divergence(alpha); !(d <= charged*(1+rounding)+1e-13) {
				return fmt.Errorf("divergence of order %v is %v, charged for %v", alpha, d, charged)
			}
		}
		for _, delta := range []float64{0.05, 1e-3, 1e-7} {
			claim, err := privacy.Running([]privacy.Event{e}, delta)
			if err != nil {
				return err
			}
			for accountant, epsilon := range claim.ByAccountant {
				if epsilon == nil {
					continue
				}
				if h := o.hockeyStick(*epsilon); !(h <= delta*(1+rounding)+1e-14) {
					return fmt.Errorf("%s claims (%v, %v), delta is %v", accountant, *epsilon, delta, h)
				}
			}
		}
	}
	return nil
}

// winnersOf are the probabilities that each noisy count is the largest, equal ones
// by lot. With a place's rivals below x or at x, the lot among m+1 equal ones is
// 1/(m+1), the integral of T^m: a polynomial in T, with one factor per rival.
func winnersOf(counts []int64, noise pmf) []float64 {
	above := noise.above()
	wins := make([]float64, len(counts))
	for j, c := range counts {
		for i, mass := range noise.mass {
			x := int(c) + noise.from + i
			polynomial := []float64{mass}
			for rival, other := range counts {
				if rival == j {
					continue
				}
				below, at := 1-above(x-int(other)), noise.at(x-int(other))
				if below < 0.5 { // by symmetry, without losing digits
					below = above(int(other) - x + 1)
				}
				next := make([]float64, len(polynomial)+1)
				for m, k := range polynomial {
					next[m] += k * below
					next[m+1] += k * at
				}
				polynomial = next
			}
			for m, k := range polynomial {
				wins[j] += k / float64(m+1)
			}
		}
	}
	return wins
}

// movedGaussians is a vector with independent noise, before and after it moves by d. Only N = sum of d_j X_j tells them
// apart: the logarithm of their ratio at x is (|d|² - 2 N)/(2 v), and the move adds |d|² to N.
func movedGaussians(v float64, d []int64) outputs {
	far, squares := int64(0), 0
	for _, dj := range d {
		far, squares = max(far, dj, -dj), squares+int(dj*dj)
	}
	// The divergence of order 8 looks at noise that lies 7 moves away, 9
	// deviations around it. Where N is as far as that, single entries deviate
	// as much again.
	one := gaussianPMF(v, 7*float64(far)+18*math.Sqrt(v)+2)
	n := pmf{mass: []float64{1}}
	for _, dj := range d {
		if dj != 0 {
			n = n.plus(one, int(dj))
		}
	}
	reach := 7*squares + int(9*math.Sqrt(v*float64(squares)))
	var o outputs
	for x := -reach; x <= reach+squares; x++ {
		o.p, o.q = append(o.p, n.at(x)), append(o.q, n.at(x-squares))
	}
	return o
}

// movedLaplaces is the same for Laplace noise: the ratio's logarithm at x is the
// sum of (|x_j-d_j| - |x_j|)/scale, whole numbers between -|d_j| and |d_j|.
func movedLaplaces(scale float64, d []int64) outputs {
	one := laplacePMF(scale)
	n := pmf{mass: []float64{1}}
	for _, dj := range d {
		dj := int(max(dj, -dj))
		loss := pmf{from: -dj, mass: make([]float64, 2*dj+1)}
		for i, mass := range one.mass {
			x := one.from + i
			loss.mass[max(x-dj, dj-x)-max(x, -x)+dj] += mass
		}
		n = n.plus(loss, 1)
	}
	o := outputs{p: n.mass, q: slices.Clone(n.mass)}
	slices.Reverse(o.q) // mirrored at d/2 every loss changes its sign
	return o
}

// then composes two independent releases.
func (o outputs) then(next outputs) outputs {
	var both outputs
	for i := range o.p {
		for j := range next.p {
			both.p, both.q = append(both.p, o.p[i]*next.p[j]), append(both.q, o.q[i]*next.q[j])
		}
	}
	return both
}

// afterThreshold is an unanswered query, or an output of an answer. test holds the probabilities of passing the
// threshold and of failing it.
func afterThreshold(test, answer outputs) outputs {
	o := outputs{p: test.p[1:], q: test.q[1:]}
	for i := range answer.p {
		o.p, o.q = append(o.p, test.p[0]*answer.p[i]), append(o.q, test.q[0]*answer.q[i])
	}
	return o
}
