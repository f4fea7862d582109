package main

import (
	"strings"
	"testing"
)

// Every case has a name of its own and options that a run takes.
func TestCasesAreRuns(t *testing.T) {
	for _, err := range program.Check() {
		// What only a wide data set's own schema refuses.
		if !strings.Contains(err.Error(), "debiased-norm-gamma: want a refusal") {
			t.Error(err)
		}
	}
}
