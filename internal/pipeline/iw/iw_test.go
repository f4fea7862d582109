package iw

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const schemaText = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: z, kind: continuous, lower: 0, upper: 1}
  - {name: c, kind: categorical, categories: [p, q, r]}
  - {name: y, kind: categorical, categories: [no, yes]}
label: y
`

// squareText is a schema of two numbers without a label.
const squareText = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: z, kind: continuous, lower: 0, upper: 1}
`

func encoderOf(t testing.TB, text string) *encode.Encoder {
	t.Helper()
	s := partitiontest.Schema(t, text)
	return encode.New(s)
}

// tableRows are encoded rows of schemaText.
func tableRows(n int, seed uint64) (x []float32, classes []int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		row := make([]float32, 5)
		row[0], row[1] = rng.Float32(), 0.5+0.01*rng.Float32()
		row[2+rng.IntN(3)] = 1
		x, classes = append(x, row...), append(classes, rng.IntN(4)/3)
	}
	return x, classes
}

// Numbers have mean 0 and deviation 1 on the rows that the features were made from, choices and classes mean 0
// and steps of 1. 95 in 100 rows keep their length, and none is longer than the clip.
func TestFeaturesAreInUnitsOfTheRows(t *testing.T) {
	const n = 2000
	e := encoderOf(t, schemaText)
	x, classes := tableRows(n, 1)
	for _, squares := range []bool{false, true} {
		f, spec, err := NewFeatures(e, x, classes, 2, FeatureOptions{Squares: squares, Clip: 1e6})
		testkit.Must(t, err)
		want := 1 + 5 + 2
		if squares {
			want += 2
		}
		if f.Width() != want || len(spec.Mean) != 7 {
			t.Fatalf("width %d, %d means", f.Width(), len(spec.Mean))
		}
		v := Vectors(f, x, classes)
		for j := range 8 {
			var mean, square float64
			values := map[float64]bool{}
			for i := range n {
				mean += v[i*want+j] / n
				square += v[i*want+j] * v[i*want+j] / n
				values[math.Round(v[i*want+j]*1e4)/1e4] = true
			}
			switch {
			case j == 0:
				if math.Abs(mean-1) > 1e-9 || math.Abs(square-1) > 1e-9 {
					t.Errorf("the constant has mean %v", mean)
				}
			case math.Abs(mean) > 1e-4:
				t.Errorf("feature %d has mean %v", j, mean)
			case j == 1 && math.Abs(square-1) > 1e-4:
				t.Errorf("feature %d has mean square %v", j, square)
			case j == 2 && (square > 0.05 || square < 0.01): // all but constant: in units of 0.02 at least
				t.Errorf("feature %d has mean square %v", j, square)
			case j > 2 && len(values) != 2:
				t.Errorf("feature %d has %d values", j, len(values))
			}
		}
		f, spec, err = NewFeatures(e, x, classes, 2, FeatureOptions{Squares: squares})
		testkit.Must(t, err)
		v, cut := Vectors(f, x, classes), 0
		for i := range n {
			length := 0.0
			for _, a := range v[i*want : (i+1)*want] {
				length = math.Hypot(length, a)
			}
			if length > spec.Clip*(1+1e-12) {
				t.Fatalf("row %d has length %v, clip %v", i, length, spec.Clip)
			}
			if v[i*want] < 1 { // the constant, of rows that were not cut
				cut++
			}
		}
		if cut > n*5/100 || cut == 0 {
			t.Errorf("%d of %d rows were cut", cut, n)
		}
	}
}

