package pgb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// drawn is a game with the scores of real records.
type drawn struct {
	scores [][]float64
	real   []float64
	rate   float64
	rounds int
}

// draw makes scores of several kinds: uniform, near 0 or 1, and a few values only.
func draw(rng *rand.Rand) drawn {
	candidates, discriminators := 1+rng.IntN(60), 1+rng.IntN(12)
	d := drawn{rounds: 1 + rng.IntN(300), real: make([]float64, discriminators)}
	if rng.IntN(2) == 0 {
		d.rate = math.Exp(3*rng.Float64() - 3)
	}
	kind := rng.IntN(3)
	score := func() float64 {
		switch kind {
		case 0:
			return rng.Float64()
		case 1:
			return 1 / (1 + math.Exp(10*rng.NormFloat64()))
		}
		return float64(rng.IntN(3)) / 2
	}
	for j := range discriminators {
		row := make([]float64, candidates)
		for b := range row {
			row[b] = score()
		}
		d.scores = append(d.scores, row)
		d.real[j] = score()
	}
	return d
}

func (d drawn) game(t testing.TB) *Game {
	t.Helper()
	g, err := New(d.scores, Options{Rounds: d.rounds, Rate: d.rate})
	testkit.Must(t, err)
	return g
}

func play(t testing.TB, g *Game, s Selector) *Plays {
	t.Helper()
	p, err := g.Play(context.Background(), s, nil)
	testkit.Must(t, err)
	return p
}

func gap(t testing.TB, g *Game, real []float64, p *Plays) float64 {
	t.Helper()
	v, err := g.Gap(real, p)
	testkit.Must(t, err)
	return v
}

// Without noise the average plays are as close to an equilibrium as Theorem 3 and the regret of Hedge promise,
// in every game. Some games come near the bound.
func TestAveragePlaysAreAnEquilibrium(t *testing.T) {
	rng, closest := rand.New(rand.NewPCG(1, 1)), 0.0
	for range 2000 {
		d := draw(rng)
		g := d.game(t)
		got, n, rate := gap(t, g, d.real, play(t, g, BestResponse(d.real))), len(d.scores[0]), g.options.Rate
		tight, paper := Alpha(n, d.rounds, rate, 0), AlphaOfPaper(n, d.rounds, rate, 0)
		if got < -1e-12 || got > tight+1e-12 || tight > paper {
			t.Fatalf("gap %v; alpha %v, that of the paper %v (%d candidates, %d discriminators, %d rounds, rate %v)",
				got, tight, paper, n, len(d.scores), d.rounds, rate)
		}
		closest = math.Max(closest, got/tight)
	}
	if closest < 0.3 {
		t.Errorf("no gap comes closer to alpha than %.2f of it: the bound would hold of anything", closest)
	}
}

// The chosen rate minimizes the paper's bound; ours has its minimum at another rate.
func TestTheChosenRateIsThePapers(t *testing.T) {
	for _, n := range []int{2, 100, 24000} {
		for _, rounds := range []int{1, 400} {
			rate, ours := Options{Rounds: rounds}.ChosenFor(n).Rate, math.Sqrt(8*math.Log(float64(n))/float64(rounds))
			for _, factor := range []float64{0.5, 0.9, 1.1, 2} {
				if AlphaOfPaper(n, rounds, rate*factor, 0) < AlphaOfPaper(n, rounds, rate, 0) {
					t.Errorf("%d candidates, %d rounds: the paper's bound is less at %v than at %v", n, rounds,
						rate*factor, rate)
				}
				if Alpha(n, rounds, ours*factor, 0) < Alpha(n, rounds, ours, 0) {
					t.Errorf("%d candidates, %d rounds: alpha is less at %v than at %v", n, rounds, ours*factor, ours)
				}
			}
		}
	}
	if o := (Options{Rounds: 5, Rate: 0.3}).ChosenFor(9); o.Rate != 0.3 {
		t.Errorf("a rate that is set becomes %v", o.Rate)
	}
}

// steps is the number of fixed-point steps of a payoff of 1 over the number of records.
const steps = 1 << 20

// exponential selects like the aggregator, from sums of scores in whole steps.
type exponential struct {
	mechanism *gnmax.ExponentialMechanism
	source    *gnmax.Source
	real      []float64
	records   float64
}

func newExponential(t testing.TB, epsilon, records float64, real []float64) exponential {
	t.Helper()
	m, err := gnmax.NewExponential(epsilon, steps)
	testkit.Must(t, err)
	return exponential{m, gnmax.NewSourceFrom(rand.NewChaCha8([32]byte{1})), real, records}
}

