package weighted

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// SampleOptions are the settings of a sampler. Zero means the default.
type SampleOptions struct {
	Seed   uint64 // default 1
	BurnIn int    // draws left out at the start; default 200
}

// Draws are dependent draws from a posterior.
type Draws struct {
	Theta [][]float64
	// Accepted is the share of accepted proposals. Near 1 the draws are almost independent; below about 0.2
	// take many more of them.
	Accepted float64
}

// proposalFreedom are the degrees of freedom of the proposals. Their tails are heavier
// than the posterior's, which are at most the prior's normal ones, so that the ratio of
// the two is bounded and the chain converges geometrically (Mengersen and Tweedie 1996).
const proposalFreedom = 5

// Sample draws n coefficients from the posterior by an independence Metropolis chain (Tierney 1994). Its
// proposals have a multivariate t distribution around the mode with the Laplace approximation's covariance. The
// same seed gives the same draws. The seed protects nothing: the posterior is computed from released rows.
func (p *LogisticPosterior) Sample(n int, o SampleOptions) (*Draws, error) {
	if n < 1 || o.BurnIn < 0 {
		return nil, fmt.Errorf("sample a posterior: %d draws after %d: draw 1 at least", n, o.BurnIn)
	}
	random := rand.New(rand.NewPCG(cmp.Or(o.Seed, 1), 0xba7e5))
	burn := cmp.Or(o.BurnIn, 200)
	mode := p.Laplace.Mean
	d := len(mode)

	theta := append([]float64(nil), mode...)
	at := p.LogDensity(theta) // minus the log density of the proposal, which is 0 at the mode
	out := &Draws{Theta: make([][]float64, 0, n)}
	trial, z := make([]float64, d), mat.NewVecDense(d, nil)
	accepted := 0
	for k := range burn + n {
		chi, norm := 0.0, 0.0
		for range proposalFreedom {
			v := random.NormFloat64()
			chi += v * v
		}
		for j := range d {
			v := random.NormFloat64() / math.Sqrt(chi/proposalFreedom)
			z.SetVec(j, v)
			norm += v * v
		}
		p.scale.correlate(trial, z)
		for j := range trial {
			trial[j] += mode[j]
		}
		next := p.LogDensity(trial) + float64(proposalFreedom+d)/2*math.Log1p(norm/proposalFreedom)
		if math.Log(random.Float64()) < next-at {
			theta, at = append([]float64(nil), trial...), next
			if k >= burn {
				accepted++
			}
		}
		if k >= burn {
			out.Theta = append(out.Theta, theta)
		}
	}
	out.Accepted = float64(accepted) / float64(n)
	return out, nil
}

// correlate turns independent numbers of unit variance into numbers whose covariance is the inverse of the
// factored matrix: scale times the inverse of the transposed factor times z.
func (f *factored) correlate(dst []float64, z *mat.VecDense) {
	var upper mat.TriDense
	f.chol.UTo(&upper)
	var v mat.VecDense
	_ = v.SolveVec(&upper, z) // the condition was checked
	for j := range dst {
		dst[j] = v.AtVec(j) * f.scale[j]
	}
}

// Mean is the mean of the draws.
func (d *Draws) Mean() []float64 {
	mean := make([]float64, len(d.Theta[0]))
	for _, theta := range d.Theta {
		for j, v := range theta {
			mean[j] += v / float64(len(d.Theta))
		}
	}
	return mean
}

// Quantile is the quantile of one coefficient over the draws.
func (d *Draws) Quantile(coefficient int, q float64) (float64, error) {
	if coefficient < 0 || coefficient >= len(d.Theta[0]) {
		return 0, fmt.Errorf("quantile of draws: there is no coefficient %d of %d", coefficient, len(d.Theta[0]))
	}
	values := make([]float64, len(d.Theta))
	for i, theta := range d.Theta {
		values[i] = theta[coefficient]
	}
	e, err := Quantile(values, nil, q)
	return e.Value, err
}
