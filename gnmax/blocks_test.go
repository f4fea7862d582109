package gnmax

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// fixed draws these words, and then no more.
func fixed(words ...uint64) *draws {
	var raw []byte
	for _, w := range words {
		raw = binary.LittleEndian.AppendUint64(raw, w)
	}
	return &NewSourceFrom(bytes.NewReader(raw)).draws
}

// 1/e to 100 digits, and powers of it.
func TestExpBounds(t *testing.T) {
	inverse, _ := new(big.Float).SetPrec(400).SetString("0.3678794411714423215955237701614608674458111310317678" +
		"345078368016974614957448998033571472743459196437")
	for _, power := range []int64{0, 1, 2, 30, 90} {
		want := new(big.Float).SetPrec(400).SetInt64(1)
		for range power {
			want.Mul(want, inverse)
		}
		for _, p := range []uint{0, 1, 64, 128, 300} {
			low, high := expBounds(big.NewInt(power*7), big.NewInt(7), p)
			exact, _ := new(big.Float).SetMantExp(want, int(p)).Int(nil)
			if low.Cmp(exact) > 0 || high.Cmp(exact) < 0 || new(big.Int).Sub(high, low).Cmp(big.NewInt(3)) > 0 {
				t.Errorf("exp(-%d) 2^%d is %v, and its bounds are %v and %v", power, p, exact, low, high)
			}
		}
	}
	// The 512nd power of exp(-1/512).
	low, high := expBounds(big.NewInt(1), big.NewInt(512), 300)
	for range 9 {
		low, high = scaledDown(low, low, 300), scaledUp(high, high, 300)
	}
	exact, _ := new(big.Float).SetMantExp(inverse, 300).Int(nil)
	if low.Cmp(exact) > 0 || high.Cmp(exact) < 0 || new(big.Int).Sub(high, low).BitLen() > 20 {
		t.Errorf("bounds %v and %v of %v", low, high, exact)
	}
}

// The sum of all weights is (1 + 16 sqrt(2 pi))/2 but for 1e-2000 (Poisson summation).
func TestBlocksAreChosenByTheirWeights(t *testing.T) {
	table, sum := theBlocks(), 0.0
	for k, below := range table.below {
		sum += math.Exp(-float64(k*k) / 512)
		want := sum * 2 / (1 + 16*math.Sqrt(2*math.Pi))
		if got := float64(below) / (1 << 64); math.Abs(got-want) > 1e-13 {
			t.Errorf("a block up to %d has probability %v, want %v", k, got, want)
		}
		if k > 0 && below <= table.below[k-1] {
			t.Errorf("block %d has no probability", k)
		}
	}
	if last := table.below[len(table.below)-1]; last != math.MaxUint64 {
		t.Errorf("the table ends at %x", last)
	}
	lows, highs := blockBounds(320)
	for k, border := range table.below {
		for _, word := range []uint64{border - 1, border + 1} {
			if k == len(table.below)-1 && word == 0 {
				continue // there is no word after the last
			}
			want := uint64(k)
			if word > border {
				want++
			}
			if word >= table.below[want] || want > 0 && word <= table.below[want-1] {
				continue // a block that is so improbable has one word or two
			}
			if got := fixed(word).block(table); got != want {
				t.Errorf("word %x chooses block %d, want %d", word, got, want)
			}
		}
		// The words after the border decide, up to the last bit.
		if new(big.Int).Sub(highs[k], lows[k]).BitLen() > 8 {
			t.Fatalf("block %d: bounds %v and %v", k, lows[k], highs[k])
		}
		var rest [4]uint64
		digits := new(big.Int).Set(lows[k])
		for i := range rest {
			rest[3-i] = new(big.Int).And(digits, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
			digits.Rsh(digits, 64)
		}
		if digits.Uint64() != border || rest[2] == 0 || rest[2] == math.MaxUint64 {
			t.Fatalf("block %d: the border is %x, and its bounds begin with %x", k, border, digits)
		}
		for off, want := range map[uint64]uint64{rest[2] - 1: uint64(k), rest[2] + 1: uint64(k) + 1} {
			d := fixed(border, rest[0], rest[1], off)
			if got := d.block(table); got != want && k+1 < len(table.below) || d.err != nil {
				t.Errorf("at the border of block %d the words after it choose block %d, want %d (%v)", k, got, want,
					d.err)
			}
		}
	}
}

// A position in a block, for noise of any size.
func place(t *rapid.T) (b blocks, k, y uint64) {
	sigma := math.Exp(rapid.Float64Range(math.Log(leastBlocks), math.Log(maxSigma)-1e-9).Draw(t, "log sigma"))
	b = newBlocks(testkit.Value(NewSigma(sigma)))
	k = rapid.Uint64Range(0, 140).Draw(t, "block")
	return b, k, k*b.width + rapid.Uint64Range(0, b.width-1).Draw(t, "place")
}

// x is the exponent: a number is kept with probability exp(-x).
func (b *blocks) x(k, y uint64) *big.Rat {
	square := func(n uint64) *big.Rat {
		r := new(big.Rat).SetInt(new(big.Int).SetUint64(n))
		return r.Mul(r, r)
	}
	x := square(y)
	x.Quo(x, b.s.variance()).Sub(x, new(big.Rat).Quo(square(k), big.NewRat(256, 1)))
	return x.Quo(x, big.NewRat(2, 1))
}

func TestBlockExponents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, k, y := place(t)
		x := b.x(k, y)
		if x.Sign() < 0 {
			t.Fatalf("scale %d: x is %v in block %d, at %d", b.s.t, x, k, y)
		}
		low, high, ok := b.exponent(k, y)
		if !ok {
			if k < 64 && y < 1<<32 {
				t.Fatalf("scale %d: no bounds in block %d, at %d", b.s.t, k, y)
			}
			return
		}
		x.Mul(x, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64)))
		exactly := func(n uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(n)) }
		if x.Cmp(exactly(low)) < 0 || x.Cmp(exactly(high)) > 0 || high-low > 2000 {
			t.Fatalf("scale %d: %d and %d do not bound %v", b.s.t, low, high, x)
		}
	})
}

