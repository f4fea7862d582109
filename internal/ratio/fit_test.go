package ratio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"
)

type sums = func(ctx context.Context, beta []float64) (gradient, hessian []float64, err error)

// exactly is what units, each of some records, would send without rounding.
func exactly(width int, units ...[]float64) sums {
	return func(_ context.Context, beta []float64) ([]float64, []float64, error) {
		g, h := make([]float64, width), make([]float64, Triangle(width))
		for _, records := range units {
			k := float64(len(records) / width)
			for ; len(records) > 0; records = records[width:] {
				p := sigmoid(dot(beta, records[:width]))
				addTo(g, records[:width], (p-1)/k)
				addOuter(h, records[:width], p*(1-p)/k)
			}
		}
		return g, h, nil
	}
}

// inSteps is what they send.
func inSteps(s Steps, units ...[]float64) sums {
	return func(_ context.Context, beta []float64) ([]float64, []float64, error) {
		pass, err := NewPass(s, beta)
		if err != nil {
			return nil, nil, err
		}
		for _, records := range units {
			if err := pass.Add(records); err != nil {
				return nil, nil, err
			}
		}
		gradient, hessian := s.Decode(pass.Sums())
		return gradient, hessian, nil
	}
}

// drawRecords draws m records with a constant and numbers around centre, no longer than
// clip.
func drawRecords(r *rand.Rand, m, width int, centre, clip float64) []float64 {
	x := make([]float64, m*width)
	for i := range m {
		row := x[i*width : (i+1)*width]
		row[0] = 1
		for j := 1; j < width; j++ {
			row[j] = centre + r.NormFloat64()
		}
		shorten(row, clip)
	}
	return x
}

// split makes each record a unit.
func split(x []float64, width int) [][]float64 {
	var units [][]float64
	for i := 0; i < len(x); i += width {
		units = append(units, x[i:i+width])
	}
	return units
}

// objective is J and its gradient, written down once more.
func objective(p Problem, units [][]float64) optimize.Problem {
	return optimize.Problem{
		Func: func(b []float64) float64 {
			j := p.Lambda / 2 * dot(b, b)
			loss := func(t float64) float64 { return math.Max(0, -t) + math.Log1p(math.Exp(-math.Abs(t))) }
			for _, x := range split(p.Synthetic, p.Width) {
				j += loss(-dot(b, x)) / float64(len(p.Synthetic)/p.Width)
			}
			for _, u := range units {
				for _, x := range split(u, p.Width) {
					j += loss(dot(b, x)) / float64(len(u)/p.Width) / p.Records
				}
			}
			return j
		},
		Grad: func(g, b []float64) {
			floats.ScaleTo(g, p.Lambda, b)
			for _, x := range split(p.Synthetic, p.Width) {
				floats.AddScaled(g, sigmoid(dot(b, x))/float64(len(p.Synthetic)/p.Width), x)
			}
			for _, u := range units {
				for _, x := range split(u, p.Width) {
					floats.AddScaled(g, (sigmoid(dot(b, x))-1)/float64(len(u)/p.Width)/p.Records, x)
				}
			}
		},
	}
}

func TestFitMinimizes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		width := 1 + r.IntN(8)
		clip := 0.5 + 3*r.Float64()
		real := drawRecords(r, 5+r.IntN(200), width, 0.5, clip)
		units := split(real, width)
		if i%2 == 1 { // units of two records
			units = split(real[:len(real)/(2*width)*2*width], 2*width)
		}
		p := Problem{
			Synthetic: drawRecords(r, 1+r.IntN(1500), width, -0.5, clip), Width: width, Clip: clip,
			Lambda: math.Pow(10, -4*r.Float64()), Records: float64(len(units)),
		}
		p.Tolerance = 1e-9 * clip
		fitted, err := Fit(t.Context(), p, exactly(width, units...))
		if err != nil {
			t.Fatal(err)
		}
		o := objective(p, units)
		best, err := optimize.Minimize(o, make([]float64, width), &optimize.Settings{GradientThreshold: 1e-8 * clip},
			&optimize.BFGS{})
		if err != nil {
			t.Fatal(err)
		}
		if far := floats.Distance(fitted.Beta, best.X, 2); far > 3e-8*clip/p.Lambda {
			t.Errorf("width %d, lambda %v: %v, the reference has %v", width, p.Lambda, fitted.Beta, best.X)
		}
		g := make([]float64, width)
		if o.Grad(g, fitted.Beta); floats.Norm(g, 2) > fitted.Residual || fitted.Residual > p.Tolerance {
			t.Errorf("the gradient is %v, the residual %v, the tolerance %v", floats.Norm(g, 2), fitted.Residual,
				p.Tolerance)
		}

		// In steps, the residual holds for the exact gradient all the same.
		s := Steps{Width: width, Clip: clip, Bound: []int64{FinestBound, 1 << 30, 1 << 12}[i%3]}
		p.Tolerance, p.Rounding = 0, s.Rounding()
		if fitted, err = Fit(t.Context(), p, inSteps(s, units...)); err != nil {
			t.Fatalf("in %d steps: %v", s.Bound, err)
		}
		if o.Grad(g, fitted.Beta); floats.Norm(g, 2) > fitted.Residual || fitted.Residual > p.DefaultTolerance() {
			t.Errorf("in %d steps the gradient is %v, the residual %v, the tolerance %v", s.Bound, floats.Norm(g, 2),
				fitted.Residual, p.DefaultTolerance())
		}
	}
}

