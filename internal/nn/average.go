package nn

import "github.com/conclave-dp/conclave/internal/nn/kernel/vector"

// Average keeps an exponential moving average of a network's weights. Early
// steps use a shorter memory, so that the random start is soon forgotten.
type Average struct {
	Decay float64
	net   *Network
	steps int
}

// NewAverage starts an average at the weights of net.
func NewAverage(net *Network, decay float64) *Average {
	return &Average{Decay: decay, net: net.Clone()}
}

// Update moves the average towards the weights of net.
func (a *Average) Update(net *Network) {
	a.steps++
	keep := float32(min(a.Decay, float64(1+a.steps)/float64(10+a.steps)))
	from := net.Params()
	for i, p := range a.net.Params() {
		vector.Lerp(p.Value, from[i].Value, keep)
	}
}

// Model returns the averaged network. It changes with the next Update.
func (a *Average) Model() *Network { return a.net }

// Steps returns the number of updates; SetSteps restores it.
func (a *Average) Steps() int { return a.steps }

// SetSteps restores the number of updates.
func (a *Average) SetSteps(n int) { a.steps = n }
