package gnmax

import (
	"math"
	"math/big"
	"math/bits"
	"sync"
)

// perScale is the number of blocks of magnitudes within the scale t of a [Sigma]. More blocks mean fewer repeated
// draws; with 16, one draw in 40 is repeated.
const perScale = 16

// leastBlocks is the smallest scale t that is drawn by blocks. Below it, blocks of whole numbers fit badly.
const leastBlocks = 1 << 10

// blocks draws discrete Gaussian noise of a large variance v = t w/q, exactly, by rejection from a histogram.
//
// Magnitudes are divided into blocks of T = ceil(t/16) integers each. Block k is chosen with probability
// proportional to exp(-k²/(2 16²)), then y = k T + u with u uniform below T, and a sign. Since v <= t² <= (16 T)²,
//
//	y²/(2 v) >= (k T)²/(2 v) >= k²/(2 16²),
//
// so y is kept with probability exp(-x), x = y²/(2 v) - k²/(2 16²) >= 0. Kept values have probability proportional
// to exp(-y²/(2 v)). Zero would occur with both signs, so one of them is rejected.
//
// (v <= t² as w <= t q: see [sigmaOfVariance].) This is the rejection method (von Neumann 1951), with lazy
// comparisons (Karney 2016). Both decisions compare a uniform number with an irrational one. 64 bits of the first
// are drawn and compared with proven integer bounds on the second. These decide except once in 2^50 times. Then
// both numbers get more bits until the comparison is decided ([draws.exactBlock], [blocks.exactlyKept]). No
// floating-point numbers are used.
type blocks struct {
	s     Sigma
	width uint64 // T
	// factor is floor(2^(64+shift) q/(2 t w)), from 2^63 to 2^64: 2^64 y²/(2 v) is about y² factor/2^shift.
	factor uint64
	shift  int
	table  *blockTable
}

func newBlocks(s Sigma) blocks {
	b := blocks{s: s, width: (s.t + perScale - 1) / perScale, table: theBlocks()}
	double := 2 * s.t * s.w // below 2^62
	b.shift = bits.Len64(double) - bits.Len64(s.q)
	if s.q<<b.shift >= double {
		b.shift--
	}
	b.factor, _ = bits.Div64(s.q<<b.shift, 0, double)
	return b
}

// draw returns one number.
func (b *blocks) draw(d *draws) int64 {
	for range maxRepeats {
		k := d.block(b.table)
		u := d.uniform(2 * b.width) // below 2^27
		y := k*b.width + u>>1
		if d.err != nil {
			return 0
		}
		negative := u&1 == 1
		if negative && y == 0 || !b.kept(d, k, y) {
			continue
		}
		if negative {
			return -int64(y)
		}
		return int64(y)
	}
	d.fail(errBroken)
	return 0
}

// exponent bounds 2^64 x: low <= 2^64 x <= high. It returns false if x is 1/2 or more, or if y² does not fit, which is
// rare.
//
// With e the remainder of the division, y² factor/2^shift = 2^64 y²/(2 v) - y² e/2^shift with 0 <= e < 1, and
// rounding down subtracts less than one. The term in k is an integer: 2^64 k²/512.
func (b *blocks) exponent(k, y uint64) (low, high uint64, ok bool) {
	if y >= 1<<32 {
		return 0, 0, false
	}
	hi, lo := bits.Mul64(y*y, b.factor)
	lo, hi = lo>>b.shift|hi<<(64-b.shift), hi>>b.shift
	lo, borrow := bits.Sub64(lo, k*k<<55, 0)
	hi, borrow = bits.Sub64(hi, k*k>>9, borrow)
	slack := 2 + y*y>>b.shift
	if borrow != 0 { // rounded below zero
		return 0, slack, true
	}
	if hi != 0 || lo >= 1<<63-slack {
		return 0, 0, false
	}
	return lo, lo + slack, true
}

// kept is true with probability exp(-x), for y in block k. It is false if a uniform number is below
//
//	1 - exp(-x) = x - x²/2 + x³/6 - ...,
//
// which is at most a partial sum with an odd number of terms, and at least one with an even number, since the
// terms decrease.
func (b *blocks) kept(d *draws, k, y uint64) bool {
	low, high, ok := b.exponent(k, y)
	if !ok {
		return b.exactlyKept(d, k, y, new(big.Int), 0)
	}
	uniform := d.word()
	if uniform >= high { // most often
		return true
	}
	least, most := low, high // term i is between them
	sumLow, sumHigh := low, high
	for i := uint64(2); i < 16; i++ {
		down, _ := bits.Mul64(least, low)
		up, _ := bits.Mul64(most, high)
		least, most = down/i, (up+1)/i+1
		if i%2 == 0 {
			sumLow, sumHigh = sumLow-min(sumLow, most), sumHigh-least
			if uniform < sumLow {
				return false
			}
		} else {
			sumLow, sumHigh = sumLow+least, sumHigh+most
			if uniform >= sumHigh {
				return true
			}
		}
	}
	return b.exactlyKept(d, k, y, new(big.Int).SetUint64(uniform), 64)
}