// Enough bits of the uniform number and of exp(-x) decide whether a number is kept, however close the two are.
func TestBlocksKeepExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, k, y := place(t)
		x := b.x(k, y)
		low, high := expBounds(x.Num(), x.Denom(), 256)
		border := low.Sub(new(big.Int).Lsh(big.NewInt(1), 256), low) // at most 2 above 2^256 (1 - exp(-x))
		if new(big.Int).Add(high, border).BitLen() > 258 {
			t.Fatalf("bounds %v and %v", high, border)
		}
		// Distances from adjacent to far away.
		distance := new(big.Int).Lsh(big.NewInt(4), rapid.UintRange(0, 250).Draw(t, "log distance"))
		for _, sign := range []int{-1, 1} {
			uniform := new(big.Int).Set(border)
			if sign < 0 {
				uniform.Sub(uniform, distance)
			} else {
				uniform.Add(uniform, distance)
			}
			if uniform.Sign() < 0 || uniform.BitLen() > 256 {
				continue
			}
			var raw [40]byte
			uniform.FillBytes(raw[:32])
			var words []uint64
			for i := range 5 { // the last distances exceed the bits
				words = append(words, binary.BigEndian.Uint64(raw[8*i:]))
			}
			d := fixed(words...)
			if got := b.kept(d, k, y); got != (sign > 0) || d.err != nil {
				t.Fatalf("scale %d, block %d, at %d: %v from %x, and the border is %x (%v)", b.s.t, k, y, got, uniform,
					border, d.err)
			}
		}
	})
}

// Noise of the largest scales, whose probability mass function does not fit in memory, is tested in 64 cells of
// equal probability.
func TestLargeNoiseIsNormal(t *testing.T) {
	if testing.Short() {
		t.Skip("a million draws")
	}
	for _, sigma := range []float64{1 << 14, 1e6 + 0.3, maxSigma} {
		t.Run(fmt.Sprint(sigma), func(t *testing.T) {
			s, xs := mustSigma(t, sigma), make([]int64, sampleSize)
			testkit.Must(t, NewSource().DiscreteGaussians(xs, s))
			cells := pmf{from: 0, mass: make([]float64, 64)}
			for i := range cells.mass {
				cells.mass[i] = 1. / 64
			}
			deviation := math.Sqrt(variance(s))
			for i, x := range xs {
				xs[i] = int64(32 * math.Erfc(-float64(x)/deviation/math.Sqrt2))
			}
			chiSquareOf(t, xs, cells)
		})
	}
}

// The draws of a fixed seed, so that no change alters them by mistake.
func TestDrawsOfASeed(t *testing.T) {
	got := make([]int64, 6)
	testkit.Must(t, NewSourceFrom(rand.NewChaCha8([32]byte{7})).DiscreteGaussians(got, mustSigma(t, 1e6)))
	testkit.Same(t, "", []int64{20210, -94396, 940482, -609962, -884534, -314811}, got)
}

// BenchmarkBlocks measures both samplers in turns, so that its ratio holds on a machine that does other work too.
func BenchmarkBlocks(b *testing.B) {
	for _, sigma := range []float64{1100, 1e6, maxSigma} {
		s, noise := mustSigma(b, sigma), make([]int64, 1000)
		src, blocks := NewSource(), newBlocks(s)
		old := func(d *draws) int64 { return d.gaussian(s) }
		b.Run(fmt.Sprintf("sigma=%g", sigma), func(b *testing.B) {
			var spent [2]time.Duration
			for b.Loop() {
				for i, sample := range []func(*draws) int64{old, blocks.draw} {
					began := time.Now()
					testkit.Must(b, src.fillWith(noise, sample))
					spent[i] += time.Since(began)
				}
			}
			b.ReportMetric(spent[0].Seconds()/spent[1].Seconds(), "times-as-fast")
			b.ReportMetric(float64(b.N*len(noise))/spent[1].Seconds()/1e6, "M/s")
		})
	}
}
