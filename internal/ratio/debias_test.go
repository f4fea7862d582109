package ratio

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// latticeMoment is E exp(z x) over whole numbers z, summed up.
func latticeMoment(x float64, reach int, logMass func(z float64) float64) float64 {
	moment, total := 0.0, 0.0
	for z := -reach; z <= reach; z++ {
		moment += math.Exp(logMass(float64(z)) + float64(z)*x)
		total += math.Exp(logMass(float64(z)))
	}
	return moment / total
}

// The moments of whole-number noise agree with the formula: within the documented distance, and on a coarse lattice not
// closer than a hundredth of that.
func TestMomentsOnALattice(t *testing.T) {
	for _, s := range []float64{2, 5, 20} { // in steps of 1
		for _, share := range []float64{0, 0.3, 0.7, 0.9} {
			x := share / s
			scaled := func(kind NoiseKind, x ...float64) float64 {
				return math.Exp(testkit.Value(Noise{kind, s}.LogMoment(0, x)))
			}
			reach := int(800 * s)
			exact := latticeMoment(x, reach, func(z float64) float64 { return -math.Abs(z) / s })
			if off, most := math.Abs(exact/scaled(Laplace, x)-1), 1/(12*s*s); !(off <= most*(1+1e-6)) ||
				share == 0.9 && off < most/100 {
				t.Errorf("laplace, scale %v, x %v: off by %v, want below %v", s, x, off, most)
			}
			// Norm-Gamma noise of one dimension is Laplace noise.
			if off, most := math.Abs(exact/scaled(NormGamma, x)-1), 20*math.Pow(2*math.Pi*s, -2); !(off <= most) {
				t.Errorf("norm-gamma, scale %v, x %v: off by %v, want below %v", s, x, off, most)
			}
			exact = latticeMoment(x, reach, func(z float64) float64 { return -z * z / (2 * s * s) })
			if off, most := math.Abs(exact/scaled(Gaussian, x)-1),
				4*math.Exp(-2*math.Pi*math.Pi*s*s)+1e-12; !(off <= most) {
				t.Errorf("gaussian, scale %v, x %v: off by %v, want below %v", s, x, off, most)
			}
		}
	}
}

// Norm-Gamma noise of two and three dimensions, by summing over whole vectors, with lengths
// rounded as package gnmax does and as they are.
func TestNormGammaMoment(t *testing.T) {
	for d, s := range map[int]float64{2: 3, 3: 1.5} {
		for _, share := range []float64{0.2, 0.5} {
			x := []float64{share / s * 0.6, -share / s * 0.8, 0}[:d]
			reach := int(40 * s) // beyond which is less than exp(-20)
			deep := reach
			if d == 2 {
				deep = 0
			}
			var moment, total, rounded, roundedTotal float64
			for a := -reach; a <= reach; a++ {
				for b := -reach; b <= reach; b++ {
					for c := -deep; c <= deep; c++ {
						length := math.Sqrt(float64(a*a + b*b + c*c))
						up, mass := math.Ceil(1024*length)/1024, math.Exp(-length/s)
						other := math.Exp(-up / s)
						tilt := math.Exp(float64(a)*x[0] + float64(b)*x[1])
						moment, total = moment+mass*tilt, total+mass
						rounded, roundedTotal = rounded+other*tilt, roundedTotal+other
					}
				}
			}
			want := math.Exp(testkit.Value(Noise{NormGamma, s}.LogMoment(0, x)))
			sum := 20 * float64(d) * math.Pow(2*math.Pi*s, -float64(d+1))
			if off := math.Abs(moment/total/want - 1); !(off <= sum) {
				t.Errorf("%d dimensions, scale %v, share %v: off by %v, want below %v", d, s, share, off, sum)
			}
			if off := math.Abs(rounded/roundedTotal/want - 1); !(off <= sum+0x1p-9/s) {
				t.Errorf("%d dimensions, scale %v, share %v, rounded: off by %v", d, s, share, off)
			}
		}
	}
}

// Outside of the range there is an error that names the record, inside there is none.
func TestRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Noise{rapid.SampledFrom([]NoiseKind{Laplace, NormGamma, Gaussian, None}).Draw(t, "kind"),
			rapid.Float64Range(0.01, 10).Draw(t, "scale")}
		x := rapid.SliceOfN(rapid.Float64Range(-5, 5), 6, 6).Draw(t, "x")
		want := -1
		for row := range 3 {
			a, b := n.Scale*math.Abs(x[2*row]), n.Scale*math.Abs(x[2*row+1])
			size := map[NoiseKind]float64{Laplace: max(a, b), NormGamma: math.Hypot(a, b)}[n.Kind]
			if math.Abs(size-1) < 1e-12 {
				t.Skip("on the edge")
			}
			if size > 1 {
				want = row
				break
			}
		}
		err := n.Check(x, 2)
		_, weights := Weights([]float64{0.1, 0.2}, x, n)
		if want < 0 {
			if err != nil || weights != nil {
				t.Fatalf("%v, %v", err, weights)
			}
			return
		}
		for _, err := range []error{err, weights} {
			var r *RangeError
			if !errors.Is(err, ErrRange) || !errors.As(err, &r) || r.Row != want || !(r.Size >= r.Limit) ||
				!strings.Contains(err.Error(), fmt.Sprintf("record %d", want)) {
				t.Fatalf("row %d: %v", want, err)
			}
		}
	})
}

func TestNoiseIsRefused(t *testing.T) {
	for _, n := range []Noise{{Laplace, 0}, {Gaussian, -1}, {NormGamma, math.NaN()}, {Laplace, math.Inf(1)},
		{"poisson", 1}} {
		if err := n.Validate(); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", n, err)
		}
		if w, err := Weights([]float64{1}, []float64{1}, n); !errors.Is(err, ErrSpec) || w != nil {
			t.Errorf("%+v: %v, %v", n, w, err)
		}
	}
	if err := (Noise{Gaussian, 1}).Check(make([]float64, 3), 2); !errors.Is(err, ErrShape) {
		t.Error(err)
	}
	if err := (Noise{Gaussian, 1}).Check(nil, 0); !errors.Is(err, ErrShape) {
		t.Error(err)
	}
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		if err := (Noise{NormGamma, 1}).Check([]float64{x}, 1); !errors.Is(err, ErrRange) {
			t.Errorf("%v: %v", x, err)
		}
		if w, err := Weights([]float64{1}, []float64{x}, Noise{}); !errors.Is(err, ErrWeights) {
			t.Errorf("%v: %v, %v", x, w, err)
		}
	}
}
