package masking

import "testing"

func BenchmarkAddMask(b *testing.B) {
	vector := make([]int64, 1_000_000)
	seed := newSeed()
	b.SetBytes(8 * int64(len(vector)))
	for b.Loop() {
		addMask(vector, seed, false)
	}
}
