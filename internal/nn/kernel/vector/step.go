package vector

import "math"

// AdamStep holds the numbers of a step of [Adam]. Corrections divide the moments,
// which begin at 0 and would else be too small; 0 stands for 1, none. Epsilon must
// be at least 2^-126, the least normal number.
type AdamStep struct {
	Rate, Beta1, Beta2, Epsilon float64
	Decay                       float64 // of weights, decoupled, times Rate
	Correction1, Correction2    float64
}

// At returns s with the corrections of step t. The first step is 1.
func (s AdamStep) At(t int) AdamStep {
	s.Correction1 = 1 - math.Pow(s.Beta1, float64(t))
	s.Correction2 = 1 - math.Pow(s.Beta2, float64(t))
	return s
}

// Adam takes a step of Adam (Kingma and Ba 2015) with decoupled weight decay
// (Loshchilov and Hutter 2019) from weights w against their gradient g:
//
//	m = Beta1 m + (1-Beta1) g
//	v = Beta2 v + (1-Beta2) g^2
//	w = (1-Rate Decay) w - Rate/Correction1 m / (sqrt(v/Correction2) + Epsilon)
//
// Operations round to float32, the quotient within 2 ulp. Where g squared
// overflows, v is Inf from then on and only decay moves w; where g is NaN or
// infinite, w becomes NaN.
func Adam(w, m, v, g []float32, s AdamStep) {
	sameLength("Adam", len(w), len(m))
	sameLength("Adam", len(w), len(v))
	sameLength("Adam", len(w), len(g))
	rate, root := s.Rate, 1.0
	if s.Correction1 != 0 {
		rate /= s.Correction1
	}
	if s.Correction2 != 0 {
		root = 1 / math.Sqrt(s.Correction2)
	}
	adam(w, m, v, g, &[8]float32{
		float32(s.Beta1), float32(1 - s.Beta1), float32(s.Beta2), float32(1 - s.Beta2),
		float32(root), float32(s.Epsilon), float32(1 - s.Rate*s.Decay), float32(rate),
	})
}

// SGDStep holds the numbers of a step of [SGD].
type SGDStep struct {
	Rate, Momentum float64
	Decay          float64 // of weights, decoupled, times Rate
}

// SGD takes a step of stochastic gradient descent from weights w against their
// gradient g:
//
//	m = Momentum m + g
//	w = (1-Rate Decay) w - Rate m
//
// A nil m stands for a Momentum of 0: m is g.
func SGD(w, m, g []float32, s SGDStep) {
	sameLength("SGD", len(w), len(g))
	keep, rate := float32(1-s.Rate*s.Decay), float32(s.Rate)
	if m == nil {
		if s.Momentum != 0 {
			panic("vector: SGD with momentum, but without a place for it")
		}
		sgd(w, g, keep, rate)
		return
	}
	sameLength("SGD", len(w), len(m))
	momentum(w, m, g, keep, rate, float32(s.Momentum))
}
