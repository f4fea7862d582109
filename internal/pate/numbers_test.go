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
		closeTo(t, "log q", testkit.Value(GNMaxLogQ(c.votes, c.sigma)), c.logQ, 1e-13)
		closeTo(t, "rdp", testkit.Value(GNMaxRDP(c.votes, c.sigma, c.alpha)), c.rdp, 1e-10)
	}
	// Below all float64.
	if got := testkit.Value(GNMaxRDP([]int64{100, 0}, 1.5, 9)); got > 1e-300 {
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
			testkit.Value(ThresholdLogAnswered(c.votes, c.threshold, c.sigma1)), c.logAnswered, 1e-10)
		closeTo(t, "rdp", testkit.Value(ThresholdRDP(c.votes, c.threshold, c.sigma1, c.alpha)), c.rdp, 1e-9)
	}
	votes := []int64{240, 10}
	asked := testkit.Value(ConfidentRDP(votes, 150, 20, 40, false, 2))
	closeTo(t, "rdp of a query that was not answered", asked, 1.9381097757629475e-6, 1e-9)
	answered := testkit.Value(ConfidentRDP(votes, 150, 20, 40, true, 2))
	closeTo(t, "rdp of a query that was answered", answered, asked+testkit.Value(GNMaxRDP(votes, 40, 2)), 1e-12)
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
		closeTo(t, "log q", testkit.Value(LNMaxLogQ(c.votes, c.lambda)), c.logQ, 1e-13)
		closeTo(t, "rdp of pure dp", testkit.Value(PureRDPWithLikelyOutcome(c.logQ, 2*c.lambda, c.alpha)), c.likely,
			1e-10)
		closeTo(t, "rdp", testkit.Value(LNMaxRDP(c.votes, c.lambda, c.alpha)), c.rdp, 1e-10)
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

func TestSmoothSensitivityNumbers(t *testing.T) {
	for _, c := range []struct {
		votes                     []int64
		sigma, order, beta, logQ0 float64
		steps                     int
		local, plateau, smooth    float64
	}{
		{[]int64{180, 20}, 40, 4, .1, -4.55575552, 14, 6.8421814717499759e-5, 0.00019815655396507293,
			6.8421814717499759e-5},
		{[]int64{100, 60, 40}, 20, 3, .05, -4.149973605, 13, 0, 0.001163829611688499, 0.00060757233365139414},
		{[]int64{500, 0}, 40, 8, .02, -3.8816545, 192, 2.8426410858157471e-19, 0.00034368103965388258,
			7.4284949825883122e-6},
	} {
		curve, err := newGNMaxCurve(c.sigma, c.order, len(c.votes))
		if err != nil {
			t.Fatal(err)
		}
		closeTo(t, "log q0", curve.logQ0, c.logQ0, 1e-8)
		local, err := GNMaxLocalSensitivities(c.votes, c.sigma, c.order)
		if err != nil {
			t.Fatal(err)
		}
		closeTo(t, "local sensitivity", local[0], c.local, 1e-9)
		closeTo(t, "plateau", local[c.steps], c.plateau, 1e-9)
		closeTo(t, "plateau at the end", local[len(local)-1], c.plateau, 1e-9)
		if local[c.steps-1] == local[c.steps] {
			t.Errorf("the plateau begins before distance %d", c.steps)
		}
		closeTo(t, "smooth sensitivity", testkit.Value(GNMaxSmoothSensitivity(c.votes, c.sigma, c.order, c.beta)),
			c.smooth, 1e-9)
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
