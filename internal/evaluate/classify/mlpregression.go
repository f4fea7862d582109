package classify

// MLPRegression is a multi-layer perceptron for numbers: [MLP] with the squared loss of the
// target in standard deviations, MLPRegressor of scikit-learn on a scaled target.
type MLPRegression struct {
	net         *MLP
	mean, scale float64
}

// NewMLPRegression returns a multi-layer perceptron. Its result depends on nothing but the
// rows, the seed and the machine's kind of processor.
func NewMLPRegression(o MLPOptions) *MLPRegression { return &MLPRegression{net: NewMLP(o)} }

// Name is "multi-layer perceptron".
func (m *MLPRegression) Name() string { return m.net.Name() }

// Fit trains the network.
func (m *MLPRegression) Fit(t Targets) error {
	return m.net.train(func() (training, error) {
		n, err := t.prepare()
		m.mean, m.scale = n.mean, n.scale
		return n.training, err
	}, func(score, label float64) float64 { return score - label })
}

// Predict gives the network's outputs.
func (m *MLPRegression) Predict(x Matrix) ([]float64, error) {
	values, err := m.net.Score(x)
	if err != nil {
		return nil, err
	}
	return unscaled(values, m.mean, m.scale), nil
}
