package questiontest

import (
	"math/big"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
)

// CheckAnswer checks that an answer has its shape, and is no larger than the site's units or teachers can make it.
func CheckAnswer(t testing.TB, s *question.Site, a Answer) {
	t.Helper()
	if votes := a.Shape.Votes; votes != nil {
		if a.Shape.Sum != nil || votes.Queries < 1 || votes.Classes < 2 {
			t.Fatalf("votes of shape %+v, and a vector %+v", votes, a.Shape.Sum)
		}
		for _, vote := range Unpack(t, a.Votes, s.Teachers, votes.Queries, votes.Classes) {
			if int(vote) >= votes.Classes {
				t.Fatalf("a vote for class %d of %d", vote, votes.Classes)
			}
		}
		return
	}
	v := a.Shape.Sum
	if v == nil || v.Entries < 1 || v.Bound < 1 || !(v.Rate > 0 && v.Rate <= 1) || len(a.Sum) != v.Entries {
		t.Fatalf("%d numbers for a vector %+v", len(a.Sum), v)
	}
	if v.Counts && slices.Min(a.Sum) < 0 {
		t.Fatalf("counts of %v", a.Sum)
	}
	contributors := len(s.Units)
	if v.Per == question.PerTeacher {
		contributors = s.Teachers
	}
	if length, within := norm(v, a.Sum, int64(contributors)); !within {
		t.Fatalf("a sum of length %v by %d contributors with bound %d", length, contributors, v.Bound)
	}
}

// norm returns the length of values in a vector's norm (for blocks the largest L2 norm of one), and whether it is
// at most times the bound. The comparison uses integers.
func norm(v *question.Vector, values []int64, times int64) (longest float64, within bool) {
	blocks := v.Blocks
	if blocks == nil {
		blocks = []int{v.Entries}
	}
	most := new(big.Int).Mul(big.NewInt(v.Bound), big.NewInt(times))
	square := new(big.Int).Mul(most, most)
	within = true
	for _, n := range blocks {
		length, total := new(big.Int), new(big.Int) // the largest entry, and the sum of entries or squares
		for _, x := range values[:n] {
			b := big.NewInt(x)
			if b.Abs(b); b.Cmp(length) > 0 {
				length.Set(b)
			}
			if v.Norm != question.L1 {
				b = new(big.Int).Mul(b, b)
			}
			total.Add(total, b)
		}
		values = values[n:]
		switch {
		case v.Norm == question.Each && v.Blocks == nil:
			within = within && length.Cmp(most) <= 0
		case v.Norm == question.L1:
			within, length = within && total.Cmp(most) <= 0, total
		default:
			within = within && total.Cmp(square) <= 0
			l2, _ := new(big.Float).Sqrt(new(big.Float).SetInt(total)).Float64()
			longest = max(longest, l2)
			continue
		}
		l, _ := new(big.Float).SetInt(length).Float64()
		longest = max(longest, l)
	}
	return longest, within
}

// Unpack reads packed votes as the contract describes them: teacher by teacher, each row padded to a whole byte,
// the fewest of 1, 2, 4 and 8 bits, low bits first. It shares no code with question.Pack.
func Unpack(t testing.TB, packed []byte, teachers, queries, classes int) []uint8 {
	t.Helper()
	bits := map[bool]int{true: 1}[classes <= 2]
	for _, b := range []int{2, 4, 8} {
		if bits == 0 && classes <= 1<<b {
			bits = b
		}
	}
	perRow := 0
	for perRow*8 < queries*bits {
		perRow++
	}
	if len(packed) != teachers*perRow {
		t.Fatalf("%d bytes of votes, want %d teachers x %d", len(packed), teachers, perRow)
	}
	var votes []uint8
	for i := range teachers {
		row := packed[i*perRow : (i+1)*perRow]
		bit := func(k int) uint8 { return row[k/8] >> (k % 8) & 1 }
		for q := range queries {
			v := uint8(0)
			for b := range bits {
				v |= bit(q*bits+b) << b
			}
			votes = append(votes, v)
		}
		for k := queries * bits; k < 8*perRow; k++ {
			if bit(k) != 0 {
				t.Fatalf("teacher %d: padding bit %d is set", i, k)
			}
		}
	}
	return votes
}

// zeros says whether all numbers are 0.
func zeros(values []int64) bool {
	return !slices.ContainsFunc(values, func(v int64) bool { return v != 0 })
}