// exactlyKept is kept with the given bits of the uniform number, and draws more bits as needed.
func (b *blocks) exactlyKept(d *draws, k, y uint64, uniform *big.Int, have uint) bool {
	// x = (16² y² q - k² t w)/(2 16² t w)
	number := func(factors ...uint64) *big.Int {
		n := big.NewInt(1)
		for _, f := range factors {
			n.Mul(n, new(big.Int).SetUint64(f))
		}
		return n
	}
	n := number(perScale*perScale, y, y, b.s.q)
	n.Sub(n, number(k, k, b.s.t, b.s.w))
	denominator := number(2*perScale*perScale, b.s.t, b.s.w)
	one := big.NewInt(1)
	for range maxExtended {
		if d.err != nil {
			return false
		}
		low, high := expBounds(n, denominator, have)
		all := new(big.Int).Lsh(one, have)
		switch { // 1 - exp(-x) is between all - high and all - low
		case uniform.Cmp(high.Sub(all, high)) < 0:
			return false
		case uniform.Cmp(low.Sub(all, low)) >= 0:
			return true
		}
		uniform, have = d.extend(uniform), have+64
	}
	d.fail(errBroken)
	return false
}

// maxExtended bounds how often a number is extended by 64 bits. A random number needs more with a probability
// below 2^-4000.
const maxExtended = 64

// extend appends 64 random bits to a number.
func (d *draws) extend(x *big.Int) *big.Int {
	return x.Add(new(big.Int).Lsh(x, 64), new(big.Int).SetUint64(d.word()))
}

// blockTable chooses blocks. below[k] is floor(2^64 P[block <= k]), up to the first that is 2^64-1. first holds the
// first possible block for the eight leading bits of a uniform number.
type blockTable struct {
	below []uint64
	first [256]uint16
}

// theBlocks makes the table once.
var theBlocks = sync.OnceValue(func() *blockTable {
	t := &blockTable{}
	lows, highs := blockBounds(128)
	for k, low := range lows {
		below := new(big.Int).Rsh(low, 64)
		if below.Cmp(new(big.Int).Rsh(highs[k], 64)) != 0 {
			panic("gnmax: the table of blocks needs more bits") // it is the same at every start
		}
		t.below = append(t.below, below.Uint64())
		if below.Uint64() == math.MaxUint64 {
			break
		}
	}
	k := uint16(0)
	for lead := range t.first {
		for t.below[k] < uint64(lead)<<56 {
			k++
		}
		t.first[lead] = k
	}
	return t
})

// block chooses a block. A uniform number whose 64 leading bits differ from those of every border is on one side of it.
func (d *draws) block(t *blockTable) uint64 {
	uniform := d.word()
	k := t.first[uniform>>56]
	for uniform > t.below[k] {
		k++
	}
	if uniform == t.below[k] {
		return d.exactBlock(uniform)
	}
	return uint64(k)
}

// exactBlock chooses a block by a uniform number that starts with the given bits and gets more as needed.
func (d *draws) exactBlock(lead uint64) uint64 {
	uniform := new(big.Int).SetUint64(lead)
	for have := uint(64); d.err == nil && have < 64*maxExtended; have += 64 {
		lows, highs := blockBounds(have)
		for k := range lows {
			if uniform.Cmp(lows[k]) < 0 {
				return uint64(k)
			}
			if uniform.Cmp(highs[k]) < 0 {
				break // it takes more bits
			}
		}
		uniform = d.extend(uniform)
	}
	d.fail(errBroken)
	return 0
}

// blockBounds bounds 2^p P[block <= k] for all k, up to the blocks with almost no weight. The weights are
// exp(-k²/512), each the previous one times exp(-(2k+1)/512). From k = 128 on each weight is below 0.61 times the
// previous one, so all later weights together are less than three times the next one.
func blockBounds(p uint) (lows, highs []*big.Int) {
	const divisor = 2 * perScale * perScale
	precision := p + 64
	low, high := expBounds(big.NewInt(1), big.NewInt(divisor), precision)
	squareLow, squareHigh := scaledDown(low, low, precision), scaledUp(high, high, precision)
	weightLow := new(big.Int).Lsh(big.NewInt(1), precision)
	weightHigh := new(big.Int).Set(weightLow)
	sumLow, sumHigh := new(big.Int), new(big.Int)
	enough := new(big.Int).Lsh(big.NewInt(1), precision-p-16)
	for k := 0; k < 128 || weightHigh.Cmp(enough) > 0; k++ {
		sumLow.Add(sumLow, weightLow)
		sumHigh.Add(sumHigh, weightHigh)
		lows, highs = append(lows, new(big.Int).Set(sumLow)), append(highs, new(big.Int).Set(sumHigh))
		weightLow, weightHigh = scaledDown(weightLow, low, precision), scaledUp(weightHigh, high, precision)
		low, high = scaledDown(low, squareLow, precision), scaledUp(high, squareHigh, precision)
	}
	all := new(big.Int).Add(sumHigh, weightHigh.Mul(weightHigh, big.NewInt(3)))
	for k := range lows {
		lows[k].Quo(lows[k].Lsh(lows[k], p), all)
		highs[k].Quo(highs[k].Lsh(highs[k], p), sumLow)
		highs[k].Add(highs[k], big.NewInt(1))
	}
	return lows, highs
}
