package gnmax

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// length is c of [NormGamma], computed in a different way from the sampler.
func length(z ...int64) int64 {
	squares := new(big.Int)
	for _, x := range z {
		squares.Add(squares, new(big.Int).Mul(big.NewInt(x), big.NewInt(x)))
	}
	squares.Lsh(squares, 2*lengthBits)
	root := new(big.Int).Sqrt(squares)
	if new(big.Int).Mul(root, root).Cmp(squares) != 0 {
		root.Add(root, big.NewInt(1))
	}
	return root.Int64()
}

// logWeight is the logarithm of z's probability, up to a constant.
func (m *NormGamma) logWeight(z ...int64) float64 {
	s, _ := m.Scale().Float64()
	squares := 0.0
	for _, x := range z {
		squares += float64(x * x)
	}
	// Below 2^53 the root of a square is exact, and no other is rounded up to a whole number.
	return -math.Ceil((1<<lengthBits)*math.Sqrt(squares)) / (1 << lengthBits) / s
}

func TestRootUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hi := rapid.Uint64Range(0, 1<<62-1).Draw(t, "hi") >> rapid.IntRange(0, 62).Draw(t, "shift")
		lo := rapid.Uint64().Draw(t, "lo")
		if rapid.Bool().Draw(t, "square") { // and its neighbours, where rounding changes
			root := new(big.Int).SetUint64(rapid.Uint64Range(1, 1<<63-1).Draw(t, "root"))
			n := root.Mul(root, root)
			n.Add(n, big.NewInt(rapid.Int64Range(-1, 1).Draw(t, "beside")))
			lo = new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
			hi = n.Rsh(n, 64).Uint64()
		}
		n := new(big.Int).SetUint64(hi)
		n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(lo))
		r := new(big.Int).SetUint64(rootUp(hi, lo))
		if new(big.Int).Mul(r, r).Cmp(n) < 0 {
			t.Fatalf("%v is less than the root of %v", r, n)
		}
		if r.Sub(r, big.NewInt(1)); r.Sign() >= 0 && new(big.Int).Mul(r, r).Cmp(n) >= 0 {
			t.Fatalf("%v is enough for the root of %v", r, n)
		}
	})
	for n := range uint64(1000) {
		if got, want := rootUp(0, n), uint64(math.Ceil(math.Sqrt(float64(n)))); got != want {
			t.Errorf("root of %d: %d, want %d", n, got, want)
		}
	}
}

// The proposal's own distribution and the exponent together give c/(2^10 s), as fractions, up to the largest possible
// entries.
func TestRadialExponentIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, maxDimension).Draw(t, "d")
		s := new(big.Rat).SetFloat64(math.Exp2(rapid.Float64Range(-30, 35).Draw(t, "log s")))
		r, ok := newRadial(s, d)
		if !ok {
			t.Fatalf("s = %v with %d entries is refused", s, d)
		}
		scale := new(big.Rat).SetFrac(new(big.Int).SetUint64(r.num), new(big.Int).SetUint64(r.den))
		proposal := new(big.Rat).Mul(scale, big.NewRat(int64(r.root), 1<<rootBits))
		ceiling := new(big.Rat).Mul(proposal, big.NewRat(1<<12, 1))
		reach := new(big.Int).Quo(ceiling.Num(), ceiling.Denom()).Int64()
		reach >>= rapid.IntRange(0, 30).Draw(t, "less")
		z := make([]int64, d)
		var hi, lo, sum uint64
		squares := new(big.Int)
		for i := range z {
			z[i] = rapid.OneOf(rapid.Just(reach), rapid.Just(int64(0)), rapid.Int64Range(-reach, reach)).Draw(t, "z")
			squares.Add(squares, new(big.Int).Mul(big.NewInt(z[i]), big.NewInt(z[i])))
			sum += uint64(max(z[i], -z[i]))
		}
		lo = new(big.Int).And(squares, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		hi = new(big.Int).Rsh(squares, 64).Uint64()
		high, low, denominator := r.exponent(hi, lo, sum)
		n := new(big.Int).SetUint64(high)
		n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(low))
		got := new(big.Rat).SetFrac(n, new(big.Int).SetUint64(denominator))
		own := new(big.Rat).SetInt64(int64(sum))
		got.Add(got, own.Quo(own, proposal))
		want := big.NewRat(length(z...), 1<<lengthBits)
		if want.Quo(want, scale); got.Cmp(want) != 0 {
			t.Fatalf("s %v, z %v: the exponents add up to %v, want %v", scale, z, got, want)
		}
	})
}

// s is (sensitivity + 2^-10)/epsilon, and at most one part in 10^7 above it.
func TestNormGammaScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sensitivity := rapid.Int64Range(1, 1<<20).Draw(t, "sensitivity")
		epsilon := rapid.Float64Range(0.01, 10).Draw(t, "epsilon")
		m, err := NewNormGamma(epsilon, sensitivity, rapid.IntRange(1, maxDimension).Draw(t, "d"))
		if err != nil {
			t.Fatal(err)
		}
		needed := big.NewRat(1024*sensitivity+1, 1024)
		checkSlightlyAbove(t, m.Scale(), needed.Quo(needed, new(big.Rat).SetFloat64(epsilon)))
	})
}

