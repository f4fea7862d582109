package gnmax

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// Each release has independent noise of the promised distribution on every number and
// leaves the numbers as they were; the winner of a histogram is its largest.
func TestReleasesHaveTheirNoise(t *testing.T) {
	src := NewSource()
	gaussian := func(s Sigma) pmf { return gaussianPMF(variance(s), 12*math.Sqrt(variance(s))) }
	votes := func(m Mechanism) func([]int64) ([]int64, error) {
		return func(counts []int64) ([]int64, error) {
			a, err := m.Answer(src, counts)
			if err == nil && a.Noisy[a.Winner] < a.Noisy[1-a.Winner] {
				t.Fatalf("winner %d of %v", a.Winner, a.Noisy)
			}
			return a.Noisy, err
		}
	}
	sum := testkit.Value(NewGaussianSum(1<<10, 1.5))
	for name, c := range map[string]struct {
		numbers []int64
		release func([]int64) ([]int64, error)
		noise   pmf
	}{
		"gnmax":     {[]int64{40, 60}, votes(mechanisms["gnmax"](true)), gaussian(mustSigma(t, 3))},
		"confident": {[]int64{40, 60}, votes(mechanisms["confident"](true)), gaussian(mustSigma(t, 3))},
		"lnmax":     {[]int64{40, 60}, votes(mechanisms["lnmax"](true)), laplacePMF(1 / 0.4)},
		"sum": {[]int64{-70_000, 1 << 60}, func(sum64 []int64) ([]int64, error) { return sum.Release(src, sum64) },
			gaussian(sum.Sigma())},
		"counts": {[]int64{-3, 5 << 10}, func(counts []int64) ([]int64, error) {
			return LaplaceCounts(src, counts, 1<<10, 50)
		}, laplacePMF(1024. / 50)},
	} {
		const n = 40_000
		before, product := slices.Clone(c.numbers), 0.0
		var noise [2][]int64
		for range n {
			noisy, err := c.release(c.numbers)
			testkit.Must(t, err)
			for i := range noise {
				noise[i] = append(noise[i], noisy[i]-c.numbers[i])
			}
			product += float64(noisy[0]-c.numbers[0]) * float64(noisy[1]-c.numbers[1])
		}
		testkit.Same(t, name, before, c.numbers)
		for i := range noise {
			chiSquareOf(t, noise[i], c.noise)
		}
		v := c.noise.moment(2)
		checkMean(t, name+": the covariance of two numbers' noise", product/n, 0, v*v, n)
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

func TestLaplaceCountsAreRefused(t *testing.T) {
	src := NewSource()
	const unit = 1 << 10
	for _, bad := range [][]int64{nil, {math.MaxInt64}, {math.MinInt64}} {
		if noisy, err := LaplaceCounts(src, bad, unit, 1); !errors.Is(err, ErrHistogram) || noisy != nil {
			t.Errorf("%v: %v, %v", bad, noisy, err)
		}
	}
	if noisy, err := LaplaceCounts(NewSourceFrom(constant(0)), []int64{5}, unit, 1); err == nil || noisy != nil {
		t.Errorf("from a broken source: %v, %v", noisy, err)
	}
}