// Few round trips for what comes up, not many for what is as bad as it gets: samples
// far apart, next to no penalty, another number of units than n.
func TestFitTakesFewRoundTrips(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	usual, worst := 0, 0
	for i := range 300 {
		width := 1 + r.IntN(12)
		clip := math.Sqrt(float64(width)) * (0.5 + r.Float64())
		hard := i%2 == 1
		p := Problem{Width: width, Clip: clip, Lambda: math.Pow(10, -1-2*r.Float64()), Records: 200}
		centre, n := 0.3, 200
		if hard {
			p.Lambda = math.Pow(10, -9*r.Float64())
			centre, n = 10*r.Float64(), r.IntN(600)
			clip *= math.Pow(10, r.Float64())
			p.Clip = clip
		}
		p.Synthetic = drawRecords(r, 300, width, -centre, clip)
		fitted, err := Fit(t.Context(), p, exactly(width, split(drawRecords(r, n, width, centre, clip), width)...))
		if err != nil {
			t.Fatalf("width %d, lambda %v, %d units at %v: %v", width, p.Lambda, n, centre, err)
		}
		if hard {
			worst = max(worst, fitted.Iterations)
		} else {
			usual = max(usual, fitted.Iterations)
		}
	}
	t.Logf("at most %d usually, %d at worst", usual, worst)
	if usual > 12 || worst > 60 {
		t.Errorf("at most %d usually, %d at worst", usual, worst)
	}
}

func TestFitIsRefused(t *testing.T) {
	good := Problem{Synthetic: []float64{1, 0, 0, 1}, Width: 2, Clip: 1, Lambda: 0.1, Records: 2}
	for name, break1 := range map[string]func(p *Problem){
		"no width":           func(p *Problem) { p.Width = 0 },
		"no records":         func(p *Problem) { p.Synthetic = nil },
		"half a record":      func(p *Problem) { p.Synthetic = p.Synthetic[:3] },
		"a long record":      func(p *Problem) { p.Synthetic = []float64{1, 1} },
		"record NaN":         func(p *Problem) { p.Synthetic = []float64{math.NaN(), 1} },
		"no clip":            func(p *Problem) { p.Clip = 0 },
		"no lambda":          func(p *Problem) { p.Lambda = 0 },
		"lambda NaN":         func(p *Problem) { p.Lambda = math.NaN() },
		"endless lambda":     func(p *Problem) { p.Lambda = math.Inf(1) },
		"no n":               func(p *Problem) { p.Records = 0 },
		"rounding NaN":       func(p *Problem) { p.Rounding = math.NaN() },
		"less than rounding": func(p *Problem) { p.Rounding, p.Tolerance = 1e-3, 2e-3 },
		"tolerance too fine": func(p *Problem) { p.Tolerance = 1e-18 },
		"tolerance NaN":      func(p *Problem) { p.Tolerance = math.NaN() },
		"iterations":         func(p *Problem) { p.Iterations = -1 },
	} {
		p := good
		break1(&p)
		asked := false
		_, err := Fit(t.Context(), p, func(context.Context, []float64) ([]float64, []float64, error) {
			asked = true
			return nil, nil, nil
		})
		if !errors.Is(err, ErrSpec) || asked {
			t.Errorf("%s: %v, asked %v", name, err, asked)
		}
		if _, err := p.Sensitivity(); !errors.Is(err, ErrSpec) {
			t.Errorf("sensitivity of %s: %v", name, err)
		}
	}
	broken := fmt.Errorf("the line is dead")
	for name, c := range map[string]struct {
		g, h []float64
		err  error
		want error
	}{
		"an error":           {nil, nil, broken, broken},
		"a short gradient":   {make([]float64, 1), make([]float64, 3), nil, ErrShape},
		"a short hessian":    {make([]float64, 2), make([]float64, 2), nil, ErrShape},
		"gradient NaN":       {[]float64{0, math.NaN()}, make([]float64, 3), nil, ErrSpec},
		"an endless hessian": {make([]float64, 2), []float64{1, 0, math.Inf(1)}, nil, ErrSpec},
		// Whoever sends what is no gradient of anything can keep it from converging, not from ending.
		"nonsense": {[]float64{1, 1}, []float64{-1e6, 3, -1e6}, nil, ErrNotConverged},
	} {
		_, err := Fit(t.Context(), good, func(context.Context, []float64) ([]float64, []float64, error) {
			return c.g, c.h, c.err
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fit(ctx, good, exactly(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

// addOuter adds factor x x' to the upper triangle h.
func addOuter(h, x []float64, factor float64) {
	at := 0
	for i, v := range x {
		row := h[at : at+len(x)-i]
		addTo(row, x[i:], factor*v)
		at += len(row)
	}
}
