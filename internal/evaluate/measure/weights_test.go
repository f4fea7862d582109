package measure

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// weighted returns all figures that support weights, of one sample of rows.
func weighted(flags []bool, x, y, w []float64) map[string]func() (float64, error) {
	codes := func(v []float64) [][]int32 {
		out := make([]int32, len(v))
		for i := range v {
			out[i] = int32(v[i])
		}
		return [][]int32{out}
	}
	p := make([]float64, len(x))
	for i := range x {
		p[i] = x[i] / 8
	}
	fixed := []float64{0, 3, 3, 5}
	return map[string]func() (float64, error){
		"auroc":             func() (float64, error) { return AUROC(flags, x, w) },
		"average precision": func() (float64, error) { return AveragePrecision(flags, x, w) },
		"ks":                func() (float64, error) { return KolmogorovSmirnov(x, fixed, w, nil) },
		"ks, second":        func() (float64, error) { return KolmogorovSmirnov(fixed, x, nil, w) },
		"tv":                func() (float64, error) { return TotalVariation(x, fixed, w, nil) },
		"wasserstein":       func() (float64, error) { return Wasserstein(x, fixed, w, nil) },
		"contingency": func() (float64, error) {
			return ContingencyTotalVariation(codes(x), codes(fixed), []int{8}, w, nil)
		},
		"pearson": func() (float64, error) { return Pearson(x, y, w) },
		"pmse":    func() (float64, error) { return PMSE(flags, p, w) },
		"rmse":    func() (float64, error) { return RMSE(x, y, w) },
		"median":  func() (float64, error) { return Median(x, w) },
	}
}

func TestAWeightOfTwoIsTheRowTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 12).Draw(t, "n")
		var flags, flagsTwice []bool
		var x, y, w, xTwice, yTwice []float64
		for i := range n {
			flag := i == 0 || i > 1 && rapid.Bool().Draw(t, "flag")
			a, b := float64(rapid.IntRange(0, 7).Draw(t, "x")), float64(rapid.IntRange(0, 7).Draw(t, "y"))
			times := rapid.IntRange(0, 3).Draw(t, "times")
			if i < 2 { // so that both classes and two values are there
				a, b, times = float64(i), float64(i), times+1
			}
			flags, x, y, w = append(flags, flag), append(x, a), append(y, b), append(w, float64(times))
			for range times {
				flagsTwice, xTwice, yTwice = append(flagsTwice, flag), append(xTwice, a), append(yTwice, b)
			}
		}
		scale := rapid.SampledFrom([]float64{1, 7, 1e-310, 1e308 / 4}).Draw(t, "scale")
		tolerance := 1e-12
		if scale == 1e-310 {
			tolerance = 1e-10 // such numbers have fewer digits
		}
		scaled := make([]float64, n)
		for i := range w {
			scaled[i] = w[i] * scale
		}
		twice := weighted(flagsTwice, xTwice, yTwice, nil)
		for name, once := range weighted(flags, x, y, scaled) {
			got, err1 := once()
			want, err2 := twice[name]()
			if name == "median" && scale != 1 {
				continue // the last digit decides whether the halves are equal
			}
			if err1 != nil || err2 != nil || !(math.Abs(got-want) <= tolerance) {
				t.Fatalf("%s is %v, %v with weights, and %v, %v with rows repeated", name, got, err1, want, err2)
			}
		}
	})
}

func TestWeightsThatCannotBeUsed(t *testing.T) {
	flags, x, y := []bool{true, false, true}, []float64{1, 2, 3}, []float64{3, 1, 2}
	for _, c := range []struct {
		name string
		w    []float64
		says string
	}{
		{"negative", []float64{1, -1, 1}, "row 2 is -1"},
		{"not a number", []float64{1, 1, math.NaN()}, "row 3 is NaN"},
		{"infinite", []float64{math.Inf(1), 1, 1}, "row 1 is +Inf"},
		{"too few", []float64{1, 1}, "2 weights for 3 rows"},
		{"none at all", []float64{}, "0 weights for 3 rows"},
		{"all zero", []float64{0, 0, 0}, "all of them are 0"},
	} {
		for name, f := range weighted(flags, x, y, c.w) {
			if _, err := f(); !errors.Is(err, ErrWeights) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s weights for %s: %v; want one saying %q", c.name, name, err, c.says)
			}
		}
	}
	for name, f := range weighted(flags, x, y, []float64{1, 0, 1}) {
		_, err := f()
		if needsBoth := name == "auroc" || name == "average precision" ||
			name == "pmse"; errors.Is(err, ErrOneClass) != needsBoth {
			t.Errorf("%s of one class by weight: %v", name, err)
		}
	}
}

// The order of rows must not matter, and the same rows give the same bits.
func TestFiguresAreTheSameToTheLastBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 30).Draw(t, "n")
		a := rapid.SliceOfN(rapid.Float64Range(-3, 3), n, n).Draw(t, "a")
		w := rapid.SliceOfN(rapid.Float64Range(0.1, 3), n, n).Draw(t, "w")
		b := rapid.SliceOfN(rapid.Float64Range(-3, 3), n, n).Draw(t, "b")
		order := rapid.Permutation(indices(n)).Draw(t, "order")
		a2, w2 := make([]float64, n), make([]float64, n)
		for i, k := range order {
			a2[i], w2[i] = a[k], w[k]
		}
		for name, f := range distances() {
			first, err := f(a, b, w, nil)
			if err != nil {
				t.Fatal(err)
			}
			if second, _ := f(a2, b, w2, nil); second != first {
				t.Fatalf("%s changes from %v to %v with the order of the rows", name, first, second)
			}
			back, _ := f(b, a, nil, w)
			if back != first {
				t.Fatalf("%s is %v, the other way round %v", name, first, back)
			}
			if same, _ := f(a, a2, w, w2); same != 0 {
				t.Fatalf("%s of equal samples is %v", name, same)
			}
			if first < 0 || name != "wasserstein" && first > 1 {
				t.Fatalf("%s is %v", name, first)
			}
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func distances() map[string]func(a, b, wa, wb []float64) (float64, error) {
	return map[string]func(a, b, wa, wb []float64) (float64, error){
		"ks": KolmogorovSmirnov, "tv": TotalVariation, "wasserstein": Wasserstein,
	}
}
