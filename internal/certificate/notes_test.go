package certificate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The mechanisms of a certificate describe the released events.
func TestMechanismsAreTheirEvents(t *testing.T) {
	events := []privacy.Event{
		{Kind: privacy.Gaussian, Sigma: 3, Sensitivity: 2, Count: 4}, {Kind: privacy.GNMax, Sigma: 112, Count: 64},
		{Kind: privacy.SubsampledGaussian, Rate: 0.1, NoiseMultiplier: 2, Count: 7},
		{Kind: privacy.ConfidentGNMax, Threshold: 9, Sigma1: 200, Sigma2: 120, Asked: 64, Answered: 31},
		{Kind: privacy.LNMax, Lambda: 0.1, Count: 2}, {Kind: privacy.Laplace, Epsilon: 0.05, Count: 1},
		{Kind: privacy.Exponential, Epsilon: 0.2, Count: 3},
	}
	if diff := cmp.Diff(events, Certificate{Privacy: Privacy{Mechanisms: Mechanisms(events)}}.Events()); diff != "" {
		t.Error(diff)
	}
}

func TestNotes(t *testing.T) {
	_, c, _ := example(t)
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "the data contains one record") ||
		!strings.Contains(c.Notes[0], "From epsilon and delta alone, the bound is 73.1%") {
		t.Errorf("the notes are %q", c.Notes)
	}
	raw, err := c.Canonical()
	testkit.Must(t, err)
	read, err := Parse(raw)
	testkit.Must(t, err)
	if diff := cmp.Diff(c.Notes, read.Notes); diff != "" {
		t.Error(diff)
	}
	for _, bad := range [][]string{{""}, {"two\nlines"}, {strings.Repeat("x", longestNote+1)},
		make([]string, mostNotes+1)} {
		c.Notes = bad
		if err := c.Validate(); !errors.Is(err, ErrCertificate) {
			t.Errorf("%d notes, the first of %d bytes: %v", len(bad), len(bad[0]), err)
		}
	}
}
