package round

import (
	"testing"
	"time"
)

// A masked round that nobody waits for is given up, not at once: a student may dial again.
func TestAMaskedRoundThatNobodyWaitsFor(t *testing.T) {
	e := testExecution(t)
	late := time.Now().Add(2 * abandonAfter)
	if e.giveUpIdle(late); e.abandoned.Err() != nil {
		t.Error("given up while somebody waits")
	}
	e.Leave()
	if e.giveUpIdle(time.Now()); e.abandoned.Err() != nil {
		t.Error("given up at once")
	}
	if e.giveUpIdle(late); e.abandoned.Err() == nil {
		t.Error("it goes on for nobody")
	}
}