// In one dimension the noise is discrete Laplace noise.
func TestNormGammaMassOfOne(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	src := NewSource()
	for _, m := range []*NormGamma{testkit.Value(NewNormGamma(3, 1, 1)), testkit.Value(NewNormGamma(0.9, 7, 1))} {
		scale, _ := m.Scale().Float64()
		checkNoise(t, draw(t, sampleSize, func() (int64, error) {
			noisy, err := m.Release(src, []int64{1 << 60})
			return noisy[0] - 1<<60, err
		}), laplacePMF(scale))
	}
}

// The sample agrees with the exact mass function in two dimensions, point by point (neighbours of little mass
// together). The last bin holds everything outside the square.
func TestNormGammaMassOfTwo(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	src := NewSource()
	for _, m := range []*NormGamma{testkit.Value(NewNormGamma(4, 1, 2)), testkit.Value(NewNormGamma(1, 1, 2)),
		testkit.Value(NewNormGamma(1.3, 4, 2))} {
		s, _ := m.Scale().Float64()
		square, far := int64(math.Ceil(6*s)), int64(math.Ceil(30*s))
		width := 2*square + 1
		exact := pmf{mass: make([]float64, width*width+1)}
		place := func(x, y int64) int64 {
			if max(x, -x, y, -y) > square {
				return width * width
			}
			return (x+square)*width + y + square
		}
		for x := -far; x <= far; x++ {
			for y := -far; y <= far; y++ {
				exact.mass[place(x, y)] += math.Exp(m.logWeight(x, y))
			}
		}
		chiSquareOf(t, draw(t, sampleSize, func() (int64, error) {
			noisy, err := m.Release(src, []int64{5, -9})
			return place(noisy[0]-5, noisy[1]+9), err
		}), exact)
	}
}

// In more dimensions the length is Gamma distributed with shape d and scale s, up to 2^-14 of it for fine noise, and
// its direction uniform.
func TestNormGammaMoments(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	src := NewSource()
	for d, n := range map[int]int{3: 40_000, 8: 20_000, 15: 3000} {
		m := testkit.Value(NewNormGamma(1, 1<<16, d))
		s, _ := m.Scale().Float64()
		values := make([]int64, d)
		var lengths, squares float64
		means, seconds := make([]float64, d), make([]float64, d)
		for range n {
			noise, err := m.Release(src, values)
			testkit.Must(t, err)
			square := 0.0
			for i, z := range noise {
				x := float64(z) / s
				square += x * x
				means[i] += x
				seconds[i] += x * float64(noise[(i+1)%d]) / s
			}
			lengths += math.Sqrt(square)
			squares += square
		}
		D, N := float64(d), float64(n)
		checkMean(t, "mean length", lengths/N, D, D, n)
		// E r^4 is d(d+1)(d+2)(d+3).
		checkMean(t, "mean square", squares/N, D*(D+1), D*(D+1)*((D+2)*(D+3)-D*(D+1)), n)
		for i := range d {
			// For a uniform direction u: E u_i² = 1/d, E u_i² u_j² = 1/(d (d+2)).
			checkMean(t, "mean of an entry", means[i]/N, 0, D+1, n)
			checkMean(t, "covariance of entries", seconds[i]/N, 0, (D+1)*(D+3), n)
		}
	}
}

// Exhaustively: no output within reach is more than e^epsilon times as probable from one of two values as from the
// other, for every move that the sensitivity allows. Computed with fractions, without tolerance; the bound is tight
// to less than 1%.
func TestNormGammaRatio(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	const reach = 30
	for _, c := range []struct {
		epsilon     float64
		sensitivity int64
		d           int
	}{{1, 1, 1}, {0.3, 5, 1}, {1, 1, 2}, {2, 3, 2}, {0.25, 5, 2}} {
		m := testkit.Value(NewNormGamma(c.epsilon, c.sensitivity, c.d))
		most := int64(0)
		wide := int64(reach)
		if c.d == 1 {
			wide = 0
		}
		for dx := -c.sensitivity; dx <= c.sensitivity; dx++ {
			for dy := -min(wide, c.sensitivity); dy <= min(wide, c.sensitivity); dy++ {
				if dx*dx+dy*dy > c.sensitivity*c.sensitivity {
					continue
				}
				for x := -int64(reach); x <= reach; x++ {
					for y := -wide; y <= wide; y++ {
						most = max(most, length(x-dx, y-dy)-length(x, y))
					}
				}
			}
		}
		loss := big.NewRat(most, 1<<lengthBits)
		loss.Quo(loss, m.Scale())
		epsilon := new(big.Rat).SetFloat64(c.epsilon)
		if loss.Cmp(epsilon) > 0 {
			t.Errorf("%+v: the largest loss is %v", c, loss.FloatString(9))
		}
		if used, _ := loss.Quo(loss, epsilon).Float64(); used < 0.99 {
			t.Errorf("%+v: only %v of epsilon is used", c, used)
		}
	}
}

