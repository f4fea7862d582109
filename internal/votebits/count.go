package votebits

import (
	"encoding/binary"
	"fmt"
)

// Count counts the packed votes of teachers, a row of [Row] bytes each, in counts, which are zeros: queries x
// classes of them, row-major. The error names a vote for a class that there is not by its place, and not the vote;
// counts are of no use then.
func Count(counts []int64, packed []byte, teachers, queries, classes int) error {
	row := Row(queries, classes)
	if classes == 2 {
		countBits(counts, packed, teachers, queries, row)
		return nil
	}
	return countWide(counts, packed, teachers, queries, classes, row)
}

// spread has bit i of its index as byte i of its value, so that adding
// spread[b] counts eight one-bit votes at once.
var spread = func() (t [256]uint64) {
	for b := range t {
		for i := range 8 {
			t[b] |= uint64(b>>i&1) << (8 * i)
		}
	}
	return t
}()

// countBits counts one-bit votes: eight queries in the eight byte lanes of a
// word, emptied before a lane can overflow.
func countBits(counts []int64, packed []byte, teachers, queries, row int) {
	const lanesFull = 255
	var small [64]uint64 // of most questions, and not on the heap
	sums := small[:]
	if row > len(small) {
		sums = make([]uint64, row)
	}
	sums = sums[:row]
	var lanes [8]byte
	for first := 0; first < teachers; first += lanesFull {
		last := min(first+lanesFull, teachers)
		t := first
		for ; t+7 <= last; t += 7 {
			addSeven(sums, packed[t*row:(t+7)*row], row)
		}
		for ; t < last; t++ {
			for i, b := range packed[t*row : (t+1)*row] {
				sums[i] += spread[b]
			}
		}
		for i, s := range sums {
			binary.LittleEndian.PutUint64(lanes[:], s)
			for q := 8 * i; q < min(8*i+8, queries); q++ {
				counts[2*q+1] += int64(lanes[q-8*i])
			}
			sums[i] = 0
		}
	}
	for q := range queries {
		counts[2*q] = int64(teachers) - counts[2*q+1]
	}
}

// addSeven adds seven rows: 64 queries at once by full adders, which leave a sum of three
// binary digits for each, so that three spreads stand for seven.
func addSeven(sums []uint64, rows []byte, row int) {
	i := 0
	for ; i+8 <= row; i += 8 {
		word := func(t int) uint64 { return binary.LittleEndian.Uint64(rows[t*row+i:]) }
		a, twosA := fullAdder(word(0), word(1), word(2))
		b, twosB := fullAdder(word(3), word(4), word(5))
		ones, twosC := fullAdder(a, b, word(6))
		twos, fours := fullAdder(twosA, twosB, twosC)
		for lane := range 8 {
			sums[i+lane] += spread[byte(ones)] + spread[byte(twos)]<<1 + spread[byte(fours)]<<2
			ones, twos, fours = ones>>8, twos>>8, fours>>8
		}
	}
	for ; i < row; i++ {
		for t := range 7 {
			sums[i] += spread[rows[t*row+i]]
		}
	}
}

// fullAdder adds three bits in each place.
func fullAdder(a, b, c uint64) (sum, carry uint64) {
	half := a ^ b
	return half ^ c, a&b | half&c
}

// countWide counts votes of 2, 4 or 8 bits.
func countWide(counts []int64, packed []byte, teachers, queries, classes, row int) error {
	bits := Width(classes)
	perByte := 8 / bits
	mask := 1<<bits - 1
	for t := range teachers {
		votes := packed[t*row : (t+1)*row]
		for q := range queries {
			class := int(votes[q/perByte]) >> (q % perByte * bits) & mask
			if class >= classes {
				return fmt.Errorf("a vote for a class out of range 0 to %d (teacher %d, query %d)", classes-1, t,
					q)
			}
			counts[q*classes+class]++
		}
	}
	return nil
}
