package pate

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Whatever comes in, what comes out is a finite number that is no less than the
// truth can be, or an error.

func usable(t *testing.T, what string) func(float64, error) {
	return func(x float64, err error) {
		t.Helper()
		switch {
		case err != nil && x != 0:
			t.Errorf("%s: %v beside the error %v", what, x, err)
		case math.IsNaN(x) || math.IsInf(x, 0) || x < 0:
			t.Errorf("%s = %v", what, x)
		}
	}
}

func FuzzPATEGANMoments(f *testing.F) {
	f.Add(int64(84), int64(16), 0.05, 1e-5)
	f.Add(int64(0), int64(math.MaxInt64), 1e300, 1e-300)
	f.Add(int64(1), int64(2), math.Inf(1), 0.0)
	f.Fuzz(func(t *testing.T, n0, n1 int64, lambda, delta float64) {
		usable(t, "moments")(PATEGANMoments([][]int64{{n0, n1}, {n1, n0}}, lambda, delta))
		usable(t, "moments")(PATEGANMoments([][]int64{{n0, n1}, {n1}}, lambda, delta))
	})
}

func FuzzDataDependent(f *testing.F) {
	f.Add("gnmax", int64(84), int64(16), 29.92, 3.0, 60.0, int64(0), int64(0), true, 1e-5)
	f.Add("confident-gnmax", int64(84), int64(16), 29.92, 3.0, 60.0, int64(2), int64(1), true, 1e-5)
	f.Add("lnmax", int64(5), int64(0), 1e-320, 0.0, 0.0, int64(2), int64(0), false, 1e-300)
	f.Add("gnmax", int64(math.MaxInt64), int64(0), 1e300, 3.0, 60.0, int64(0), int64(0), true, .999)
	f.Fuzz(func(t *testing.T, kind string, n0, n1 int64, a, b, threshold float64, count, answered int64, not bool,
		delta float64) {
		v := VotedEvent{Event: privacy.Event{Kind: privacy.Kind(kind)}, Votes: [][]int64{{n0, n1}, {n1, n0}}}
		switch v.Event.Kind {
		case privacy.GNMax:
			v.Event.Sigma, v.Event.Count = a, count
		case privacy.LNMax:
			v.Event.Lambda, v.Event.Count = a, count
		case privacy.ConfidentGNMax:
			v.Event.Sigma1, v.Event.Sigma2, v.Event.Threshold = a, b, threshold
			v.Event.Asked, v.Event.Answered, v.Unanswered = count, answered, []bool{not, false}
		}
		claim, err := DataDependent([]VotedEvent{v}, delta)
		for _, epsilon := range []*float64{claim.RDP, claim.PATEGANMoments} {
			if epsilon != nil {
				usable(t, "epsilon")(*epsilon, err)
			}
		}
	})
}
