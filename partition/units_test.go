package partition

import "testing"

// A node with more units than sums are made for does not start, rather than have a sum refused.
func TestTooManyUnits(t *testing.T) {
	digests := []digest{{1}, {2}, {2}, {3}}
	for most, want := range map[int]bool{1: true, 2: true, 3: false, 4: false} {
		if got := tooMany(digests, most); got != want {
			t.Errorf("3 units, %d at most: %v", most, got)
		}
	}
}
