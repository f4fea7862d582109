package ratio

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// exactSquares is the square of a vector's L2 norm, not rounded.
func exactSquares(v []float64) *big.Rat {
	sum := new(big.Rat)
	for _, x := range v {
		r := new(big.Rat).SetFloat64(x)
		sum.Add(sum, r.Mul(r, r))
	}
	return sum
}

func TestFeaturesByHand(t *testing.T) {
	f := testkit.Value(New(Spec{
		Mean: []float32{0.5, 0, 0.25, 0.75}, Scale: []float32{0.25, 1, 0.5, 0.5},
		Classes: 2, Squares: true, Indicators: []bool{false, true}, Clip: 100,
	}))
	dst := make([]float64, f.Width())
	f.At(dst, []float32{1, 1}, 1)
	testkit.Same(t, "", []float64{1, 2, 1, -0.5, 0.5, 4}, dst)
	// Half as long: everything shrinks, the constant too.
	f = testkit.Value(New(Spec{Mean: []float32{0, 0}, Scale: []float32{1, 1}, Classes: 1, Clip: 1.5}))
	dst = make([]float64, f.Width())
	f.At(dst, []float32{2, 2}, 0)
	testkit.Same(t, "", []float64{0.5, 1, 1}, dst, cmpopts.EquateApprox(1e-13, 0))
	constant := testkit.Value(New(Spec{Classes: 1, Clip: 2}))
	dst = make([]float64, constant.Width())
	if constant.At(dst, nil, 0); dst[0] != 1 || len(dst) != 1 {
		t.Errorf("the constant alone is %v", dst)
	}
}

// The norm is at most Clip, without any rounding, for whatever a record holds.
func TestNormIsBounded(t *testing.T) {
	number := rapid.OneOf(rapid.Float32Range(0, 1), rapid.Float32(),
		rapid.SampledFrom([]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32,
			math.SmallestNonzeroFloat32, 0}))
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(0, 30).Draw(t, "d")
		classes := rapid.IntRange(1, 4).Draw(t, "classes")
		all := d
		if classes > 1 {
			all += classes
		}
		f, err := New(Spec{
			Mean: rapid.SliceOfN(rapid.OneOf(rapid.Float32Range(0, 1), rapid.Float32()), all, all).Draw(t, "mean"),
			Scale: rapid.SliceOfN(rapid.OneOf(rapid.Float32Range(0.01, 1),
				rapid.Float32Range(math.SmallestNonzeroFloat32, math.MaxFloat32)), all, all).Draw(t, "scale"),
			Classes: classes, Squares: rapid.Bool().Draw(t, "squares"),
			Clip: math.Exp2(rapid.OneOf(rapid.Float64Range(-3, 3), rapid.Float64Range(-100, 100)).Draw(t, "log clip")),
		})
		if err != nil {
			t.Fatal(err)
		}
		x := rapid.SliceOfN(number, d, d).Draw(t, "x")
		dst := make([]float64, f.Width())
		f.At(dst, x, rapid.IntRange(0, classes-1).Draw(t, "class"))
		clip := new(big.Rat).SetFloat64(f.Clip())
		if norm := exactSquares(dst); norm.Cmp(clip.Mul(clip, clip)) > 0 {
			t.Fatalf("the square of the norm is %v, clip %v", norm, f.Clip())
		}
		for _, v := range x {
			if finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0); !finite {
				if diff := cmp.Diff(make([]float64, f.Width()), dst); diff != "" {
					t.Fatalf("a record with %v gives %v", v, dst)
				}
			}
		}
	})
}

// Records that no encoder makes are zeros.
func TestUnusableRecordsAreZeros(t *testing.T) {
	f := testkit.Value(New(Spec{Mean: make([]float32, 4), Scale: []float32{1, 1, 1, 1}, Classes: 2, Clip: 2}))
	for _, c := range []struct {
		x     []float32
		class int
	}{{nil, 0}, {[]float32{1}, 0}, {[]float32{1, 2, 3}, 0}, {[]float32{1, 2}, 2}, {[]float32{1, 2}, -1}} {
		dst := []float64{9, 9, 9, 9, 9}
		if f.At(dst, c.x, c.class); !cmp.Equal(dst, make([]float64, 5)) {
			t.Errorf("%+v gives %v", c, dst)
		}
	}
}

func TestSpecsAreRefused(t *testing.T) {
	one := []float32{1}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, spec := range map[string]Spec{
		"no classes":        {Clip: 1},
		"no clip":           {Classes: 1},
		"a negative clip":   {Classes: 1, Clip: -1},
		"an endless clip":   {Classes: 1, Clip: math.Inf(1)},
		"a tiny clip":       {Classes: 1, Clip: 1e-40},
		"clip NaN":          {Classes: 1, Clip: math.NaN()},
		"a scale missing":   {Mean: one, Classes: 1, Clip: 1},
		"classes missing":   {Mean: one, Scale: one, Classes: 2, Clip: 1},
		"a scale of zero":   {Mean: one, Scale: []float32{0}, Classes: 1, Clip: 1},
		"a negative scale":  {Mean: one, Scale: []float32{-1}, Classes: 1, Clip: 1},
		"scale NaN":         {Mean: one, Scale: []float32{nan}, Classes: 1, Clip: 1},
		"mean NaN":          {Mean: []float32{nan}, Scale: one, Classes: 1, Clip: 1},
		"an endless mean":   {Mean: []float32{inf}, Scale: one, Classes: 1, Clip: 1},
		"indicators beside": {Mean: one, Scale: one, Classes: 1, Clip: 1, Indicators: []bool{true, false}},
	} {
		if f, err := New(spec); !errors.Is(err, ErrSpec) || f != nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}
