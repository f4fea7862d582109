package ratio

import (
	"fmt"
	"math"
)

// MostPasses exceeds the passes of every problem, since lambda is at least LeastLambda.
const MostPasses = 750

// The weights of the two sides of J depend on the number of real units; see [weigh].
const (
	mostReal        = 4
	syntheticWeight = 15.0 / 16
	allWeight       = mostReal + syntheticWeight
)

// weigh is s(N) for N = units, with n the public number of units.
//
// No unit moves the gradient of J further than with s = 1, by Clip/n: with G the sum of N gradients and g one
// more, all of length at most Clip,
//
//	|s(N+1) (G+g) - s(N) G|  <=  Clip (s(N+1) + N (s(N) - s(N+1)))  <=  Clip (s(N) - N s'(N))  <=  Clip
//
// since s falls and is convex; s - N s' is 1 up to N = 8 n, and 8 n/N above. And the weight s(N) N/n of the real
// records is at most 4.
func weigh(units, n float64) float64 {
	if units <= 8*n {
		return 1 - units/(16*n)
	}
	return mostReal * n / units
}

// farthest bounds Clip |b| at the minimizer b of J with penalty mu.
//
// Why: let L be J without penalty. Then mu b = -grad L(b), and L is convex. So mu |b|² is at most -grad L(0).b <=
// |b| Clip allWeight/2. It also equals -grad L(b).b, a sum of terms t/(1+exp(t)), each at most 0.2785, with
// weights that add up to at most allWeight.
func (p Problem) farthest(mu float64) float64 {
	curved := p.Clip * p.Clip * allWeight / mu
	return min(curved/2, math.Sqrt(0.2785*curved))
}

// Passes is the number of passes that [Fit] makes. It follows from public numbers. Problems that are refused, with
// an [ErrSpec], depend on public numbers only as well.
func (p Problem) Passes() (int, error) {
	path, err := p.path()
	return len(path), err
}

// path returns the penalties at which [Fit] makes one step of Newton's method each. They decrease from a penalty
// whose minimizer is near zero to Lambda, slowly enough that the iterates stay near the minimizers for all
// records. This is a short-step path-following method (Nesterov and Nemirovskii 1994), for generalized
// self-concordant functions such as logistic losses (Bach, "Self-concordant analysis for logistic regression",
// 2010; the same scheme in Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for ill-conditioned
// generalized self-concordant losses", 2019).
//
// Proof. Let F be J with the penalty mu, g and H its gradient and Hessian at an iterate b, R
// the length of features, |x|_A² = x'Ax, and
//
//	v = R |g|_{1/H} / sqrt(mu)
//
// which the recursion below bounds. H >= mu, and since no third derivative of l is larger than the
// second,
//
//	exp(-R|h|) H(b)  <=  H(b+h)  <=  exp(R|h|) H(b)                                (1)
//
// A step is p = -H~^-1 (g+e), with |e| <= inexact and H~ between (1-z) H and (1+z) H, z =
// bent. With y = R inexact/mu and w = (v+y)/(1-z), both R|p| and R |p|_H/sqrt(mu) are at most
// w. The gradient at b+p is -e + (H-H~) p + (integral over s in [0,1] of H(b+sp) - H) p, and
// by (1) the integral is between -c H and c H with c = (exp(w)-1-w)/w. By (1) once more H(b+p)
// >= exp(-w) H, so that after the step
//
//	v  <=  exp(w/2) (y + z w + exp(w) - 1 - w)                                     (2)
//
// For the penalty q mu, q < 1, the gradient is g - (1-q) mu b and the Hessian is q H at least,
// and q mu:
//
//	v  <=  (v + (1-q) R|b|) / q                                                    (3)
//
// To bound |b|, let a be the minimizer of F and r = R|b-a|. g is b-a times the mean of H on the line from a to b.
// By (1) that mean is at least (1-exp(-r))/r H; hence
//
//	1 - exp(-r)  <=  v                                                             (4)
//
// and R|b| <= R|a| - log(1-v), where farthest bounds R|a|. So (2) and (3) hold v below aim,
// and at mu = Lambda steps go on until (4) has R|b-a| <= R Tolerance/Lambda.
func (p Problem) path() ([]float64, error) {
	const aim = 0.52 // (2) leaves most room for (3) there
	const slack = 1 + 0x1p-17
	length := p.Clip * (1 + 0x1p-19) // the length of the features that nodes compute
	mu := max(p.Lambda, length*length*allWeight/(2*aim))
	v := length * length * allWeight / (2 * mu) // at zero, as |g| <= length allWeight/2
	enough := -math.Expm1(-p.Clip * p.tolerance() / p.Lambda)
	var path []float64
	for len(path) < MostPasses {
		path = append(path, mu)
		y, z := length*p.inexact()/mu, p.bent()
		w := (v + y) / (1 - z)
		v = math.Exp(w/2) * (y + z*w + math.Expm1(w) - w) * slack
		if mu > p.Lambda {
			far := (p.farthest(mu) - math.Log1p(-v)) * slack
			next := max(p.Lambda, mu*(v+far)/(aim+far))
			v = (v + (1-next/mu)*far) / (next / mu) * slack
			mu = next
		} else if v <= enough {
			return path, nil
		}
	}
	return nil, fmt.Errorf("fit: %w: %d passes may not be enough for lambda %v, clip %v and tolerance %v; use a "+
		"larger lambda, a smaller clip, or dp-mlp", ErrSpec, MostPasses, p.Lambda, p.Clip, p.tolerance())
}
