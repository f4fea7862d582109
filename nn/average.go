package nn

// Average keeps an exponential moving average of a network's weights. Early
// steps use a shorter memory, so that the random start is soon forgotten.
type Average struct {
	Decay float64
	model *MLP
	steps int
}

// NewAverage starts an average at the weights of m.
func NewAverage(m *MLP, decay float64) *Average {
	return &Average{Decay: decay, model: m.Clone()}
}

// Update moves the average towards the weights of m.
func (a *Average) Update(m *MLP) {
	a.steps++
	decay := min(a.Decay, float64(1+a.steps)/float64(10+a.steps))
	keep, add := float32(decay), float32(1-decay)
	from := m.Params()
	for i, p := range a.model.Params() {
		for j := range p.Value {
			p.Value[j] = keep*p.Value[j] + add*from[i].Value[j]
		}
	}
}

// Model returns the averaged network. It changes with the next Update.
func (a *Average) Model() *MLP { return a.model }

// Steps returns the number of updates; SetSteps restores it.
func (a *Average) Steps() int { return a.steps }

// SetSteps restores the number of updates.
func (a *Average) SetSteps(n int) { a.steps = n }
