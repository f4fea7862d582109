package drs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// discrete is a generator of a few kinds of records, with the score of each.
type discrete struct {
	share, score []float64
	rng          *rand.Rand
}

func (d discrete) next() ([]int, []float64, error) {
	const batch = 64
	kinds, scores := make([]int, batch), make([]float64, batch)
	for i := range kinds {
		u := d.rng.Float64()
		for kinds[i] < len(d.share)-1 && u >= d.share[kinds[i]] {
			u -= d.share[kinds[i]]
			kinds[i]++
		}
		scores[i] = d.score[kinds[i]]
	}
	return kinds, scores, nil
}

// example has real shares 0.1, 0.2, 0.3 and 0.4 and a discriminator without error.
func example(seed uint64) (generated discrete, real []float64) {
	real = []float64{0.1, 0.2, 0.3, 0.4}
	generated = discrete{share: []float64{0.4, 0.3, 0.2, 0.1}, rng: rand.New(rand.NewPCG(seed, 1))}
	for i, p := range real {
		generated.score = append(generated.score, p/(p+generated.share[i]))
	}
	return generated, real
}

// Without a shift, accepted records have the distribution D/(1-D) x p_G, which is that of real records if the
// discriminator does not err. The test fails by chance once in a million seeds; the seed is fixed.
func TestAcceptedRecordsAreOfTheTiltedDistribution(t *testing.T) {
	generated, real := example(1)
	const n = 50_000
	a, err := Accept(context.Background(), Options{Percentile: 0, Burn: 1000, Tries: 100}, n,
		rand.New(rand.NewPCG(2, 2)), generated.next)
	testkit.Must(t, err)
	count := make([]float64, len(real))
	for _, kind := range a.Records {
		count[kind]++
	}
	var chi float64
	for i, p := range real {
		chi += (count[i] - n*p) * (count[i] - n*p) / (n * p)
	}
	if limit := (distuv.ChiSquared{K: 3}).Quantile(1 - 1e-6); chi > limit || len(a.Records) != n {
		t.Errorf("counts %v of %d, chi-square %v, limit %v", count, len(a.Records), chi, limit)
	}
	// The mean of exp(d - d_max) over generated records is exp(-d_max), which is 1/4.
	if rate := float64(n) / float64(a.Tried); math.Abs(rate-0.25) > 0.01 {
		t.Errorf("%v of the candidates are accepted, want 0.25", rate)
	}
	if math.Abs(a.Largest-math.Log(4)) > 1e-9 || a.Gamma != 0 {
		t.Errorf("largest log-odds %v, shift %v", a.Largest, a.Gamma)
	}
}

// A lower percentile accepts more, and any of these more than none.
func TestTheShiftRaisesAcceptance(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	normal := func() ([]int, []float64, error) {
		scores := make([]float64, 100)
		for i := range scores {
			scores[i] = 1 / (1 + math.Exp(-2*rng.NormFloat64()))
		}
		return make([]int, len(scores)), scores, nil
	}
	last := 0.0
	for _, percentile := range []float64{0, 99, 95, 80, 50} {
		a, err := Accept(context.Background(), Options{Percentile: percentile, Burn: 5000, Tries: 10_000}, 500, rng,
			normal)
		testkit.Must(t, err)
		rate := float64(len(a.Records)) / float64(a.Tried)
		if rate < 1.3*last {
			t.Errorf("percentile %v accepts %v, the one before %v", percentile, rate, last)
		}
		last = rate
	}
}

// The rule is the paper's formula: sigmoid(F), 1/2 at the percentile, nearly 1 at the
// largest score, and never falling.
func TestTheRuleIsThePapers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burn := rapid.SliceOfN(rapid.Float64Range(-15, 15), 2, 50).Draw(t, "log-odds")
		percentile := rapid.Float64Range(0.1, 90).Draw(t, "percentile")
		rule := newThreshold(burn, percentile)
		rule.saw(rapid.Float64Range(-16, 16).Draw(t, "another"))
		gamma, last := rule.gamma(), -1.0
		for d := -16.0; d <= rule.largest; d += 0.25 {
			f := d - rule.largest - math.Log(1-math.Exp(d-rule.largest-1e-6)) - gamma
			got := rule.acceptance(d)
			if math.Abs(got-1/(1+math.Exp(-f))) > 1e-6 || got < last {
				t.Fatalf("log-odds %v are accepted with %v, lower ones with %v, F is %v", d, got, last, f)
			}
			last = got
		}
		if at := rule.acceptance(rule.half); math.Abs(at-0.5) > 1e-9 {
			t.Fatalf("the percentile is accepted with %v", at)
		}
		rule.half = math.NaN()
		if at := rule.acceptance(rule.largest); at < 0.999998 {
			t.Fatalf("the largest is accepted with %v", at)
		}
	})
}

