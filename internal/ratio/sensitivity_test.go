package ratio

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// neighbours is a problem with real units and one unit more.
type neighbours struct {
	p     Problem
	units [][]float64
	more  []float64
}

// moved is the distance by which the unit moves the minimizer, as a share of the bound.
func (c neighbours) moved(t *testing.T) float64 {
	t.Helper()
	c.p.Tolerance = max(c.p.least(), 1e-7*c.p.Clip/c.p.Records)
	before := testkit.Value(Fit(t.Context(), c.p, exactly(c.p.Width, c.units...)))
	after := testkit.Value(Fit(t.Context(), c.p,
		exactly(c.p.Width, append(c.units[:len(c.units):len(c.units)], c.more)...)))
	bound := testkit.Value(c.p.Sensitivity())
	l2, l1 := floats.Distance(before, after, 2), floats.Distance(before, after, 1)
	if l2 > bound {
		t.Fatalf("width %d, n %v, lambda %v, clip %v: moved by %v, bound %v", c.p.Width, c.p.Records, c.p.Lambda,
			c.p.Clip, l2, bound)
	}
	if most := math.Sqrt(float64(c.p.Width)) * bound * (1 + 0x1p-48); l1 > most {
		t.Fatalf("width %d: moved by %v in L1, bound %v", c.p.Width, l1, most)
	}
	return l2 / bound
}

// 600 random neighbouring data sets, fitted both: never further apart than stated.
func TestSensitivityByBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	largest := 0.0
	for range 600 {
		width := 1 + r.IntN(6)
		c := neighbours{p: Problem{Width: width, Clip: math.Exp(2*r.Float64() - 0.5),
			Records: math.Ceil(math.Exp(6 * r.Float64())), Lambda: math.Pow(10, 1-5*r.Float64())}}
		least := LeastLambda(c.p.Clip)
		if r.IntN(50) > 0 {
			least *= 100 // of a few passes
		}
		c.p.Lambda = max(c.p.Lambda, least)
		c.p.Synthetic = drawRecords(r, 1+r.IntN(12), width, 6*r.Float64()-3, c.p.Clip)
		c.units = split(drawRecords(r, r.IntN(12), width, 6*r.Float64()-3, c.p.Clip), width)
		c.more = make([]float64, width*(1+r.IntN(3)))
		switch r.IntN(3) {
		case 0: // like the others
			c.more = drawRecords(r, len(c.more)/width, width, 6*r.Float64()-3, c.p.Clip)
		case 1: // as long as there may be, in one direction
			for i := range width {
				c.more[i] = r.NormFloat64()
			}
			c.more = c.more[:width]
			floats.Scale(c.p.Clip/floats.Norm(c.more, 2), c.more)
			shorten(c.more, c.p.Clip)
		case 2: // the corner opposite to a synthetic record
			floats.ScaleTo(c.more[:width], -1, c.p.Synthetic[:width])
			c.more = c.more[:width]
		}
		largest = max(largest, c.moved(t))
	}
	t.Logf("largest share of the bound: %.3f", largest)
}

// Where it is nearly attained: real data that are hardly there, a unit that the
// regression is sure is synthetic, and a direction in which only the penalty bends. Short
// synthetic records take the coefficients furthest.
// With a bound that were 10% less this fails.
func TestSensitivityIsTight(t *testing.T) {
	largest := 0.0
	for _, cos := range []float64{0.07, 0.1, 0.15, 0.2} {
		for _, clip := range []float64{1, 3} {
			for _, lambda := range []float64{4 * LeastLambda(clip), 2 * LeastLambda(clip), LeastLambda(clip)} {
				c := neighbours{
					p: Problem{Synthetic: []float64{1.3 / 46 * clip, 0}, Width: 2, Clip: clip, Lambda: lambda,
						Records: 20 / lambda},
					more: []float64{clip * cos, clip * math.Sqrt(1-cos*cos) * (1 - 1e-12)},
				}
				largest = max(largest, c.moved(t))
			}
		}
	}
	t.Logf("largest share of the bound: %.3f", largest)
	if largest < 0.9 {
		t.Errorf("the largest share of the bound is %.3f; the test could not tell a bound that is too small", largest)
	}
}

// As it is used, in whole steps from records to a lattice: what noise has to cover.
func TestSensitivityOfWholeSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	largest := 0.0
	for range 100 {
		width := 1 + r.IntN(5)
		s := Steps{Width: width, Clip: math.Exp(r.Float64()), Bound: 1 << (22 + r.IntN(9))}
		p := Problem{Width: width, Clip: s.Clip, Lambda: math.Pow(10, -2*r.Float64()), Records: 5 + 50*r.Float64()}
		p.Rounding = s.Rounding()
		p.Synthetic = drawRecords(r, 10, width, 2*r.Float64()-1, s.Clip)
		units := split(drawRecords(r, 2+r.IntN(29), width, 4*r.Float64()-2, s.Clip), width)
		bound := testkit.Value(p.Sensitivity())
		lattice := testkit.Value(LatticeFor(bound, width))
		if r.IntN(2) == 0 { // coarse
			lattice = testkit.Value(NewLattice(lattice.Step() * 0x1p12))
		}
		steps := make([][]int64, 2)
		for i := range steps {
			fitted, err := Fit(t.Context(), p, inSteps(s, units[i:]...))
			testkit.Must(t, err)
			steps[i] = lattice.Round(fitted)
		}
		l1, squares := int64(0), int64(0)
		for i := range width {
			move := steps[0][i] - steps[1][i]
			l1, squares = l1+max(move, -move), squares+move*move
		}
		l2, most := testkit.Value(lattice.Sensitivity(bound, width)), testkit.Value(lattice.L1Sensitivity(bound, width))
		if squares > l2*l2 || l1 > most {
			t.Fatalf("moved by sqrt %d and %d in L1, bounds %d and %d", squares, l1, l2, most)
		}
		largest = max(largest, math.Sqrt(float64(squares))/float64(l2))
	}
	t.Logf("largest share of the bound: %.3f", largest)
}

// The figure of the literature, which replaces a record, for features in [0,1]^d.
func TestSensitivityOfTheLiterature(t *testing.T) {
	const d, n, lambda = 9.0, 1000.0, 0.1
	if got, want := testkit.Value(Sensitivity(2*math.Sqrt(d), n, lambda, 1e-300)),
		2*math.Sqrt(d)/(n*lambda); math.Abs(got/want-1) > 1e-12 || got < want {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := testkit.Value(Sensitivity(3, n, lambda, 0.003)), 0.03+0.06; math.Abs(got/want-1) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	for _, bad := range [][4]float64{{0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}, {1, 1, 1, math.NaN()},
		{math.Inf(1), 1, 1, 1}, {1, -1, 1, 1}} {
		if s, err := Sensitivity(bad[0], bad[1], bad[2], bad[3]); err == nil {
			t.Errorf("%v: %v", bad, s)
		}
	}
}
