package main

import "testing"

// Every case has a name of its own and options that a run takes.
func TestCasesAreRuns(t *testing.T) {
	for _, err := range program.Check() {
		t.Error(err)
	}
}
