package gnmax

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// The building block, against its definition.
func TestBernoulliExp(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	src := NewSource()
	const n = 200_000
	for _, c := range []struct{ hi, lo, denominator uint64 }{
		{0, 0, 7}, {0, 1, 100}, {0, 1, 2}, {0, 6, 7}, {0, 1, 1}, {0, 9, 4}, {0, 5, 1},
		{0, 1 << 61, 1 << 62}, {1, 0, 1 << 63}, {5, 0, 1}, // the last is exp(-5 2^64)
	} {
		p := math.Exp(-(float64(c.hi)*0x1p64 + float64(c.lo)) / float64(c.denominator))
		hits := 0.0
		for range n {
			x, err := src.draw(func(d *draws) int64 {
				if d.bernoulliExp(c.hi, c.lo, c.denominator) {
					return 1
				}
				return 0
			})
			testkit.Must(t, err)
			hits += float64(x)
		}
		checkMean(t, fmt.Sprintf("exp(-(%d 2^64 + %d)/%d)", c.hi, c.lo, c.denominator), hits/n, p, p*(1-p), n)
	}
}

// The table of the first seven tosses matches the alternating series, and so do the further tosses that it leaves open:
// a zero from it, then 1/8, 1/9, ...
func TestBernoulliExpOne(t *testing.T) {
	const all = 5040
	odd, factorial := 0.0, 1.0
	for k := 2.0; k <= 7; k++ { // K = k has probability 1/(k-1)! - 1/k!
		before := factorial
		factorial *= k
		if int(k)%2 == 1 {
			odd += all/before - all/factorial
		}
	}
	got := 0.0
	for x := uint64(1); x < all; x++ {
		// The word whose product with 5040 lies in the middle of interval x.
		w := uint16((x<<16 + 1<<15) / all)
		d := draws{reader: bytes.NewReader(binary.LittleEndian.AppendUint16(nil, w))}
		if d.bernoulliExpOne() {
			got++
		}
		if d.err != nil {
			t.Fatal(d.err)
		}
	}
	if got != odd {
		t.Errorf("%v of 5040 numbers are true, want %v", got, odd)
	}
	for words, want := range map[[2]uint16]bool{
		{1 << 15, 0}:    false, // 4 of 8: K = 8
		{0, 1 << 15}:    true,  // 0 of 8, 4 of 9: K = 9
		{1 << 12, 8000}: true,  // 0 of 8, 1 of 9
	} {
		// 13 times 5040 is below 2^16 and above the part that is drawn again.
		input := []byte{13, 0}
		input = binary.LittleEndian.AppendUint16(input, words[0])
		input = binary.LittleEndian.AppendUint16(input, words[1])
		d := draws{reader: bytes.NewReader(input)}
		if got := d.bernoulliExpOne(); got != want || d.err != nil {
			t.Errorf("words %v: %v, %v", words, got, d.err)
		}
	}
}

func TestUniform(t *testing.T) {
	src := NewSource()
	for _, n := range []uint64{3, 10, 100} {
		xs := draw(t, 200_000, func() (int64, error) {
			return src.draw(func(d *draws) int64 { return int64(d.uniform(n)) })
		})
		chiSquareOf(t, xs, pmf{mass: slices.Repeat([]float64{1}, int(n))})
	}
	// The longer words by their quarters: 2^20 and 2^40 take 32 and 64 bits.
	for _, n := range []uint64{1 << 13, 1<<32 - 4, 1 << 32, 1 << 40, 1<<64 - 4} {
		xs := draw(t, 100_000, func() (int64, error) {
			return src.draw(func(d *draws) int64 { return int64(d.uniform(n) / (n / 4)) })
		})
		chiSquareOf(t, xs, pmf{mass: []float64{1, 1, 1, 1}})
	}
	// If the range does not divide the number of words, some words must be drawn again: the word 0 would represent
	// the number 0 once too often.
	for _, n := range []uint64{3, 5040, 1<<13 - 1, 1<<13 + 1, 1<<32 - 1, 1<<32 + 1, 1<<63 + 1} {
		d := draws{reader: constant(0)}
		if d.uniform(n); d.err == nil {
			t.Errorf("below %d: a word from the uneven rest was used", n)
		}
	}
}

// With words of 16 bits every number below n comes from equally many words: all
// of them counted.
func TestUniformIsExact(t *testing.T) {
	var word bytes.Reader
	d := draws{reader: &word}
	for _, n := range []uint64{1, 2, 3, 7, 100, 101, 5040, 8191} {
		numbers := make([]int, n)
		for w := range 1 << 16 {
			// The bytes end after a word that must be drawn again.
			d.err = nil
			word.Reset([]byte{byte(w), byte(w >> 8)})
			if x := d.uniform(n); d.err == nil {
				numbers[x]++
			}
		}
		for x, words := range numbers {
			if words != 1<<16/int(n) {
				t.Fatalf("below %d: %d comes from %d words, want %d", n, x, words, 1<<16/int(n))
			}
		}
	}
}
