package nn

import "github.com/conclave-dp/conclave/nn/kernel"

// Model is a network whose weights can be averaged: [MLP] or [Network].
type Model[M any] interface {
	Params() []Param
	Clone() M
}

// Average keeps an exponential moving average of an MLP's weights.
type Average = AverageOf[*MLP]

// AverageOf keeps an exponential moving average of a network's weights. Early
// steps use a shorter memory, so that the random start is soon forgotten.
type AverageOf[M Model[M]] struct {
	Decay  float64
	model  M
	params []Param
	steps  int
}

// NewAverage starts an average at the weights of m.
func NewAverage[M Model[M]](m M, decay float64) *AverageOf[M] {
	model := m.Clone()
	return &AverageOf[M]{Decay: decay, model: model, params: model.Params()}
}

// Update moves the average towards the weights of m.
func (a *AverageOf[M]) Update(m M) {
	a.steps++
	keep := float32(min(a.Decay, float64(1+a.steps)/float64(10+a.steps)))
	from := m.Params()
	for i, p := range a.params {
		kernel.Lerp(p.Value, from[i].Value, keep)
	}
}

// Model returns the averaged network. It changes with the next Update.
func (a *AverageOf[M]) Model() M { return a.model }

// Steps returns the number of updates; SetSteps restores it.
func (a *AverageOf[M]) Steps() int { return a.steps }

// SetSteps restores the number of updates.
func (a *AverageOf[M]) SetSteps(n int) { a.steps = n }
