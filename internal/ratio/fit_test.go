package ratio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"github.com/conclave-dp/conclave/internal/testkit"
)

type sums = func(ctx context.Context, beta []float64) (Sums, error)

// exactly is the sum that units, each with some records, would send without rounding.
func exactly(width int, units ...[]float64) sums {
	return func(_ context.Context, beta []float64) (Sums, error) {
		g, h := make([]float64, width), make([]float64, Triangle(width))
		for _, records := range units {
			k := float64(len(records) / width)
			for ; len(records) > 0; records = records[width:] {
				p := sigmoid(dot(beta, records[:width]))
				addTo(g, records[:width], (p-1)/k)
				addOuter(h, records[:width], p*(1-p)/k)
			}
		}
		return Sums{Gradient: g, Hessian: h, Units: float64(len(units))}, nil
	}
}

// inSteps is the sum that they send.
func inSteps(s Steps, units ...[]float64) sums {
	return func(_ context.Context, beta []float64) (Sums, error) {
		pass, err := NewPass(s, beta)
		if err != nil {
			return Sums{}, err
		}
		for _, records := range units {
			if err := pass.Add(records); err != nil {
				return Sums{}, err
			}
		}
		return s.Decode(pass.Sums())
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
	n := float64(len(units))
	weight := math.Min(1-n/(16*p.Records), 4*p.Records/n) / p.Records
	if n > 8*p.Records {
		weight = 4 / n
	}
	const synthetic = 15.0 / 16
	return optimize.Problem{
		Func: func(b []float64) float64 {
			j := p.Lambda / 2 * dot(b, b)
			loss := func(t float64) float64 { return math.Max(0, -t) + math.Log1p(math.Exp(-math.Abs(t))) }
			for _, x := range split(p.Synthetic, p.Width) {
				j += synthetic * loss(-dot(b, x)) / float64(len(p.Synthetic)/p.Width)
			}
			for _, u := range units {
				for _, x := range split(u, p.Width) {
					j += weight * loss(dot(b, x)) / float64(len(u)/p.Width)
				}
			}
			return j
		},
		Grad: func(g, b []float64) {
			floats.ScaleTo(g, p.Lambda, b)
			for _, x := range split(p.Synthetic, p.Width) {
				floats.AddScaled(g, synthetic*sigmoid(dot(b, x))/float64(len(p.Synthetic)/p.Width), x)
			}
			for _, u := range units {
				for _, x := range split(u, p.Width) {
					floats.AddScaled(g, weight*(sigmoid(dot(b, x))-1)/float64(len(u)/p.Width), x)
				}
			}
		},
	}
}

// left is the norm of J's gradient, which bounds Lambda times the distance from the minimizer.
func left(p Problem, units [][]float64, beta []float64) float64 {
	g := make([]float64, p.Width)
	objective(p, units).Grad(g, beta)
	return floats.Norm(g, 2)
}

func TestFitMinimizes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 12 {
		width := 1 + r.IntN(8)
		clip := 0.5 + 3*r.Float64()
		real := drawRecords(r, 5+r.IntN(200), width, 0.5, clip)
		units := split(real, width)
		if i%2 == 1 { // units of two records
			units = split(real[:len(real)/(2*width)*2*width], 2*width)
		}
		p := Problem{
			Synthetic: drawRecords(r, 1+r.IntN(1500), width, -0.5, clip), Width: width, Clip: clip,
			Lambda: max(LeastLambda(clip), math.Pow(10, -4*r.Float64())), Records: float64(len(units)),
		}
		p.Tolerance = 1e-9 * clip
		fitted := testkit.Value(Fit(t.Context(), p, exactly(width, units...)))
		best, err := optimize.Minimize(objective(p, units), make([]float64, width),
			&optimize.Settings{GradientThreshold: 1e-8 * clip}, &optimize.BFGS{})
		testkit.Must(t, err)
		if far := floats.Distance(fitted, best.X, 2); far > 3e-8*clip/p.Lambda {
			t.Errorf("width %d, lambda %v: %v, the reference has %v", width, p.Lambda, fitted, best.X)
		}
		if rest := left(p, units, fitted); rest > p.Tolerance {
			t.Errorf("the gradient is %v, the tolerance %v", rest, p.Tolerance)
		}

		// In whole steps the bound still holds for the exact gradient.
		s := Steps{Width: width, Clip: clip, Bound: []int64{FinestBound, 1 << 30, 1 << 24}[i%3]}
		p.Tolerance, p.Rounding = 0, s.Rounding()
		fitted = testkit.Value(Fit(t.Context(), p, inSteps(s, units...)))
		if rest := left(p, units, fitted); rest > p.DefaultTolerance() {
			t.Errorf("in %d steps the gradient is %v, the tolerance %v", s.Bound, rest, p.DefaultTolerance())
		}
	}
}

