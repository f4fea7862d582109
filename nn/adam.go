package nn

import "math"

// Adam is the optimizer of Kingma and Ba 2015 with decoupled weight decay
// (Loshchilov and Hutter 2019). Its zero moments are corrected for bias.
type Adam struct {
	Rate, Beta1, Beta2, Epsilon, Decay float64

	params []Param
	m, v   [][]float32
	step   int
}

// NewAdam returns an optimizer for params with beta1, beta2 as usual for GANs
// (0.5, 0.9).
func NewAdam(params []Param, rate float64) *Adam {
	return &Adam{Rate: rate, Beta1: 0.5, Beta2: 0.9, Epsilon: 1e-8, params: params, m: moment(params), v: moment(params)}
}

// Step moves the parameters against their gradients and clears these.
func (a *Adam) Step() {
	a.step++
	c1 := 1 - math.Pow(a.Beta1, float64(a.step))
	c2 := 1 - math.Pow(a.Beta2, float64(a.step))
	rate := float32(a.Rate / c1)
	b1, b2 := float32(a.Beta1), float32(a.Beta2)
	decay := float32(1 - a.Rate*a.Decay)
	root := float32(1 / math.Sqrt(c2))
	eps := float32(a.Epsilon)
	for i, p := range a.params {
		m, v := a.m[i], a.v[i]
		for j, g := range p.Grad {
			m[j] = b1*m[j] + (1-b1)*g
			v[j] = b2*v[j] + (1-b2)*g*g
			p.Value[j] = decay*p.Value[j] - rate*m[j]/(sqrt32(v[j])*root+eps)
			p.Grad[j] = 0
		}
	}
}

// State lists the optimizer's tensors for a checkpoint, with SetSteps and Steps
// for its counter.
func (a *Adam) State() []Param {
	var ps []Param
	for i, p := range a.params {
		ps = append(ps,
			Param{Name: p.Name + ".m", Shape: p.Shape, Value: a.m[i]},
			Param{Name: p.Name + ".v", Shape: p.Shape, Value: a.v[i]})
	}
	return ps
}

// Steps returns the number of steps taken.
func (a *Adam) Steps() int { return a.step }

// SetSteps restores the number of steps taken.
func (a *Adam) SetSteps(n int) { a.step = n }

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