func drawNormGamma(t *rapid.T) (e privacy.Event, m *NormGamma, move [2]int64) {
	sensitivity := rapid.Int64Range(1, 3).Draw(t, "sensitivity")
	e = privacy.Event{Kind: privacy.Laplace, Epsilon: rapid.Float64Range(1.5, 5).Draw(t, "epsilon"), Count: 1}
	m, err := NewNormGamma(e.Epsilon, sensitivity, 2)
	if err != nil {
		t.Fatal(err)
	}
	move[0] = rapid.Int64Range(1, sensitivity).Draw(t, "x")
	move[1] = rapid.Int64Range(0, sensitivity).Draw(t, "y")
	for move[0]*move[0]+move[1]*move[1] > sensitivity*sensitivity {
		move[1]--
	}
	return e, m, move
}

// movedNormGamma is two-dimensional noise before and after it moves.
func movedNormGamma(m *NormGamma, move [2]int64) outputs {
	s, _ := m.Scale().Float64()
	reach := int64(math.Ceil(32 * s))
	var o outputs
	total := 0.0
	for x := -reach; x <= reach; x++ {
		for y := -reach; y <= reach; y++ {
			p := math.Exp(m.logWeight(x, y))
			total += p
			o.p, o.q = append(o.p, p), append(o.q, math.Exp(m.logWeight(x-move[0], y-move[1])))
		}
	}
	for i := range o.p {
		o.p[i] /= total
		o.q[i] /= total
	}
	return o
}

func TestNormGammaIsRefused(t *testing.T) {
	for _, c := range []struct {
		epsilon     float64
		sensitivity int64
		d           int
		want        error
	}{
		{1, 1, 0, ErrParameter}, {1, 1, -3, ErrParameter}, {1, 1, maxDimension + 1, ErrDimension},
		{1, 0, 2, ErrParameter}, {1, -1, 2, ErrParameter}, {1, maxScale + 1, 2, ErrParameter},
		{0, 1, 2, ErrParameter}, {-1, 1, 2, ErrParameter}, {math.NaN(), 1, 2, ErrParameter},
		{math.Inf(1), 1, 2, ErrParameter},
		{1, maxScale, 2, ErrParameter}, {1e-300, 1, 2, ErrParameter}, {0.5, 1 << 37, 1, ErrParameter},
	} {
		if m, err := NewNormGamma(c.epsilon, c.sensitivity, c.d); !errors.Is(err, c.want) || m != nil {
			t.Errorf("%+v: %v, %v", c, m, err)
		}
	}
	if _, err := NewNormGamma(1, 1, 41); !strings.Contains(err.Error(), "gaussian") {
		t.Errorf("%q does not name what to use", err)
	}
	m := testkit.Value(NewNormGamma(1e300, 1, 2)) // almost no noise
	for _, values := range [][]int64{nil, {1}, {1, 2, 3}, {1, maxCount + 1}, {math.MinInt64, 7}} {
		if noisy, err := m.Release(NewSource(), values); !errors.Is(err, ErrSum) || noisy != nil {
			t.Errorf("%v: %v, %v", values, noisy, err)
		} else if strings.Contains(err.Error(), "7") {
			t.Errorf("the error %q shows a value", err)
		}
	}
	if noisy, err := (&NormGamma{}).Release(NewSource(), []int64{1}); !errors.Is(err, ErrParameter) || noisy != nil {
		t.Errorf("the zero mechanism: %v, %v", noisy, err)
	}
	values := []int64{3, -4}
	if noisy, err := m.Release(NewSource(), values); err != nil || !cmp.Equal(noisy, values) {
		t.Errorf("%v, %v", noisy, err)
	}
}

// A broken source gives an error and no values, also for many entries.
func TestNormGammaOfBrokenSources(t *testing.T) {
	for _, d := range []int{1, 2, 40} {
		m := testkit.Value(NewNormGamma(1, 1<<10, d))
		for value := range 256 { // must end, with or without an error
			if noisy, err := m.Release(NewSourceFrom(constant(value)), make([]int64, d)); err != nil && noisy != nil {
				t.Errorf("%v comes with the error %v", noisy, err)
			}
		}
		if noisy, err := m.Release(NewSourceFrom(bytes.NewReader(make([]byte, 12))), make([]int64, d)); err == nil ||
			noisy != nil {
			t.Errorf("from 12 bytes: %v, %v", noisy, err)
		}
	}
}

func BenchmarkNormGamma(b *testing.B) {
	src := NewSource()
	for _, d := range []int{4, 20, 30, 40} {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			m, values := testkit.Value(NewNormGamma(1, 1<<16, d)), make([]int64, d)
			for b.Loop() {
				if _, err := m.Release(src, values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
