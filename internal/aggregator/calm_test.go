package aggregator

import (
	"slices"
	"testing"
)

// There is one collection after each burst, none during it, and none for a few joins.
func TestCalm(t *testing.T) {
	var c calm
	var collected []int
	for i, joins := range []uint64{0, 0, 63, 63, 64, 64, 64, 500, 900, 1000, 1000, 1000, 1063, 1063, 1064, 1100, 1100, 1100} {
		if c.due(joins) {
			collected = append(collected, i)
		}
	}
	if want := []int{5, 10, 16}; !slices.Equal(collected, want) {
		t.Errorf("collected at %v, want %v", collected, want)
	}
}