// A larger score that occurs after the burn-in counts from then on.
func TestTheLargestScoreIsRaised(t *testing.T) {
	calls := 0
	source := func() ([]int, []float64, error) {
		if calls++; calls == 1 {
			return []int{0}, []float64{0.5}, nil
		}
		return []int{0, 1}, []float64{0.5, 0.99}, nil
	}
	a, err := Accept(context.Background(), Options{Burn: 1, Tries: 1000}, 2000, rand.New(rand.NewPCG(4, 4)), source)
	testkit.Must(t, err)
	low := 0
	for _, kind := range a.Records {
		if kind == 0 {
			low++
		}
	}
	// One in 99 of those of score 1/2, and the very first: 20, give or take 5 x 4.5.
	if math.Abs(a.Largest-math.Log(99)) > 1e-9 || low > 45 {
		t.Errorf("largest log-odds %v, %d of low score", a.Largest, low)
	}
}

func TestSourcesAreRefused(t *testing.T) {
	run := func(n int, o Options, source Source[int]) error {
		_, err := Accept(context.Background(), o, n, rand.New(rand.NewPCG(5, 5)), source)
		return err
	}
	for _, bad := range []float64{-0.01, 1.01, math.NaN(), math.Inf(1)} {
		if err := run(1, DefaultOptions(), func() ([]int, []float64, error) {
			return []int{7, 7}, []float64{0.5, bad}, nil
		}); !errors.Is(err, ErrScores) || !strings.Contains(err.Error(), "candidate 1") {
			t.Errorf("score %v: %v", bad, err)
		}
	}
	for name, source := range map[string]Source[int]{
		"nothing":   func() ([]int, []float64, error) { return nil, nil, nil },
		"no scores": func() ([]int, []float64, error) { return []int{1}, nil, nil },
	} {
		if err := run(1, DefaultOptions(), source); !errors.Is(err, ErrScores) {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := errors.New("broken")
	if err := run(1, DefaultOptions(), func() ([]int, []float64, error) {
		return nil, nil, broken
	}); !errors.Is(err, broken) {
		t.Errorf("a broken source: %v", err)
	}
	// One candidate that is certainly real, and then none that comes near.
	first := true
	rare := func() ([]int, []float64, error) {
		if first {
			first = false
			return []int{1}, []float64{1}, nil
		}
		return []int{0}, []float64{0.001}, nil
	}
	if err := run(10, Options{Burn: 1, Tries: 5}, rare); !errors.Is(err, ErrTries) ||
		!strings.Contains(err.Error(), "0 of 10 after 50 tries") {
		t.Errorf("too many tries: %v", err)
	}
	for _, o := range []Options{{}, {Percentile: 101, Burn: 1, Tries: 1}, {Percentile: math.NaN(), Burn: 1, Tries: 1},
		{Burn: 1}, {Tries: 1}} {
		if err := run(1, o, rare); err == nil || !strings.Contains(err.Error(), "drs.") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := run(-1, DefaultOptions(), rare); err == nil {
		t.Error("less than nothing")
	}
	if err := run(0, DefaultOptions(), nil); err != nil {
		t.Errorf("nothing wanted: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Accept(ctx, DefaultOptions(), 1, nil, rare); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func ExampleAccept() {
	generated, _ := example(1)
	a, err := Accept(context.Background(), DefaultOptions(), 1000, rand.New(rand.NewPCG(1, 1)), generated.next)
	fmt.Println(len(a.Records), err)
	// Output: 1000 <nil>
}
