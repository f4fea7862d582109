package pate

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var validEvents = []privacy.Event{
	{Kind: privacy.Gaussian, Sigma: 2, Sensitivity: 1, Count: 3},
	{Kind: privacy.GNMax, Sigma: 40, Count: 320},
	{Kind: privacy.ConfidentGNMax, Threshold: 150, Sigma1: 60, Sigma2: 40, Asked: 10, Answered: 4},
	{Kind: privacy.ConfidentGNMax, Sigma1: 60, Sigma2: 40, Asked: 10},
	{Kind: privacy.LNMax, Lambda: 0.05, Count: 1},
	{Kind: privacy.Laplace, Epsilon: 0.1, Count: 1},
	{Kind: privacy.Exponential, Epsilon: 0.1, Count: 7},
}

// rdpOfGNMax, rdpOfThreshold and rdpOfLNMax are the bounds of one query.
func rdpOfGNMax(votes []int64, sigma, alpha float64) float64 {
	return newLikelyOutcome(gnmaxLogQ(votes, sigma), sigma).rdp(alpha)
}

func rdpOfThreshold(votes []int64, threshold, sigma1, alpha float64) float64 {
	return thresholdOutcome(votes, threshold, sigma1).rdp(alpha)
}

func rdpOfLNMax(votes []int64, lambda, alpha float64) float64 {
	return min(testkit.Value(lnmaxIndependent(lambda, alpha)), pureLikelyRDP(lnmaxLogQ(votes, lambda), 2*lambda, alpha))
}

// closeTo fails unless got is within a relative tolerance of want.
func closeTo(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s = %.17g, want %.17g within %g (relative)", what, got, want, tolerance)
	}
}

// loadGroup reads figures of other implementations that lie beside the project, where
// they exist.
func loadGroup[T any](t *testing.T, name string) []T {
	t.Helper()
	raw, err := os.ReadFile("../../../shared/reference/privacy.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared/reference/privacy.json is not here; the figures in numbers_test.go are tested all the same")
	}
	testkit.Must(t, err)
	var groups map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal(raw, &groups))
	var rows []T
	testkit.Must(t, json.Unmarshal(groups[name], &rows))
	if len(rows) == 0 {
		t.Fatalf("group %s is empty", name)
	}
	return rows
}
