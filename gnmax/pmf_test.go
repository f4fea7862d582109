package gnmax

import (
	"math"
	"math/big"
)

// rat is the scale as a fraction.
func (s Scale) rat() *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(s.num), new(big.Int).SetUint64(s.den))
}

// pmf is a distribution on whole numbers: mass[i] is the probability of from+i.
type pmf struct {
	from int
	mass []float64
}

// gaussianPMF is the discrete Gaussian of variance parameter v, cut off at reach.
func gaussianPMF(v, reach float64) pmf {
	return symmetricPMF(int(reach), func(x float64) float64 { return math.Exp(-x * x / (2 * v)) })
}

// laplacePMF is the discrete Laplace distribution of the given scale; it cuts off less than 1e-17.
func laplacePMF(scale float64) pmf {
	return symmetricPMF(int(40*scale)+2, func(x float64) float64 { return math.Exp(-math.Abs(x) / scale) })
}

func symmetricPMF(reach int, weight func(x float64) float64) pmf {
	f := pmf{from: -reach, mass: make([]float64, 2*reach+1)}
	for i := range f.mass {
		f.mass[i] = weight(float64(i - reach))
	}
	total := f.total()
	for i := range f.mass {
		f.mass[i] /= total
	}
	return f
}

func (f pmf) at(x int) float64 {
	if x < f.from || x >= f.from+len(f.mass) {
		return 0
	}
	return f.mass[x-f.from]
}

func (f pmf) total() float64 {
	sum := 0.0
	for _, m := range f.mass {
		sum += m
	}
	return sum
}

// moment is the mean of x^k.
func (f pmf) moment(k float64) float64 {
	sum := 0.0
	for i, m := range f.mass {
		sum += m * math.Pow(float64(f.from+i), k)
	}
	return sum
}

// plus is the distribution of F + factor G.
func (f pmf) plus(g pmf, factor int) pmf {
	low, high := factor*g.from, factor*(g.from+len(g.mass)-1)
	low, high = min(low, high), max(low, high)
	sum := pmf{from: f.from + low, mass: make([]float64, len(f.mass)+high-low)}
	for j, m := range g.mass {
		offset := factor*(g.from+j) - low
		for i, other := range f.mass {
			sum.mass[offset+i] += m * other
		}
	}
	return sum
}

// above returns P[X >= x] for every x from the first to one past the last.
func (f pmf) above() func(x int) float64 {
	tails := make([]float64, len(f.mass)+1)
	for i := len(f.mass) - 1; i >= 0; i-- {
		tails[i] = tails[i+1] + f.mass[i]
	}
	return func(x int) float64 { return tails[max(0, min(len(f.mass), x-f.from))] }
}
