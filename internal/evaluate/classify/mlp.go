package classify

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
)

// The settings of the multi-layer perceptron.
const (
	mlpHidden = 100  // units
	mlpEpochs = 200  // at most
	mlpSteps  = 4000 // at most, rounded up to whole epochs
	mlpBatch  = 200
	mlpRate   = 1e-3
	mlpDecay  = 1e-4
)

const mlpName = "multi-layer perceptron"

// MLP is a multi-layer perceptron with one hidden layer of rectified units on standardized features, trained by
// Adam (Kingma and Ba 2015) on the logistic loss: MLPClassifier of scikit-learn with its defaults (batches of
// 200, learning rate 0.001, L2 penalty 0.0001), except that the number of epochs is fixed and there is no
// stopping rule. Its result depends only on the rows and the machine's kind of processor. Scores are the log
// odds of the positive class.
//
// A row's gradient is multiplied by its weight in units of the mean weight. If all rows fit into a batch, a row
// of weight 2 therefore equals two rows up to rounding. Otherwise it does so only on average over batches, and
// batches and their number differ. Computation is in float32.
func MLP() *Classifier { return mlp(1) }

func mlp(seed uint64) *Classifier {
	return classifier(mlpName, 0, func(t training) (scorer, error) {
		return perceptron(t, seed, func(score, label float64) float64 { return sigmoid(score) - label })
	})
}

// MLPRegression is a multi-layer perceptron for numbers: [MLP] with the squared loss of the
// target in standard deviations, MLPRegressor of scikit-learn on a scaled target.
func MLPRegression() *Regressor {
	return regressor(mlpName, func(t training) (scorer, error) {
		return perceptron(t, 1, func(score, label float64) float64 { return score - label })
	})
}

// perceptron trains a network by the derivative of the loss with respect to a row's score.
func perceptron(t training, seed uint64, slope func(score, label float64) float64) (scorer, error) {
	mean, scale := t.standardization()
	rng := rand.New(rand.NewPCG(seed, 0))
	net, err := nn.NewNetwork(rng, nn.Vector(t.x.Cols), nn.Dense{Out: mlpHidden}, nn.ReLU, nn.Dense{Out: 1})
	if err != nil {
		return nil, err
	}
	adam := optimizer.NewAdam(net.Params(), mlpRate)
	adam.Beta1, adam.Beta2 = 0.9, 0.999

	x := mlpInputs(t.x, mean, scale)
	batch := min(mlpBatch, t.x.Rows)
	input := make([]float32, batch*t.x.Cols)
	grad := make([]float32, batch)
	steps := (t.x.Rows + batch - 1) / batch
	perWeight := float64(t.x.Rows) / t.total
	for range min(mlpEpochs, (mlpSteps+steps-1)/steps) {
		order := rng.Perm(t.x.Rows)
		for start := 0; start < len(order); start += batch {
			rows := order[start:min(start+batch, len(order))]
			for k, i := range rows {
				copy(input[k*t.x.Cols:(k+1)*t.x.Cols], x[i*t.x.Cols:(i+1)*t.x.Cols])
			}
			scores := net.Forward(input[:len(rows)*t.x.Cols], len(rows))
			for k, i := range rows {
				share := t.weight[i] * perWeight / float64(len(rows))
				grad[k] = float32(share * slope(float64(scores[k]), t.label[i]))
			}
			net.Backward(grad[:len(rows)], true, false)
			for _, p := range net.Params() {
				if len(p.Shape) == 2 { // weights, not biases
					for k, v := range p.Value {
						p.Grad[k] += mlpDecay / float32(len(rows)) * v
					}
				}
			}
			adam.Step()
		}
	}
	return func(x Matrix) []float64 {
		const piece = 4096 // rows, to bound memory
		scores := make([]float64, 0, x.Rows)
		inputs := mlpInputs(x, mean, scale)
		for start := 0; start < x.Rows; start += piece {
			n := min(piece, x.Rows-start)
			for _, z := range net.Forward(inputs[start*x.Cols:(start+n)*x.Cols], n) {
				scores = append(scores, float64(z))
			}
		}
		return scores
	}, nil
}

// mlpInputs standardizes rows. Features far outside the training rows are cut off
// where float32 could overflow.
func mlpInputs(x Matrix, mean, scale []float64) []float32 {
	out := make([]float32, 0, len(x.Data))
	for _, v := range standardize(x, mean, scale).Data {
		out = append(out, float32(math.Max(-1e6, math.Min(v, 1e6))))
	}
	return out
}