func (e exponential) Select(_ context.Context, _ int, expected []float64) (int, error) {
	scores := make([]int64, len(expected))
	for j, v := range expected {
		scores[j] = int64(math.Round(steps * e.records * (e.real[j] + 1 - v)))
	}
	return e.mechanism.Select(e.source, scores)
}

// With the exponential mechanism the theorem's bound holds with probability 1-beta. beta
// is 1e-9 in each of 300 games, and the draws are the same in every run.
func TestAveragePlaysAreAnEquilibriumWithNoise(t *testing.T) {
	const beta = 1e-9
	rng := rand.New(rand.NewPCG(2, 2))
	worse := 0
	for range 300 {
		d := draw(rng)
		g := d.game(t)
		epsilon, records := math.Exp(3*rng.Float64()-5), 100+float64(rng.IntN(5000))
		got := gap(t, g, d.real, play(t, g, newExponential(t, epsilon, records, d.real)))
		loss := SelectionLoss(len(d.scores), d.rounds, records, epsilon, beta)
		n, rate := len(d.scores[0]), g.options.Rate
		if got > Alpha(n, d.rounds, rate, loss)+1e-9 {
			t.Fatalf("gap %v with a loss of %v; alpha is %v", got, loss, Alpha(n, d.rounds, rate, loss))
		}
		if got > Alpha(n, d.rounds, rate, 0) {
			worse++
		}
	}
	t.Logf("%d of 300 games are farther than without noise", worse)
}

// Weights and mixture are shares, the mixture that of the selected ones. The order of candidates and
// discriminators changes only the order of the result.
func TestPlaysAreShares(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		d := draw(rng)
		p := play(t, d.game(t), BestResponse(d.real))
		sum := func(x []float64) (total float64) {
			for _, v := range x {
				if v < 0 || v > 1+1e-12 {
					rt.Fatalf("a share of %v", v)
				}
				total += v
			}
			return total
		}
		if w, m := sum(p.Weights), sum(p.Mixture); math.Abs(w-1) > 1e-9 || math.Abs(m-1) > 1e-9 ||
			len(p.Selected) != d.rounds {
			rt.Fatalf("weights add up to %v, the mixture to %v, in %d rounds of %d", w, m, len(p.Selected), d.rounds)
		}
		order := rng.Perm(len(d.scores[0]))
		turned := d
		turned.scores = nil
		for _, row := range d.scores {
			var to []float64
			for _, b := range order {
				to = append(to, row[b])
			}
			turned.scores = append(turned.scores, to)
		}
		// The sums' order changes their last bits, and with them which of two equal
		// discriminators is selected: the same selections are played.
		q := play(t, turned.game(t), scripted(p.Selected))
		for i, b := range order {
			if math.Abs(q.Weights[i]-p.Weights[b]) > 1e-9 {
				rt.Fatalf("candidate %d has weight %v, in another order %v", b, p.Weights[b], q.Weights[i])
			}
		}
		for i, v := range p.Mixed(d.scores) {
			var want float64
			for _, j := range p.Selected {
				want += d.scores[j][i] / float64(d.rounds)
			}
			if math.Abs(v-want) > 1e-9 {
				rt.Fatalf("the mixture scores candidate %d as %v, the selected ones %v", i, v, want)
			}
		}
	})
}

// scripted selects the given discriminators.
type scripted []int

func (s scripted) Select(_ context.Context, t int, _ []float64) (int, error) { return s[t], nil }

// Algorithm 1 by hand: two candidates, and one discriminator that distinguishes them.
func TestWeightsAreTheAlgorithms(t *testing.T) {
	const rate, rounds = 0.7, 5
	g, err := New([][]float64{{1, 0.25}}, Options{Rounds: rounds, Rate: rate})
	testkit.Must(t, err)
	var want float64
	for r := range rounds {
		want += 1 / (1 + math.Exp(-rate*0.75*float64(r))) / rounds
	}
	p := play(t, g, BestResponse([]float64{0.9}))
	if math.Abs(p.Weights[0]-want) > 1e-12 || math.Abs(p.Weights[1]-(1-want)) > 1e-12 {
		t.Errorf("weights %v, want %v", p.Weights, want)
	}
	// Thousands of rounds at a high rate leave a weight below the least float.
	if g, err = New([][]float64{{1, 0}}, Options{Rounds: 5000, Rate: 100}); err != nil {
		t.Fatal(err)
	}
	if p := play(t, g, scripted(make([]int, 5000))); !(p.Weights[0] > 0.999 && p.Weights[0] <= 1+1e-9) {
		t.Errorf("weights %v", p.Weights)
	}
}

// asked records the questions.
type asked struct {
	Selector
	questions [][]float64
}

func (a *asked) Select(ctx context.Context, t int, expected []float64) (int, error) {
	a.questions = append(a.questions, slices.Clone(expected))
	return a.Selector.Select(ctx, t, expected)
}

