package round

import (
	"testing"
	"time"
)

// A pass is given up if nobody has waited for its fit for a while, also while it waits for a quorum that does not
// come.
func TestAPassEndsWithItsFit(t *testing.T) {
	outer, inner := testExecution(t), testExecution(t)
	inner.outer = outer
	given := func() bool { return outer.abandoned.Err() != nil }
	late := time.Now().Add(2 * abandonAfter)
	if _, err := inner.step(nil, late); err != nil || given() {
		t.Fatalf("given up while somebody waits (%v)", err)
	}
	outer.Leave()
	if _, err := inner.step(nil, time.Now()); err != nil || given() {
		t.Fatalf("given up at once (%v)", err)
	}
	for range 2 { // however often
		if _, err := inner.step(nil, late); err != nil || !given() {
			t.Fatalf("not given up (%v)", err)
		}
	}
	outer.cancel()
}
