package gnmax

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var mechanisms = map[string]func(whole bool) Mechanism{
	"gnmax":     func(whole bool) Mechanism { return testkit.Value(NewGNMax(3, whole)) },
	"confident": func(whole bool) Mechanism { return testkit.Value(NewConfident(0, 2, 3, whole)) },
	"lnmax":     func(whole bool) Mechanism { return testkit.Value(NewLNMax(0.4, whole)) },
}

func TestAnswer(t *testing.T) {
	src := NewSource()
	for name, mechanism := range mechanisms {
		for _, whole := range []bool{false, true} {
			m := mechanism(whole)
			counts := []int64{3, 1000, 0, 20} // noise of about 3 does not reach 980
			for range 200 {
				a, err := m.Answer(src, counts)
				testkit.Must(t, err)
				if !a.Answered || a.Winner != 1 || (a.Noisy != nil) != whole {
					t.Fatalf("%s: answer is %+v", name, a)
				}
			}
			if diff := cmp.Diff([]int64{3, 1000, 0, 20}, counts); diff != "" {
				t.Errorf("%s changed the histogram: %s", name, diff)
			}
		}
	}
}

// The whole histogram has independent noise of the promised distribution on
// every bin, and the winner is its largest.
func TestWholeHistogramIsNoise(t *testing.T) {
	src := NewSource()
	counts := []int64{40, 60}
	v := variance(mustSigma(t, 3))
	for name, mass := range map[string]func(x float64) float64{
		"gnmax":     func(x float64) float64 { return -x * x / (2 * v) },
		"confident": func(x float64) float64 { return -x * x / (2 * v) },
		"lnmax":     func(x float64) float64 { return -0.4 * math.Abs(x) },
	} {
		m := mechanisms[name](true)
		const n = 40_000
		bins := [2][]int64{}
		product := 0.0
		for range n {
			a, err := m.Answer(src, counts)
			testkit.Must(t, err)
			if other := 1 - a.Winner; a.Noisy[a.Winner] < a.Noisy[other] {
				t.Fatalf("%s: winner %d of %v", name, a.Winner, a.Noisy)
			}
			for i := range bins {
				bins[i] = append(bins[i], a.Noisy[i]-counts[i])
			}
			product += float64(a.Noisy[0]-counts[0]) * float64(a.Noisy[1]-counts[1])
		}
		spread := 0.0
		for i := range bins {
			chiSquare(t, bins[i], 100, mass)
			for _, x := range bins[i] {
				spread += float64(x) * float64(x) / (2 * n)
			}
		}
		checkMean(t, name+": the covariance of two bins' noise", product/n, 0, spread*spread, n)
	}
}

// The threshold test passes as often as its noise says, also for a threshold
// between two whole numbers, and looks at the largest count.
func TestThreshold(t *testing.T) {
	src := NewSource()
	v := variance(mustSigma(t, 4))
	for _, c := range []struct {
		threshold float64
		least     float64 // noise with which 30 passes
	}{{33, 3}, {33.5, 4}, {25.2, -4}} {
		m := testkit.Value(NewConfident(c.threshold, 4, 5, true))
		var above, all float64
		for x := -100.0; x <= 100; x++ {
			mass := math.Exp(-x * x / (2 * v))
			all += mass
			if x >= c.least {
				above += mass
			}
		}
		p := above / all
		const n = 30_000
		passed := 0.0
		for range n {
			a, err := m.Answer(src, []int64{7, 30, 0})
			testkit.Must(t, err)
			if a.Answered {
				passed++
			} else if a.Winner != -1 || a.Noisy != nil {
				t.Fatalf("an unanswered query says %+v", a)
			}
		}
		checkMean(t, fmt.Sprintf("the share that passes the threshold %v", c.threshold), passed/n, p, p*(1-p), n)
	}
}