// A repeated game asks bit for bit the same questions.
func TestGamesRepeat(t *testing.T) {
	d := draw(rand.New(rand.NewPCG(4, 4)))
	first := &asked{Selector: newExponential(t, 0.1, 500, d.real)}
	p := play(t, d.game(t), first)
	again := &asked{Selector: scripted(p.Selected)}
	q := play(t, d.game(t), again)
	testkit.Same(t, "", first.questions, again.questions)
	testkit.Same(t, "", p, q)
	for _, expected := range first.questions {
		for _, v := range expected {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("a mean score of %v was asked about", v)
			}
		}
	}
}

func TestScoresAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		scores [][]float64
		says   string
	}{
		"none":           {nil, "student.keep"},
		"no candidates":  {[][]float64{{}}, "student.keep"},
		"above 1":        {[][]float64{{0, 1}, {0.5, 1.0001}}, "discriminator 1 gives candidate 1"},
		"below 0":        {[][]float64{{0, -1e-9}}, "discriminator 0 gives candidate 1"},
		"not a number":   {[][]float64{{math.NaN()}}, "discriminator 0 gives candidate 0"},
		"infinite":       {[][]float64{{0.5}, {math.Inf(1)}}, "discriminator 1 gives candidate 0"},
		"rows of others": {[][]float64{{0, 1}, {0}}, "discriminator 1 scores 1"},
	} {
		if _, err := New(c.scores, DefaultOptions()); !errors.Is(err, ErrScores) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []Options{{}, {Rounds: -1}, {Rounds: 1e6}, {Rounds: 5, Rate: -1}, {Rounds: 5, Rate: math.NaN()},
		{Rounds: 5, Rate: math.Inf(1)}} {
		if _, err := New([][]float64{{0.5}}, o); err == nil || !strings.Contains(err.Error(), "pgb.r") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Select(_ context.Context, t int, _ []float64) (int, error) {
	if t == 3 {
		return 0, f.err
	}
	return 0, nil
}

func TestGamesEndWithErrors(t *testing.T) {
	g, err := New([][]float64{{0.5, 0.6}, {0.1, 0.2}}, DefaultOptions())
	testkit.Must(t, err)
	spent := errors.New("the budget is spent")
	done := 0
	if _, err := g.Play(context.Background(), failing{spent}, func(n, of int) {
		done = n*1000 + of
	}); !errors.Is(err, spent) || done != 3400 {
		t.Errorf("%v after %d", err, done)
	}
	if _, err := g.Play(context.Background(), scripted([]int{0, 2}), nil); err == nil ||
		!strings.Contains(err.Error(), "round 1: discriminator 2") {
		t.Errorf("a discriminator that is not there: %v", err)
	}
	for _, real := range [][]float64{{0.5}, {0.5, 1.5}, {0.5, math.NaN()}} {
		if _, err := g.Play(context.Background(), BestResponse(real), nil); !errors.Is(err, ErrScores) {
			t.Errorf("means %v: %v", real, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.Play(ctx, BestResponse([]float64{0.5, 0.5}), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	p := play(t, g, BestResponse([]float64{0.5, 0.5}))
	if _, err := g.Gap([]float64{0.5}, p); err == nil {
		t.Error("a gap of other means")
	}
	if p.Mixed([][]float64{{1}}) != nil || p.Mixed([][]float64{{1}, {1, 1}}) != nil || (&Plays{}).Mixed(nil) != nil {
		t.Error("a mixture of others")
	}
}

func ExampleGame_Play() {
	// Discriminator 0 detects the second candidate, discriminator 1 the third.
	scores := [][]float64{{0.6, 0.1, 0.6}, {0.6, 0.6, 0.1}}
	game, err := New(scores, DefaultOptions())
	if err != nil {
		fmt.Println(err)
		return
	}
	plays, err := game.Play(context.Background(), BestResponse([]float64{0.6, 0.6}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f\n", plays.Weights)
	// Output: [0.63 0.18 0.18]
}

func BenchmarkPlay(b *testing.B) {
	const candidates, discriminators = 24000, 10
	rng := rand.New(rand.NewPCG(5, 5))
	scores, real := make([][]float64, discriminators), make([]float64, discriminators)
	for j := range scores {
		scores[j], real[j] = make([]float64, candidates), rng.Float64()
		for i := range scores[j] {
			scores[j][i] = rng.Float64()
		}
	}
	g, err := New(scores, DefaultOptions())
	testkit.Must(b, err)
	for b.Loop() {
		if _, err := g.Play(context.Background(), BestResponse(real), nil); err != nil {
			b.Fatal(err)
		}
	}
}
