package queue

import (
	"testing"

	"github.com/conclave-dp/conclave/coordinator"
)

// The duration of a run is reported to the minute and no more finely.
func TestTimesOfTheQueueAreCut(t *testing.T) {
	var e entry
	e.record.Submitted = "2026-03-04T05:06:07.089Z"
	if s := statusOfEntry(e, coordinator.Run{}); s.GetClaimed() != "" || s.GetEnded() != "" {
		t.Errorf("before it runs it was claimed at %q and ended at %q", s.GetClaimed(), s.GetEnded())
	}
	e.record.Claimed, e.record.Ended = "2026-03-04T05:06:59.999Z", "2026-03-04T06:00:00.000Z"
	s := statusOfEntry(e, coordinator.Run{})
	if s.GetClaimed() != "2026-03-04T05:06:00Z" || s.GetEnded() != "2026-03-04T06:00:00Z" {
		t.Errorf("it was claimed at %q and ended at %q", s.GetClaimed(), s.GetEnded())
	}
}