// Whatever the records are, the passes that public numbers say are made, no more and no fewer,
// and they are enough: records that are far apart or all alike, one of them, none, many more
// than are counted on.
func TestFitIsAlwaysDone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	most := 0
	for i := range 36 {
		width := 1 + r.IntN(6)
		clip := math.Exp(3*r.Float64() - 1)
		p := Problem{
			Width: width, Clip: clip, Records: math.Ceil(math.Exp(5 * r.Float64())),
			Lambda: LeastLambda(clip) * math.Pow(10, []float64{0, 1, 4}[i%3]*r.Float64()),
		}
		// Far from the synthetic records, near the ones and as short as may be in the other
		// directions: curvature that comes late.
		p.Synthetic = drawRecords(r, 1+r.IntN(20), width, -8*r.Float64(), clip)
		var units [][]float64
		switch i % 4 {
		case 0:
			units = split(drawRecords(r, r.IntN(40), width, 8*r.Float64(), clip), width)
		case 1:
			units = split(drawRecords(r, 1, width, 8, clip), width)
		case 2: // one direction, of all lengths
			x := drawRecords(r, 1, width, 8, clip)
			for j := range 30 {
				u := slices.Clone(x)
				floats.Scale(math.Pow(2, -float64(j)), u)
				units = append(units, u)
			}
		case 3:
			units = split(drawRecords(r, 30+r.IntN(600), width, 8*r.Float64(), clip), width)
			p.Records = 1 + 3*r.Float64()
		}
		passes, real := 0, exactly(width, units...)
		fitted := testkit.Value(Fit(t.Context(), p, func(ctx context.Context, beta []float64) (Sums, error) {
			passes++
			return real(ctx, beta)
		}))
		if want := testkit.Value(p.Passes()); passes != want {
			t.Fatalf("%d passes, and public numbers say %d", passes, want)
		}
		if rest := left(p, units, fitted); rest > p.DefaultTolerance() {
			t.Fatalf("case %d, %d units: the gradient is %v, the tolerance %v", i, len(units), rest,
				p.DefaultTolerance())
		}
		most = max(most, passes)
	}
	t.Logf("%d passes at most", most)
	if most > 750 || most < 690 {
		t.Errorf("%d passes", most)
	}
}

// The attack of before: whether Newton's method converged told whether 100,800 units were there or
// 100,801. Such a lambda is refused for its public numbers, and sums are not asked for.
func TestFitsThatDataCouldStopAreRefused(t *testing.T) {
	for _, lambda := range []float64{1e-12, 1e-6, 0.99 / mostCurved} {
		p := Problem{Synthetic: []float64{1, 0, 0, 1}, Width: 2, Clip: 1, Lambda: lambda, Records: 100_800}
		_, err := Fit(t.Context(), p, func(context.Context, []float64) (Sums, error) {
			t.Fatal("asked for sums")
			return Sums{}, nil
		})
		if !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "dp-mlp") {
			t.Errorf("lambda %v: %v", lambda, err)
		}
		if _, err := NewWanted(p); !errors.Is(err, ErrSpec) {
			t.Errorf("lambda %v, wanted: %v", lambda, err)
		}
	}
	// All that NewWanted takes has its passes, at the edges as well.
	for _, width := range []int{1, 30, 400} {
		for _, clip := range []float64{1e-20, 1, 1e20} {
			for _, n := range []float64{1, 1000, MostUnits} {
				p := Problem{Synthetic: make([]float64, width), Width: width, Clip: clip, Lambda: LeastLambda(clip),
					Records: n}
				if passes := testkit.Value(testkit.Value(NewWanted(p)).Problem.Passes()); passes > MostPasses {
					t.Errorf("width %d, clip %v, %v units: %d passes", width, clip, n, passes)
				}
			}
		}
	}
}

// The real records' weight bounds a unit's influence and their own: s - N s' is at most 1, between
// whole numbers of units as well, and s(N) N/n at most 4.
func TestWeightOfUnits(t *testing.T) {
	for _, n := range []float64{1, 3.5, 1000, MostUnits} {
		for _, units := range []float64{0, 1, n / 2, n, 2 * n, 8*n - 1, 8 * n, 8*n + 1, 50 * n, 1 << 24} {
			if units < 0 {
				continue
			}
			units = math.Floor(units)
			s, more := weigh(units, n), weigh(units+1, n)
			if moved := more + units*(s-more); moved > 1+1e-12 || s < more || s > 1 || s*units/n > mostReal+1e-12 {
				t.Errorf("%v units where %v are counted on: a unit moves by %v, weights %v and %v", units, n, moved, s,
					more)
			}
		}
		if math.Abs(weigh(n, n)-syntheticWeight) > 1e-15 {
			t.Errorf("n of %v units have weight %v", n, weigh(n, n))
		}
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
		"too coarse":         func(p *Problem) { p.Rounding = 0.1 },
	} {
		p := good
		break1(&p)
		asked := false
		_, err := Fit(t.Context(), p, func(context.Context, []float64) (Sums, error) {
			asked = true
			return Sums{}, nil
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
		// A node that sends something other than a gradient can spoil the fit, which ends after the same number of
		// passes.
		"nonsense": {[]float64{1, 1}, []float64{-1e6, 3, -1e6}, nil, nil},
	} {
		_, err := Fit(t.Context(), good, func(context.Context, []float64) (Sums, error) {
			return Sums{Gradient: c.g, Hessian: c.h, Units: 2}, c.err
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
