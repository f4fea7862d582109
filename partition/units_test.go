package partition

import (
	"errors"
	"testing"
)

// A node with more units than sums allow does not start, instead of having a sum refused later.
func TestTooManyUnits(t *testing.T) {
	for most, want := range map[int]bool{1: true, 2: true, 3: false, 4: false} {
		if got := errors.Is(CheckUnits(3, 1, most), ErrTooManyUnits); got != want {
			t.Errorf("3 units, %d at most: %v", most, got)
		}
	}
}
