package ratio

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Coefficients within the stated distance are also within it in steps, saturated ones included; and the lattice of
// LatticeFor costs almost nothing.
func TestLatticeCoversRounding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 40).Draw(t, "d")
		l := testkit.Value(NewLattice(math.Ldexp(1, rapid.IntRange(-30, 10).Draw(t, "log step"))))
		centre := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.Float64Range(-1e25, 1e25))
		a, b := make([]float64, d), make([]float64, d)
		for i := range a {
			a[i] = l.Step() * centre.Draw(t, "a")
			b[i] = a[i] + l.Step()*rapid.Float64Range(-3, 3).Draw(t, "move")
		}
		l2 := 0.0
		for i := range a {
			l2 += square(b[i] - a[i])
		}
		l2 = math.Sqrt(l2) * (1 + 1e-13)
		x, y := l.Round(a), l.Round(b)
		var l1, squares float64
		for i := range x {
			if x[i] > maxSteps || x[i] < -maxSteps {
				t.Fatalf("%v became %d steps", a[i], x[i])
			}
			move := float64(x[i] - y[i])
			l1, squares = l1+math.Abs(move), squares+move*move
		}
		if most := float64(testkit.Value(l.Sensitivity(l2, d))); squares > most*most {
			t.Fatalf("moved by %v, bound %v", math.Sqrt(squares), most)
		}
		if most := float64(testkit.Value(l.L1Sensitivity(l2, d))); l1 > most {
			t.Fatalf("moved by %v in L1, bound %v", l1, most)
		}
		for i, v := range l.Values(x) {
			if math.Abs(a[i]) < maxSteps*l.Step()/2 && math.Abs(v-a[i]) > l.Step()/2 {
				t.Fatalf("%v became %v", a[i], v)
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		d, l2 := rapid.IntRange(1, 1000).Draw(t, "d"), math.Exp2(rapid.Float64Range(-40, 40).Draw(t, "log l2"))
		l := testkit.Value(LatticeFor(l2, d))
		steps := testkit.Value(l.Sensitivity(l2, d))
		if more := float64(steps)*l.Step()/l2 - 1; !(more >= 0 && more < 0x1p-12) {
			t.Fatalf("rounding adds %v", more)
		}
	})
}

func TestLatticesAreRefused(t *testing.T) {
	for _, step := range []float64{0, -1, 3, 0.1, math.NaN(), math.Inf(1), 0x1p201, 0x1p-201} {
		if l, err := NewLattice(step); !errors.Is(err, ErrSpec) || l.Step() != 0 {
			t.Errorf("%v: %v, %v", step, l, err)
		}
	}
	for _, s := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300} {
		if l, err := LatticeFor(s, 3); !errors.Is(err, ErrSpec) {
			t.Errorf("%v: %v, %v", s, l, err)
		}
	}
	l := testkit.Value(NewLattice(1))
	for _, c := range []struct {
		l2 float64
		d  int
	}{{-1, 1}, {math.NaN(), 1}, {1, 0}, {math.Inf(1), 1}, {1 << 39, 1}} {
		if s, err := l.Sensitivity(c.l2, c.d); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v, %v", c, s, err)
		}
	}
	if s, err := (Lattice{}).Sensitivity(1, 1); !errors.Is(err, ErrSpec) {
		t.Errorf("the zero lattice: %v, %v", s, err)
	}
	if steps := l.Round([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}); steps[0] != 0 || steps[1] != maxSteps ||
		steps[2] != -maxSteps {
		t.Error(steps)
	}
}
