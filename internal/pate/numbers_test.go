package pate

import (
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// The wanted figures were computed from the formulas in the papers with 60
// decimal digits, those below 1e-60 with 800.

func TestGNMaxRDPNumbers(t *testing.T) {
	for _, c := range []struct {
		votes                   []int64
		sigma, alpha, logQ, rdp float64
	}{
		{[]int64{0, 250}, 40, 2, -12.216452871625254, 1.8898878431499485e-6},
		{[]int64{0, 250}, 40, 8, -12.216452871625254, 2.6472658910870287e-6},
		{[]int64{10, 3, 187}, 20, 3, -22.176331944306462, 3.241737707574862e-10},
		{[]int64{0, 1000}, 20, 4, -629.48518635463163, 2.6339714306459534e-271},
		{[]int64{1000, 0}, 21, 6, -571.32990188406388, 1.3302773808709983e-244},
		{[]int64{900, 60, 40}, 100, 1.25, -20.017951484217445, 3.7269262168978765e-10},
		{[]int64{51, 49}, 10, 2, -0.81245215429734091, 0.02},
	} {
		closeTo(t, "log q", gnmaxLogQ(c.votes, c.sigma), c.logQ, 1e-13)
		closeTo(t, "rdp", rdpOfGNMax(c.votes, c.sigma, c.alpha), c.rdp, 1e-10)
	}
	// Below all float64.
	if got := rdpOfGNMax([]int64{100, 0}, 1.5, 9); got > 1e-300 {
		t.Errorf("rdp = %v, want 5.8e-330", got)
	}
}

func TestThresholdRDPNumbers(t *testing.T) {
	for _, c := range []struct {
		votes                                      []int64
		threshold, sigma1, alpha, logAnswered, rdp float64
	}{
		{[]int64{240, 10}, 150, 20, 2, -3.3976788968344661e-6, 1.9381097757629475e-6},
		{[]int64{240, 10}, 150, 20, 9, -3.3976788968344661e-6, 3.732054463507869e-6},
		{[]int64{100, 150}, 230, 15, 4, -16.847636444743404, 5.8211202550653548e-8},
		{[]int64{700, 300}, 600.5, 40, 1.5, -0.006452998561084222, 0.00046875},
		{[]int64{400, 0}, 50, 10, 3, -1.1249107064724062e-268, 6.7496829092013153e-266},
	} {
		closeTo(t, "log of the probability to be answered",
			logTailAt(thresholdDistance(c.votes, c.threshold, c.sigma1)), c.logAnswered, 1e-10)
		closeTo(t, "rdp", rdpOfThreshold(c.votes, c.threshold, c.sigma1, c.alpha), c.rdp, 1e-9)
	}
}

func TestLNMaxRDPNumbers(t *testing.T) {
	for _, c := range []struct {
		votes                            []int64
		lambda, alpha, logQ, likely, rdp float64
	}{
		{[]int64{0, 200}, .05, 2, -8.9013877113318903, 2.8648308610655838e-5, 2.8648308610655838e-5},
		{[]int64{0, 200}, .05, 64, -8.9013877113318903, 0.0011470200222458071, 0.0011470200222458071},
		{[]int64{150, 50, 0}, .1, 3, -8.8918875561337956, 6.4253030167743419e-5, 6.4253030167743419e-5},
		{[]int64{10, 40}, .5, 1.5, -13.553081017063675, 3.9206975014337993e-6, 3.9206975014337993e-6},
		{[]int64{52, 48}, .05, 8, -0.79783700075562045, 0.04, 0.019546102314746757},
		{[]int64{0, 3000}, .2, 10, -594.98603691581107, 1.7739136042178105e-258, 1.7739136042178105e-258},
	} {
		closeTo(t, "log q", lnmaxLogQ(c.votes, c.lambda), c.logQ, 1e-13)
		closeTo(t, "rdp of pure dp", pureLikelyRDP(c.logQ, 2*c.lambda, c.alpha), c.likely,
			1e-10)
		closeTo(t, "rdp", rdpOfLNMax(c.votes, c.lambda, c.alpha), c.rdp, 1e-10)
	}
}

func TestPATEGANMomentsNumbers(t *testing.T) {
	for _, c := range []struct {
		votes                  [][]int64
		lambda, delta, epsilon float64
	}{
		{[][]int64{{0, 100}}, .1, 1e-5, 0.22611552930476021},
		{[][]int64{{0, 100}, {50, 50}, {70, 30}}, .05, 1e-5, 0.35781766513090053},
		{slices.Repeat([][]int64{{0, 1000}}, 1000), .05, 1e-6, 0.13815510557964329},
		// q e^(2 lambda) >= 1: the first bound alone.
		{[][]int64{{3, 2}}, 2, 1e-5, 27.512925464970228},
		{append(slices.Repeat([][]int64{{400, 100}}, 20), slices.Repeat([][]int64{{100, 150}}, 3)...), .02, 1e-7,
			0.29910234731252115},
	} {
		closeTo(t, "epsilon", testkit.Value(PATEGANMoments(c.votes, c.lambda, c.delta)), c.epsilon, 1e-11)
	}
}

func TestLogHelpers(t *testing.T) {
	closeTo(t, "log(1 + e^-80)", logOfSum(0, -80), math.Exp(-80), 1e-14)
	closeTo(t, "log(e^-800 + e^-801)", logOfSum(-801, -800), -800+math.Log1p(math.Exp(-1)), 1e-15)
	closeTo(t, "log(1 - e^-80)", logOneLess(-80), -math.Exp(-80), 1e-14)
	closeTo(t, "log(1 - e^-1e-20)", logOneLess(-1e-20), math.Log(1e-20), 1e-14)
	closeTo(t, "log tail", logTailAt(-10), -7.6198530241605261e-24, 1e-12)
	closeTo(t, "log tail", logTailAt(0), -math.Ln2, 1e-14)
	if !math.IsInf(logTailAt(math.Inf(1)), -1) || logTailAt(math.Inf(-1)) != 0 ||
		!math.IsInf(logOfSum(math.Inf(-1), math.Inf(-1)), -1) {
		t.Error("logarithms of 0 and 1 went wrong")
	}
}
