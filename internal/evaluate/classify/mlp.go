package classify

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
)

// MLPOptions are the settings of the multi-layer perceptron. Zero means the default.
type MLPOptions struct {
	Hidden int    // units; default 100
	Epochs int    // at most; default 200
	Steps  int    // at most, rounded up to whole epochs; default 4000
	Seed   uint64 // default 1
}

const (
	mlpBatch = 200
	mlpRate  = 1e-3
	mlpDecay = 1e-4
)

// MLP is a multi-layer perceptron with one hidden layer of rectified units on
// standardized features, trained by Adam (Kingma and Ba 2015) on the logistic loss:
// MLPClassifier of scikit-learn with its defaults (batches of 200, learning rate
// 0.001, L2 penalty 0.0001), but for a fixed number of epochs in place of a
// rule for stopping.
//
// A row's gradient is multiplied by its weight in units of the mean weight. Where
// all rows fit into a batch, a row of weight 2 is so the same as the row twice but
// for rounding; otherwise it is the same on average over batches, but batches and
// their number differ. Computation is in float32.
type MLP struct {
	options     MLPOptions
	mean, scale []float64
	net         *nn.Network
}

// NewMLP returns a multi-layer perceptron. Its result depends on nothing but the rows,
// the seed and the machine's kind of processor.
func NewMLP(o MLPOptions) *MLP {
	return &MLP{options: MLPOptions{
		Hidden: cmp.Or(o.Hidden, 100), Epochs: cmp.Or(o.Epochs, 200), Steps: cmp.Or(o.Steps, 4000),
		Seed: cmp.Or(o.Seed, 1),
	}}
}

// Name is "multi-layer perceptron".
func (*MLP) Name() string { return "multi-layer perceptron" }

func (o MLPOptions) check() error {
	if o.Hidden < 1 || o.Epochs < 1 || o.Steps < 1 {
		return fmt.Errorf("%d hidden units, %d epochs, %d steps: at least 1 of each is needed", o.Hidden, o.Epochs,
			o.Steps)
	}
	return nil
}

// Fit trains the network.
func (m *MLP) Fit(r Rows) error {
	return m.train(r.prepare, func(score, label float64) float64 { return sigmoid(score) - label })
}

// train fits the network to rows, by the slope of the loss in a row's score.
func (m *MLP) train(prepare func() (training, error), slope func(score, label float64) float64) error {
	if err := m.options.check(); err != nil {
		return fmt.Errorf("multi-layer perceptron: %w", err)
	}
	t, err := prepare()
	if err != nil {
		return fmt.Errorf("multi-layer perceptron: %w", err)
	}
	m.mean, m.scale = t.standardization()
	rng := rand.New(rand.NewPCG(m.options.Seed, 0))
	m.net, err = nn.NewNetwork(rng, nn.Vector(t.x.Cols), nn.Dense{Out: m.options.Hidden}, nn.ReLU, nn.Dense{Out: 1})
	if err != nil {
		return fmt.Errorf("multi-layer perceptron: %w", err)
	}
	adam := optimizer.NewAdam(m.net.Params(), mlpRate)
	adam.Beta1, adam.Beta2 = 0.9, 0.999

	x := m.inputs(t.x)
	batch := min(mlpBatch, t.x.Rows)
	input := make([]float32, batch*t.x.Cols)
	grad := make([]float32, batch)
	steps := (t.x.Rows + batch - 1) / batch
	perWeight := float64(t.x.Rows) / t.total
	for range min(m.options.Epochs, (m.options.Steps+steps-1)/steps) {
		order := rng.Perm(t.x.Rows)
		for start := 0; start < len(order); start += batch {
			rows := order[start:min(start+batch, len(order))]
			for k, i := range rows {
				copy(input[k*t.x.Cols:(k+1)*t.x.Cols], x[i*t.x.Cols:(i+1)*t.x.Cols])
			}
			scores := m.net.Forward(input[:len(rows)*t.x.Cols], len(rows))
			for k, i := range rows {
				share := t.weight[i] * perWeight / float64(len(rows))
				grad[k] = float32(share * slope(float64(scores[k]), t.label[i]))
			}
			m.net.Backward(grad[:len(rows)], true, false)
			for _, p := range m.net.Params() {
				if len(p.Shape) == 2 { // weights, not biases
					for k, v := range p.Value {
						p.Grad[k] += mlpDecay / float32(len(rows)) * v
					}
				}
			}
			adam.Step()
		}
	}
	return nil
}

// inputs standardizes rows. Features far outside the training rows are cut off
// where float32 could overflow.
func (m *MLP) inputs(x Matrix) []float32 {
	out := make([]float32, 0, len(x.Data))
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			v = (v - m.mean[j]) / m.scale[j]
			out = append(out, float32(math.Max(-1e6, math.Min(v, 1e6))))
		}
	}
	return out
}

// Score gives the log odds of the positive class.
func (m *MLP) Score(x Matrix) ([]float64, error) {
	if err := checkScoring(len(m.mean), x); err != nil {
		return nil, fmt.Errorf("multi-layer perceptron: %w", err)
	}
	const piece = 4096 // rows, to bound memory
	scores := make([]float64, 0, x.Rows)
	inputs := m.inputs(x)
	for start := 0; start < x.Rows; start += piece {
		n := min(piece, x.Rows-start)
		for _, z := range m.net.Forward(inputs[start*x.Cols:(start+n)*x.Cols], n) {
			scores = append(scores, float64(z))
		}
	}
	return scores, nil
}

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
