package main

import "testing"

// Every line has a name of its own and options that a run takes.
func TestLinesAreRuns(t *testing.T) {
	for _, err := range program.Check() {
		t.Error(err)
	}
	if warm, err := program.Choose("warm-*"); err != nil || len(warm) != 12 {
		t.Errorf("%d warm starts, %v", len(warm), err)
	}
}
