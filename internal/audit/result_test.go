package audit

import (
	"strings"
	"testing"
)

// A violation is an error, which ends the command with exit code 1, and says
// where and what to do.
func TestViolationIsAnError(t *testing.T) {
	results := []Result{{Case: "gnmax-winner"}, {Case: "lnmax-winner", Violation: true}}
	err := Violated(results)
	if err == nil || !strings.Contains(err.Error(), "is violated for lnmax-winner: ") ||
		!strings.Contains(err.Error(), "release nothing") {
		t.Errorf("got %v", err)
	}
	if err := Violated(results[:1]); err != nil {
		t.Errorf("no violation is an error: %v", err)
	}
}