func TestCosts(t *testing.T) {
	for _, c := range []struct {
		m           Mechanism
		kind        privacy.Kind
		worst, cost []privacy.Event
	}{
		{testkit.Value(NewGNMax(40, true)), privacy.GNMax,
			[]privacy.Event{{Kind: privacy.GNMax, Sigma: 40, Count: 32}},
			[]privacy.Event{{Kind: privacy.GNMax, Sigma: 40, Count: 32}}},
		{testkit.Value(NewLNMax(0.05, false)), privacy.LNMax,
			[]privacy.Event{{Kind: privacy.LNMax, Lambda: 0.05, Count: 32}},
			[]privacy.Event{{Kind: privacy.LNMax, Lambda: 0.05, Count: 32}}},
		{testkit.Value(NewConfident(120.5, 60, 40, false)), privacy.ConfidentGNMax,
			[]privacy.Event{{Kind: privacy.ConfidentGNMax, Threshold: 120.5, Sigma1: 60, Sigma2: 40, Asked: 32,
				Answered: 32}},
			[]privacy.Event{{Kind: privacy.ConfidentGNMax, Threshold: 120.5, Sigma1: 60, Sigma2: 40, Asked: 32,
				Answered: 11}}},
	} {
		if c.m.Kind() != c.kind {
			t.Errorf("kind is %s, want %s", c.m.Kind(), c.kind)
		}
		testkit.Same(t, "worst", c.worst, c.m.Worst(32))
		testkit.Same(t, "cost", c.cost, c.m.Cost(32, 11))
		for _, events := range [][]privacy.Event{c.m.Worst(32), c.m.Cost(32, 11)} {
			if _, err := privacy.Account(events, 1e-5); err != nil {
				t.Errorf("%s: the events cannot be accounted for: %v", c.kind, err)
			}
		}
		if c.m.Worst(0) != nil || c.m.Cost(0, 0) != nil {
			t.Errorf("%s: nothing asked costs something", c.kind)
		}
	}
}

// The worst case is never cheaper than what happens.
func TestWorstIsWorst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := NewConfident(100, rapid.Float64Range(1, 500).Draw(t, "sigma1"),
			rapid.Float64Range(1, 500).Draw(t, "sigma2"), false)
		if err != nil {
			t.Fatal(err)
		}
		asked := rapid.Int64Range(1, 1000).Draw(t, "asked")
		worst, err := privacy.Account(m.Worst(asked), 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		cost, err := privacy.Account(m.Cost(asked, rapid.Int64Range(0, asked).Draw(t, "answered")), 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		if cost.Epsilon > worst.Epsilon {
			t.Fatalf("cost %v is above the worst case %v", cost.Epsilon, worst.Epsilon)
		}
	})
}

func TestHistogramsAreRefused(t *testing.T) {
	src := NewSource()
	for name, mechanism := range mechanisms {
		for _, counts := range [][]int64{nil, {}, {7}, {7, -1}, {0, 0}, {1, math.MaxInt64}, {math.MinInt64, 1}} {
			a, err := mechanism(true).Answer(src, counts)
			if !errors.Is(err, ErrHistogram) || a.Answered || a.Noisy != nil {
				t.Errorf("%s of %v: %+v, %v", name, counts, a, err)
			}
			if err != nil && strings.Contains(err.Error(), "7") {
				t.Errorf("%s: the error %q shows a count", name, err)
			}
		}
		if a, err := mechanism(true).Answer(NewSourceFrom(constant(0)), []int64{1, 2}); err == nil || a.Answered ||
			a.Noisy != nil {
			t.Errorf("%s from a broken source: %+v, %v", name, a, err)
		}
	}
}

func TestLaplaceCounts(t *testing.T) {
	src := NewSource()
	const unit = 1 << 10
	counts := []int64{0, 5 * unit, -3}
	var noise []int64
	for range 20_000 {
		noisy, err := LaplaceCounts(src, counts, unit, 50)
		testkit.Must(t, err)
		for i := range noisy {
			noise = append(noise, noisy[i]-counts[i])
		}
	}
	chiSquare(t, noise, 50*unit/50, func(x float64) float64 { return -math.Abs(x) * 50 / unit })
	for _, bad := range [][]int64{nil, {math.MaxInt64}, {math.MinInt64}} {
		if noisy, err := LaplaceCounts(src, bad, unit, 1); !errors.Is(err, ErrHistogram) || noisy != nil {
			t.Errorf("%v: %v, %v", bad, noisy, err)
		}
	}
	if noisy, err := LaplaceCounts(NewSourceFrom(constant(0)), counts, unit, 1); err == nil || noisy != nil {
		t.Errorf("from a broken source: %v, %v", noisy, err)
	}
}
