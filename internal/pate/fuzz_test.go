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

func FuzzVoteBounds(f *testing.F) {
	f.Add(int64(84), int64(16), int64(0), 29.92, 12.0, 2.0, 60.0, -3.0)
	f.Add(int64(0), int64(250), int64(3), 1e-300, 1e300, 1.0000001, 0.0, -1e308)
	f.Add(int64(math.MaxInt64), int64(1), int64(-1), math.NaN(), math.Inf(1), 1e308, -1.0, 0.0)
	f.Add(int64(2), int64(1), int64(0), 1e-200, 1e290, 1.001, 1e300, math.Inf(-1))
	f.Add(int64(1)<<62, int64(0), int64(5), 1e150, 1e-300, 3.0, 9e18, math.NaN())
	f.Fuzz(func(t *testing.T, n0, n1, n2 int64, noise, other, alpha, threshold, logQ float64) {
		for _, votes := range [][]int64{nil, {n0}, {n0, n1}, {n0, n1, n2}} {
			usable(t, "gnmax")(GNMaxRDP(votes, noise, alpha))
			usable(t, "threshold")(ThresholdRDP(votes, threshold, noise, alpha))
			usable(t, "confident")(ConfidentRDP(votes, threshold, noise, other, n2 > 0, alpha))
			usable(t, "lnmax")(LNMaxRDP(votes, noise, alpha))
			usable(t, "pure")(PureRDPWithLikelyOutcome(logQ, noise, alpha))
			for what, bound := range map[string]func() (float64, error){
				"gnmax log q":     func() (float64, error) { return GNMaxLogQ(votes, noise) },
				"lnmax log q":     func() (float64, error) { return LNMaxLogQ(votes, noise) },
				"threshold log q": func() (float64, error) { return ThresholdLogAnswered(votes, threshold, noise) },
			} {
				if q, err := bound(); math.IsNaN(q) || q > 0 || err != nil && q != 0 {
					t.Errorf("%s = %v, %v", what, q, err)
				}
			}
		}
	})
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

func FuzzSmoothSensitivity(f *testing.F) {
	f.Add(uint16(84), uint16(16), uint16(0), 29.92, 4.0, 0.02)
	f.Add(uint16(1), uint16(0), uint16(0), 1.0, 2.0, 0.2)
	f.Add(uint16(65535), uint16(1), uint16(9), 1e-3, 1.5, 1e-300)
	f.Add(uint16(3), uint16(3), uint16(3), 1e9, 1e6, 1e-9)
	f.Fuzz(func(t *testing.T, n0, n1, n2 uint16, sigma, order, beta float64) {
		votes := []int64{int64(n0), int64(n1), int64(n2)}
		usable(t, "smooth sensitivity")(GNMaxSmoothSensitivity(votes, sigma, order, beta))
		local, err := GNMaxLocalSensitivities(votes, sigma, order)
		for _, s := range local {
			usable(t, "local sensitivity")(s, err)
		}
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
