package peer

import (
	"fmt"
	"testing"
	"time"
)

// A caller without pauses gets the burst, and then one action per interval; others have their own. Nothing is
// remembered of quiet callers.
func TestRates(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := NewRates(5, time.Minute)
	r.now = func() time.Time { return now }
	got := 0
	for range 100 {
		wait, ok := r.Take("a")
		if ok {
			got++
		} else if wait <= 0 || wait > time.Minute {
			t.Errorf("it is to wait for %v", wait)
		}
		now = now.Add(6 * time.Second)
	}
	if got != 5+9 {
		t.Errorf("%d in ten minutes, want 14", got)
	}
	if _, ok := r.Take("b"); !ok {
		t.Error("another has none")
	}
	for i := range 1000 {
		now = now.Add(time.Hour)
		r.Take(fmt.Sprint(i))
	}
	if len(r.of) != 1 {
		t.Errorf("%d are remembered", len(r.of))
	}
}