func TestFeaturesThatCannotBe(t *testing.T) {
	e := encoderOf(t, schemaText)
	x, classes := tableRows(10, 1)
	for name, f := range map[string]func() error{
		"no rows":    func() error { _, _, err := NewFeatures(e, nil, nil, 2, FeatureOptions{}); return err },
		"half a row": func() error { _, _, err := NewFeatures(e, x[1:], classes, 2, FeatureOptions{}); return err },
		"clip below 0": func() error {
			_, _, err := NewFeatures(e, x, classes, 2, FeatureOptions{Clip: -1})
			return err
		},
		"clip of NaN": func() error {
			_, _, err := NewFeatures(e, x, classes, 2, FeatureOptions{Clip: math.NaN()})
			return err
		},
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	alike := make([]float32, 5*4)
	f, _, err := NewFeatures(e, alike, make([]int, 4), 2, FeatureOptions{})
	if err != nil || f.Clip() < 1 {
		t.Errorf("rows that are all alike: %v", err)
	}
}

// The chosen regularization leaves noise of about the promised deviation on the log-weight of a record of the
// clip norm: 2,000 draws each, the same in every run. With other draws the mean square would be within 6
// sqrt((kurtosis-1)/2000) of its expectation, up to a chance below 1e-8 (nearly normal by then; the kurtosis is
// at most 6, for Laplace noise on one coordinate).
func TestLambdaLeavesThePromisedNoise(t *testing.T) {
	const clip, n, draws = 3., 500., 2000
	for _, width := range []int{2, 9, 30} {
		direction := make([]float64, width)
		for i := range direction {
			direction[i] = clip / math.Sqrt(float64(width))
		}
		for kind, cost := range map[ratio.NoiseKind]float64{ratio.Gaussian: 4, ratio.Laplace: 0.7,
			ratio.NormGamma: 0.7} {
			if kind == ratio.NormGamma && width > 9 {
				continue // drawing it is slow
			}
			src := gnmax.NewSourceFrom(rand.NewChaCha8([32]byte{1}))
			lambda := Lambda(kind, cost, clip, n, width)
			w, err := ratio.NewWanted(ratio.Problem{Synthetic: direction, Width: width, Clip: clip * (1 + 1e-9),
				Lambda: lambda, Records: n})
			testkit.Must(t, err)
			draw := func(zeros []int64) ([]int64, error) { return gnmax.LaplaceCounts(src, zeros, w.L1, cost) }
			switch kind {
			case ratio.Gaussian:
				sum, err := gnmax.NewGaussianSum(w.L2, cost)
				testkit.Must(t, err)
				draw = func(zeros []int64) ([]int64, error) { return sum.Release(src, zeros) }
			case ratio.NormGamma:
				gamma, err := gnmax.NewNormGamma(cost, w.L2, width)
				testkit.Must(t, err)
				draw = func(zeros []int64) ([]int64, error) { return gamma.Release(src, zeros) }
			}
			square := 0.0
			for range draws {
				noise, err := draw(make([]int64, width))
				testkit.Must(t, err)
				score := 0.0
				for i, v := range w.Lattice.Values(noise) {
					score += v * direction[i]
				}
				square += score * score / draws
			}
			// Norm-Gamma noise has a squared length of d(d+1) scale² in the mean, so a deviation
			// of sqrt(d+1) along any direction.
			if relative := square / (wobble * wobble); math.Abs(relative-1) > 0.01+6*math.Sqrt(5./draws) {
				t.Errorf("%v, width %d: deviation %v on the log-weight, want %v", kind, width, math.Sqrt(square),
					wobble)
			}
		}
	}
	if got := Lambda(ratio.None, 0, clip, n, 5); got != 1/n {
		t.Errorf("without noise lambda is %v", got)
	}
}

// exact answers with the mean gradient of real rows, with noise on request.
type exact struct {
	t     *testing.T
	net   *discriminator.Discriminator
	x     []float32
	steps int
	share float64
	noise func() float32
	seen  [][]float32
}

func (o *exact) Gradient(_ context.Context, step int, q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer,
	error) {
	if step != o.steps {
		o.t.Errorf("step %d was asked after %d", step, o.steps)
	}
	o.steps++
	o.seen = append(o.seen, q.Weights)
	if err := o.net.SetWeights(q.Weights); err != nil {
		return nil, err
	}
	spec := o.net.Spec()
	units, err := scaling.FromUnits(q.Mean, q.Scale, spec.Features, spec.Classes, spec.Numbers)
	if err != nil {
		return nil, err
	}
	o.net.SetUnits(units)
	n := len(o.x) / spec.Features
	grad := make([]float32, n)
	losses.Logistic(grad, o.net.Scores(o.x, make([]int, n)), true)
	o.net.Backward(grad)
	a := &pipeline.DiscriminatorAnswer{Share: o.share}
	for _, p := range o.net.Net.Params() {
		for _, g := range p.Grad {
			v := g * float32(o.share)
			if o.noise != nil {
				v += o.noise()
			}
			a.Sum = append(a.Sum, v)
		}
		clear(p.Grad)
	}
	return a, nil
}

// square are rows uniform on the unit square, or on its lower triangle.
func square(n int, triangle bool, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	var x []float32
	for len(x) < 2*n {
		if a, b := rng.Float32(), rng.Float32(); !triangle || a+b <= 1 {
			x = append(x, a, b)
		}
	}
	return x
}

// train trains a network on synthetic rows against real ones, whose gradients are means.
func train(t *testing.T, synthetic, real []float32, o NetworkOptions, share float64, noise func() float32) (*Network,
	*exact) {
	t.Helper()
	net, err := NewNetwork(encoderOf(t, squareText), synthetic, make([]int, len(synthetic)/2), 1, o, 1)
	testkit.Must(t, err)
	other, err := discriminator.New(net.Spec(), rand.New(rand.NewPCG(0, 0)))
	testkit.Must(t, err)
	oracle := &exact{t: t, net: other, x: real, share: share, noise: noise}
	done := 0
	testkit.Must(t, net.Run(t.Context(), oracle, func(d, steps int) {
		if done++; d != done || steps != o.Steps {
			t.Errorf("progress %d of %d", d, steps)
		}
	}))
	return net, oracle
}

// The paper's toy: synthetic rows are uniform on the unit square, real ones on its lower triangle. Without
// noise a network gives the triangle's rows the log-ratio log 2 and removes the weight of the others, so that
// the weighted mean is the triangle's, 1/3. Seeds are fixed.
func TestANetworkLearnsTheTriangle(t *testing.T) {
	const n = 2000
	synthetic, real := square(n, false, 1), square(n, true, 2)
	for _, share := range []float64{1, 0.4} { // of the teachers, which makes the sum smaller
		net, _ := train(t, synthetic, real, NetworkOptions{Hidden: 16, Rate: 1, Steps: 300, Clip: 1, StepSize: 0.03,
			Records: 1}, share, nil)
		odds, err := net.LogOdds()
		if err != nil || len(odds) != n {
			t.Fatalf("%d log-odds, %v", len(odds), err)
		}
		var inside, outside, mean, total float64
		for i, o := range odds {
			w, x := math.Exp(o), float64(synthetic[2*i])
			mean, total = mean+w*x, total+w
			if synthetic[2*i]+synthetic[2*i+1] <= 1 {
				inside += w
			} else {
				outside += w
			}
		}
		if mean /= total; math.Abs(mean-1./3) > 0.02 {
			t.Errorf("share %v: the weighted mean is %v, want 1/3", share, mean)
		}
		if outside > 0.08*inside || math.Abs(total/n-1) > 0.1 {
			t.Errorf("share %v: weight %v inside, %v outside, of %v", share, inside, outside, total)
		}
	}
}

// A logistic regression can represent the log-ratio of two Gaussians of equal deviation: it is linear, with a
// slope of shift over variance. Rows in the middle are within 0.35 of it, after noise of a tenth of the
// gradient has averaged out over the steps.
func TestANetworkLearnsALogRatio(t *testing.T) {
	const n, sd, shift = 4000, 0.1, 0.08
	gaussian := func(mean float64, seed uint64) (x []float32) {
		rng := rand.New(rand.NewPCG(seed, 5))
		for range n {
			x = append(x, float32(mean+sd*rng.NormFloat64()), rng.Float32())
		}
		return x
	}
	synthetic, real := gaussian(0.45, 1), gaussian(0.45+shift, 2)
	rng := rand.New(rand.NewPCG(9, 9))
	noise := func() float32 { return float32(0.05 * rng.NormFloat64()) }
	net, _ := train(t, synthetic, real, NetworkOptions{Rate: 1, Steps: 300, Clip: 1, StepSize: 0.03, Records: 1}, 1,
		noise)
	odds, err := net.LogOdds()
	testkit.Must(t, err)
	worst := 0.0
	for i, o := range odds {
		x := float64(synthetic[2*i])
		if math.Abs(x-0.45) < sd {
			worst = max(worst, math.Abs(o-shift/(sd*sd)*(x-0.45-shift/2)))
		}
	}
	if worst > 0.35 {
		t.Errorf("a log-ratio is off by %v", worst)
	}
}

// The result is the mean of the weights after the steps of the second half. The weights after each step but the
// last are those of the next question.
func TestTheSecondHalfIsAveraged(t *testing.T) {
	synthetic, real := square(200, false, 1), square(200, true, 2)
	for _, steps := range []int{1, 2, 7} {
		o := NetworkOptions{Hidden: 3, Rate: 1, Steps: steps, Clip: 1, StepSize: 0.1, Records: 1}
		net, _ := train(t, synthetic, real, o, 1, nil)
		o.Steps = 2*steps + 2 // it begins alike, and shows the weights after each step
		_, longer := train(t, synthetic, real, o, 1, nil)
		got := net.net.Weights()
		for i, w := range got {
			want := 0.0
			for step := steps / 2; step < steps; step++ {
				want += float64(longer.seen[step+1][i]) / float64(steps-steps/2)
			}
			if math.Abs(float64(w)-want) > 1e-6 {
				t.Fatalf("%d steps, weight %d: %v, want %v", steps, i, w, want)
			}
		}
	}
}

type broken struct{ answer *pipeline.DiscriminatorAnswer }

var errBroken = errors.New("the wire is cut")

func (b broken) Gradient(context.Context, int, *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error) {
	if b.answer == nil {
		return nil, errBroken
	}
	return b.answer, nil
}

// Failures are reported.
func TestNetworksThatFail(t *testing.T) {
	e, o := encoderOf(t, squareText), NetworkOptions{Hidden: 4, Rate: 1, Steps: 3, Clip: 1, StepSize: 0.1, Records: 1}
	synthetic := square(50, false, 1)
	fresh := func() *Network {
		net, err := NewNetwork(e, synthetic, make([]int, 50), 1, o, 1)
		testkit.Must(t, err)
		return net
	}
	if err := fresh().Run(t.Context(), broken{}, nil); !errors.Is(err, errBroken) {
		t.Errorf("a broken oracle: %v", err)
	}
	if err := fresh().Run(t.Context(), broken{&pipeline.DiscriminatorAnswer{Share: 1, Sum: make([]float32, 3)}},
		nil); err == nil || !strings.Contains(err.Error(), "3 numbers for") {
		t.Errorf("a short release: %v", err)
	}
	net := fresh()
	sum := make([]float32, net.net.Parameters())
	sum[0] = float32(math.NaN())
	if err := net.Run(t.Context(), broken{&pipeline.DiscriminatorAnswer{Share: 1, Sum: sum}}, nil); !errors.Is(err,
		pipeline.ErrDiverged) {
		t.Errorf("weights that are no numbers: %v", err)
	}
	if _, err := NewNetwork(e, synthetic[1:], make([]int, 50), 1, o, 1); err == nil {
		t.Error("half a row was taken")
	}
}
