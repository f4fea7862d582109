package ensemble

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// critics describes models with one hidden layer, or with none.
func critics(models, features, classes, hidden int) Spec {
	s := Spec{Models: models, Classes: classes, Input: nn.Vector(features), Rate: 0.1}
	if hidden > 0 {
		s.Layers = append(s.Layers, nn.Dense{Out: hidden}, nn.LeakyReLU(leak))
	}
	s.Layers = append(s.Layers, nn.Dense{Out: 1, Init: nn.Zeros})
	return s
}

const leak = 0.2

// slowGradient is the gradient of accumulate in float64, row by row, of f
// features and h hidden units.
func slowGradient(f, h int, w, rows []float32, take, at int, sign float64) []float64 {
	n := len(rows) / f
	grad := make([]float64, len(w))
	dense := func(w []float32, x []float64) (s float64) {
		for j, v := range x {
			s += float64(w[j]) * v
		}
		return s
	}
	for i := range take {
		row := (at + i) % n
		x := make([]float64, f)
		for j := range x {
			x[j] = float64(rows[row*f+j])
		}
		last, lastW, base := x, w[:f], 0
		act := make([]float64, h)
		if h > 0 {
			for k := range act {
				act[k] = float64(w[f*h+k])
				for j, v := range x {
					act[k] += float64(w[j*h+k]) * v
				}
				if act[k] < 0 {
					act[k] *= leak
				}
			}
			base = h*f + h
			last, lastW = act, w[base:base+h]
		}
		score := dense(lastW, last) + float64(w[len(w)-1])
		d := 0.5 * sign / float64(take) / (1 + math.Exp(-sign*score))
		grad[len(w)-1] += d
		for j, v := range last {
			grad[base+j] += d * v
		}
		for k, a := range act {
			da := d * float64(lastW[k])
			if a < 0 {
				da *= leak
			}
			grad[h*f+k] += da
			for j, v := range x {
				grad[j*h+k] += da * v
			}
		}
	}
	return grad
}

// TestStandTakesAWindow compares with a plain loop: batches below, at and above
// the number of rows, and windows that go round the end.
func TestStandTakesAWindow(t *testing.T) {
	for name, hidden := range map[string]int{"logistic": 0, "hidden": 5} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			const f, n = 7, 203
			e, err := New(critics(1, f, 1, hidden))
			testkit.Must(t, err)
			rows := make([]float32, n*f)
			for i := range rows {
				rows[i] = float32(rng.NormFloat64())
			}
			for i := range e.w {
				e.w[i] = float32(rng.NormFloat64())
			}
			s := e.trainers[0]
			s.Take(e.w)
			wrapped := 0
			for seed := range uint64(20) {
				for _, batch := range []int{1, 5, 64, 65, n - 1, n, 10 * n} {
					take, at := n, 0
					if batch < n {
						take, at = batch, rand.New(rand.NewPCG(seed, 9)).IntN(n)
					}
					if at+take > n {
						wrapped++
					}
					sign := 1 - 2*float64(seed%2)
					clear(s.Grad)
					s.pcg.Seed(seed, 9)
					s.accumulate(rows, nil, batch, losses.Logistic, sign < 0)
					for j, want := range slowGradient(f, hidden, e.w, rows, take, at, sign) {
						if got := float64(s.Grad[j]); math.Abs(got-want) > 2e-6*(1+math.Abs(want)) {
							t.Fatalf("batch %d from row %d: gradient %d is %v, want %v", batch, at, j, got, want)
						}
					}
				}
			}
			if wrapped == 0 {
				t.Error("no window went round the end")
			}
		})
	}
}
