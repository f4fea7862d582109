package measure

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func gaussian(rng *rand.Rand, rows, cols int, shift, spread float64) *mat.Dense {
	x := mat.NewDense(rows, cols, nil)
	for i := range rows {
		for j := range cols {
			x.Set(i, j, shift+spread*rng.NormFloat64())
		}
	}
	return x
}

func TestFrechet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := gaussian(rng, 500, 6, 0, 1)
	if d, err := Frechet(a, a); err != nil || d > 1e-9 {
		t.Errorf("of equal samples %v, %v", d, err)
	}
	// Shifting by s adds s^2 for each column, scaling by c adds (c-1)^2 times the
	// trace.
	var moved, scaled, cov mat.Dense
	moved.Apply(func(_, _ int, v float64) float64 { return v + 0.5 }, a)
	if d, err := Frechet(a, &moved); err != nil || math.Abs(d-6*0.25) > 1e-9 {
		t.Errorf("shifted by 1/2: %v, %v, want 1.5", d, err)
	}
	centred := mat.DenseCopyOf(a)
	for j := range 6 {
		m := mat.Sum(a.ColView(j)) / 500
		for i := range 500 {
			centred.Set(i, j, a.At(i, j)-m)
		}
	}
	cov.Mul(centred.T(), centred)
	scaled.Scale(3, centred)
	if d, err := Frechet(centred, &scaled); err != nil || math.Abs(d-4*mat.Trace(&cov)/499) > 1e-8 {
		t.Errorf("scaled by 3: %v, %v, want %v", d, err, 4*mat.Trace(&cov)/499)
	}
	b := gaussian(rng, 300, 6, 1, 2)
	ab, _ := Frechet(a, b)
	ba, _ := Frechet(b, a)
	if math.Abs(ab-ba) > 1e-8 || ab < 5 {
		t.Errorf("one way %v, the other %v", ab, ba)
	}
}

func TestFrechetRefuses(t *testing.T) {
	a := mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 7})
	for name, b := range map[string]*mat.Dense{
		"one row": mat.NewDense(1, 2, nil), "other width": mat.NewDense(3, 1, nil),
		"not a number": mat.NewDense(2, 2, []float64{1, math.NaN(), 2, 3}),
	} {
		if _, err := Frechet(a, b); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestClassifierScore(t *testing.T) {
	for name, c := range map[string]struct {
		p    []float64
		want float64
	}{
		"all alike":        {[]float64{0.2, 0.8, 0.2, 0.8}, 1},
		"certain and even": {[]float64{1, 0, 0, 1}, 2},
		"by hand": {[]float64{1, 0, 0.5, 0.5},
			math.Exp((math.Log(1/0.75) + 0.5*math.Log(0.5/0.75) + 0.5*math.Log(0.5/0.25)) / 2)},
	} {
		if got, err := ClassifierScore(mat.NewDense(2, 2, c.p)); err != nil || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	for _, p := range [][]float64{{0.5, 0.6, 1, 0}, {-0.5, 1.5, 1, 0}, {math.NaN(), 0, 1, 0}} {
		if _, err := ClassifierScore(mat.NewDense(2, 2, p)); err == nil {
			t.Errorf("%v was accepted", p)
		}
	}
}
