package gnmax

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// anyVector draws entries of all sizes, including awkward ones.
func anyVector(t *rapid.T) []float64 {
	entry := rapid.OneOf(
		rapid.Float64Range(-2, 2),
		rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64),
		rapid.SampledFrom([]float64{0, 1, 0.6, 0.8, 1.0 / 3, 5e-324, -1e-310, math.MaxFloat64, 0x1p-1022}),
	)
	return rapid.SliceOfN(entry, 0, 40).Draw(t, "vector")
}

// No encoded vector exceeds the bound, by exact arithmetic. It equals the clipped vector to within a step in each
// entry, up to a few parts in 2^40.
func TestEncodeKeepsTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clip := rapid.OneOf(rapid.Float64Range(0.01, 10),
			rapid.SampledFrom([]float64{1, 1e-290, 1e300, math.MaxFloat64})).Draw(t, "clip")
		f, err := NewFixedPoint(clip, rapid.Int64Range(1, maxBound).Draw(t, "bound"))
		if err != nil {
			t.Fatal(err)
		}
		vector := anyVector(t)
		steps, err := Encode(f, vector)
		if err != nil {
			t.Fatal(err)
		}
		norm := new(big.Int)
		for _, x := range steps {
			norm.Add(norm, new(big.Int).Mul(big.NewInt(x), big.NewInt(x)))
		}
		bound := big.NewInt(f.bound)
		if norm.Cmp(bound.Mul(bound, bound)) > 0 {
			t.Fatalf("the square of the norm is %v, above that of %d", norm, f.bound)
		}
		want := clipped(vector, f)
		for i, x := range steps {
			exact, _ := want[i].Float64()
			rounding := math.Abs(exact) * 0x1p-40
			if lost := math.Abs(exact) - math.Abs(float64(x)); lost < -rounding || lost > 1+rounding ||
				exact*float64(x) < 0 {
				t.Fatalf("entry %d is %d steps, want %v rounded towards zero", i, x, exact)
			}
		}
	})
}

// Vectors of whole numbers whose squares add up to the bound's square plus 1. After clipping, each entry is closer
// below a whole number than a float64 can represent, so rounding alone would return them unchanged.
func TestEncodeOnTheEdge(t *testing.T) {
	f := testkit.Value(NewFixedPoint(maxBound, maxBound))
	for first := int64(1); first < maxBound; first += maxBound / 500 {
		var vector []float64
		for left, entry := int64(maxBound*maxBound+1), first; left > 0; {
			vector = append(vector, float64(entry))
			left -= entry * entry
			for entry = int64(math.Sqrt(float64(left))); entry*entry > left; {
				entry--
			}
		}
		steps, err := Encode(f, vector)
		testkit.Must(t, err)
		squares := int64(0) // below 2^61
		for i, x := range steps {
			squares += x * x
			if lost := vector[i] - float64(x); lost < 0 || lost > 2 {
				t.Fatalf("%v became %v", vector, steps)
			}
		}
		if squares > maxBound*maxBound {
			t.Fatalf("%v passes the bound", steps)
		}
	}
}

// clipped is the vector in steps before rounding, with 200 bits.
func clipped(vector []float64, f FixedPoint) []*big.Float {
	precise := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
	norm := precise(0)
	for _, x := range vector {
		norm.Add(norm, new(big.Float).Mul(precise(x), precise(x)))
	}
	norm.Sqrt(norm)
	if norm.Cmp(precise(f.clip)) < 0 {
		norm = precise(f.clip)
	}
	steps := make([]*big.Float, len(vector))
	for i, x := range vector {
		steps[i] = precise(x)
		steps[i].Mul(steps[i], precise(float64(f.bound))).Quo(steps[i], norm)
	}
	return steps
}

// A vector on the bound that rounding easily moves across it.
func TestEncodeUsesTheBound(t *testing.T) {
	for _, c := range []struct {
		vector []float32
		want   []int64
	}{
		{[]float32{3, -4}, []int64{3, -4}},
		{[]float32{30, -40}, []int64{3, -4}}, // clipped
		{[]float32{1.9, -1.9}, []int64{1, -1}},
		{[]float32{0, 0, 0}, []int64{0, 0, 0}},
		{[]float32{}, []int64{}},
	} {
		got, err := Encode(testkit.Value(NewFixedPoint(5, 5)), c.vector)
		testkit.Must(t, err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: %s", c.vector, diff)
		}
	}
}

func TestVectorsAreRefused(t *testing.T) {
	f := testkit.Value(NewFixedPoint(1, 100))
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if steps, err := Encode(f, []float64{0.5, bad}); !errors.Is(err, ErrVector) || steps != nil {
			t.Errorf("%v: %v, %v", bad, steps, err)
		}
		if steps, err := Encode(f, []float32{float32(bad)}); !errors.Is(err, ErrVector) || steps != nil {
			t.Errorf("%v as float32: %v, %v", bad, steps, err)
		}
	}
	if steps, err := Encode(FixedPoint{}, []float64{1}); !errors.Is(err, ErrParameter) || steps != nil {
		t.Errorf("the zero fixed point: %v, %v", steps, err)
	}
}
