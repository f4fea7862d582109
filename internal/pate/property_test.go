package pate

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

func drawVotes(t *rapid.T) []int64 {
	return rapid.Custom(func(t *rapid.T) []int64 {
		votes := rapid.SliceOfN(rapid.Int64Range(0, 2000), 2, 12).Draw(t, "counts")
		votes[0]++
		return votes
	}).Draw(t, "votes")
}

func drawOrder(t *rapid.T) float64 {
	return rapid.SampledFrom(privacy.Orders()).Draw(t, "alpha")
}

func drawLog(t *rapid.T, name string, lo, hi float64) float64 {
	return math.Exp(rapid.Float64Range(math.Log(lo), math.Log(hi)).Draw(t, name))
}

func withinBounds(t *rapid.T, what string, got, least, most float64) {
	if math.IsNaN(got) || got < least || got > most*(1+1e-12) {
		t.Fatalf("%s = %v, want it in [%v, %v]", what, got, least, most)
	}
}

func TestBoundsAreNeverAboveTheDataIndependentOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	rapid.Check(t, func(t *rapid.T) {
		votes, alpha := drawVotes(t), drawOrder(t)
		sigma, lambda := drawLog(t, "sigma", .3, 3000), drawLog(t, "lambda", 1e-4, 10)
		threshold := rapid.Float64Range(0, 3000).Draw(t, "threshold")
		withinBounds(t, "gnmax", rdpOfGNMax(votes, sigma, alpha), 0, alpha/sigma/sigma)
		withinBounds(t, "threshold", rdpOfThreshold(votes, threshold, sigma, alpha), 0, alpha/sigma/sigma/2)
		independent, err := lnmaxIndependent(lambda, alpha)
		if err != nil {
			t.Fatal(err)
		}
		withinBounds(t, "lnmax", rdpOfLNMax(votes, lambda, alpha), 0, min(2*lambda, independent))
		events := []VotedEvent{
			{Event: privacy.Event{Kind: privacy.GNMax, Sigma: sigma}, Votes: [][]int64{votes, votes}},
			{Event: privacy.Event{Kind: privacy.LNMax, Lambda: lambda}, Votes: [][]int64{votes}},
		}
		plain := []privacy.Event{{Kind: privacy.GNMax, Sigma: sigma, Count: 2},
			{Kind: privacy.LNMax, Lambda: lambda, Count: 1}}
		claim, err := DataDependent(events, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		all, err := privacy.Account(plain, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		withinBounds(t, "epsilon", *claim.RDP, 0, *all.ByAccountant[privacy.AccountantRDP])
	})
}

// A larger lead never costs more, and a second query never less.
func TestBoundsFallWithTheGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(2, 2000).Draw(t, "total")
		gap := rapid.Int64Range(0, total-1).Draw(t, "gap")
		alpha, sigma, lambda := drawOrder(t), drawLog(t, "sigma", 1, 500), drawLog(t, "lambda", 1e-3, 3)
		votes := func(gap int64) []int64 { return []int64{total, total - gap} }
		less := func(what string, f func(gap int64) (float64, error)) {
			near, err1 := f(gap)
			far, err2 := f(gap + 1)
			if err1 != nil || err2 != nil || far > near*(1+1e-9) {
				t.Fatalf("%s: %v (%v) at a gap of %d, %v (%v) at one more", what, near, err1, gap, far, err2)
			}
		}
		less("gnmax log q", func(g int64) (float64, error) { return math.Exp(gnmaxLogQ(votes(g), sigma)), nil })
		less("lnmax log q", func(g int64) (float64, error) { return math.Exp(lnmaxLogQ(votes(g), lambda)), nil })
		less("gnmax", func(g int64) (float64, error) { return rdpOfGNMax(votes(g), sigma, alpha), nil })
		less("lnmax", func(g int64) (float64, error) { return rdpOfLNMax(votes(g), lambda, alpha), nil })
		less("moments", func(g int64) (float64, error) { return PATEGANMoments([][]int64{votes(g)}, lambda, 1e-5) })
		one, _ := PATEGANMoments([][]int64{votes(gap)}, lambda, 1e-5)
		two, err := PATEGANMoments([][]int64{votes(gap), votes(gap)}, lambda, 1e-5)
		if err != nil || two < one {
			t.Fatalf("moments: %v for one query, %v (%v) for two", one, two, err)
		}
	})
}

// The order of the classes says nothing.
func TestBoundsIgnoreNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		votes := drawVotes(t)
		shuffled := rapid.Permutation(votes).Draw(t, "shuffled")
		sigma := drawLog(t, "sigma", 1, 500)
		a, b := rdpOfGNMax(votes, sigma, 4), rdpOfGNMax(shuffled, sigma, 4)
		if math.Abs(a-b) > 1e-9*a {
			t.Fatalf("%v and %v", a, b)
		}
	})
}
