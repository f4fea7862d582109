package nn

// SGD is gradient descent with momentum (0 for none) and decoupled weight decay:
// m = Momentum m + g, w = (1 - Rate Decay) w - Rate m.
type SGD struct {
	Rate, Momentum, Decay float64

	params []Param
	m      [][]float32
	step   int
}

// NewSGD returns an optimizer for params without momentum.
func NewSGD(params []Param, rate float64) *SGD {
	return &SGD{Rate: rate, params: params, m: moment(params)}
}

// Step moves the parameters against their gradients and clears these.
func (s *SGD) Step() {
	s.step++
	rate, momentum, keep := float32(s.Rate), float32(s.Momentum), float32(1-s.Rate*s.Decay)
	for i, p := range s.params {
		m, w := s.m[i], p.Value
		for j, g := range p.Grad {
			m[j] = momentum*m[j] + g
			w[j] = keep*w[j] - rate*m[j]
		}
		clear(p.Grad)
	}
}

// State lists the optimizer's tensors for a checkpoint.
func (s *SGD) State() []Param { return states(s.params, ".m", s.m) }

// Steps returns the number of steps taken.
func (s *SGD) Steps() int { return s.step }

// SetSteps restores the number of steps taken.
func (s *SGD) SetSteps(n int) { s.step = n }
