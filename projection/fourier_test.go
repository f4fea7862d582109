package projection

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Products of features approximate the Gaussian kernel.
func TestFourierFeaturesApproximateTheKernel(t *testing.T) {
	const d, count, spread = 6, 20000, 0.7
	f, err := NewFourier(d, count, spread, 1, 3)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	x := draw(rng, 10*d)
	y := make([]float32, 10*count)
	f.Project(y, x, 10)
	for i := range 10 {
		a := y[i*count : (i+1)*count]
		for j := range i + 1 {
			var squares float64
			for k := range d {
				squares += math.Pow(float64(x[i*d+k]-x[j*d+k]), 2)
			}
			want := math.Exp(-squares * spread * spread / 2)
			// A product is a mean of 20,000 numbers within [-2, 2], of variance below 1: 5
			// standard deviations are 0.036.
			if got := dot(a, y[j*count:(j+1)*count]); math.Abs(got-want) > 0.036 {
				t.Errorf("records %d and %d: %v, the kernel is %v", i, j, got, want)
			}
		}
		if norm := math.Sqrt(dot(a, a)); norm > math.Sqrt2 {
			t.Errorf("record %d: norm %v", i, norm)
		}
	}
}

// Slopes are those of differences, and the seed gives the features.
func TestFourierSlopes(t *testing.T) {
	const d, count = 4, 30
	f, err := NewFourier(d, count, 1, 3, 5)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(2, 2))
	x, up := draw(rng, 2*d), draw(rng, 2*count)
	value := func() float64 {
		y := make([]float32, 2*count)
		f.Project(y, x, 2)
		return dot(y, up)
	}
	dx := make([]float32, 2*d)
	f.Slope(dx, slices.Clone(up), x, 2)
	for i := range x {
		const h = 1e-2
		old := x[i]
		x[i] = old + h
		above := value()
		x[i] = old - h
		below := value()
		x[i] = old
		if want := (above - below) / (2 * h); math.Abs(want-float64(dx[i])) > 0.02 {
			t.Errorf("number %d: slope %v, differences say %v", i, dx[i], want)
		}
	}
	again, _ := NewFourier(d, count, 1, 3, 5)
	other, _ := NewFourier(d, count, 1, 3, 6)
	if !slices.Equal(f.matrix.Data, again.matrix.Data) || slices.Equal(f.matrix.Data, other.matrix.Data) ||
		slices.Equal(f.phase, other.phase) {
		t.Error("features do not follow from the seed")
	}
	for _, c := range []struct {
		features, count int
		spread, weight  float64
	}{{0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, math.NaN()}, {1 << 20, 1 << 17, 1, 1}} {
		if _, err := NewFourier(c.features, c.count, c.spread, c.weight, 1); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// Pieces tell every place of [0, 1] apart, within their bound, and slopes are those of
// differences inside a piece.
func TestPieces(t *testing.T) {
	var before [PieceCount]float32
	up := draw(rand.New(rand.NewPCG(3, 3)), PieceCount)
	for i := range 1001 {
		v := float32(i) / 1000
		var y, above [PieceCount]float32
		Pieces(y[:], v)
		if norm := math.Sqrt(dot(y[:], y[:])); norm > math.Sqrt(float64(PieceCount))/4+1e-6 {
			t.Fatalf("%v: norm %v", v, norm)
		}
		if i > 0 && y == before {
			t.Fatalf("%v looks as the number before", v)
		}
		before = y
		const h = 1e-4
		Pieces(above[:], v+h)
		inside := !slices.ContainsFunc(knots[:], func(k float32) bool { return k >= v-h && k <= v+2*h })
		if want := (dot(above[:], up) - dot(y[:], up)) / h; inside &&
			math.Abs(want-float64(PiecesSlope(up, v))) > 0.1+0.02*math.Abs(want) {
			t.Errorf("%v: slope %v, differences say %v", v, PiecesSlope(up, v), want)
		}
	}
}
