package main

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// A small cluster: every page is there, and a page shows each run that is cancelled.
func TestMeasureConsole(t *testing.T) {
	times, err := measureConsole(t.Context(), 4, 12, 1, 2)
	testkit.Must(t, err)
	if times.List <= 0 || times.First <= 0 || times.Event <= 0 || times.Slow < times.Event || len(times.Pages) < 10 {
		t.Errorf("%+v", times)
	}
	for _, p := range times.Pages {
		if p.Bytes < 1000 || p.Median <= 0 || p.Most < p.Median {
			t.Errorf("%+v", p)
		}
	}
}
