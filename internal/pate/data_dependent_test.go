package pate

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func mustDataDependent(t testing.TB, events []VotedEvent, delta float64) Claim {
	t.Helper()
	claim, err := DataDependent(events, delta)
	testkit.Must(t, err)
	return claim
}

func TestDataDependentAddsUp(t *testing.T) {
	const delta = 1e-5
	events := []VotedEvent{
		{Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40}, Votes: [][]int64{{0, 250}, {120, 130}, {250, 0}}},
		{
			Event: privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 150, Sigma1: 30, Sigma2: 40, Asked: 3,
				Answered: 2},
			Votes: [][]int64{{240, 10}, {125, 125}, {200, 50}}, Unanswered: []bool{false, true, false},
		},
		{Event: privacy.Event{Kind: privacy.LNMax, Lambda: .05, Count: 2}, Votes: [][]int64{{200, 50}, {100, 50, 100}}},
		{Event: privacy.Event{Kind: privacy.Gaussian, Sigma: 50, Sensitivity: 1, Count: 4}},
	}
	best, plain := math.Inf(1), make([]privacy.Event, len(events))
	for i, v := range events {
		e, err := v.Resolve()
		testkit.Must(t, err)
		plain[i] = e
	}
	for _, alpha := range privacy.Orders() {
		rho := testkit.Value(plain[3].RDP(alpha))
		for _, v := range events[0].Votes {
			rho += rdpOfGNMax(v, 40, alpha)
		}
		for i, v := range events[1].Votes {
			rho += rdpOfThreshold(v, 150, 30, alpha)
			if i != 1 {
				rho += rdpOfGNMax(v, 40, alpha)
			}
		}
		for _, v := range events[2].Votes {
			rho += rdpOfLNMax(v, .05, alpha)
		}
		best = min(best, rho+math.Log1p(-1/alpha)-math.Log(delta*alpha)/(alpha-1))
	}
	claim := mustDataDependent(t, events, delta)
	closeTo(t, "epsilon", *claim.RDP, best, 1e-12)
	if claim.PATEGANMoments != nil {
		t.Error("the moments accountant of PATE-GAN took part beside other mechanisms")
	}
	all, err := privacy.Account(plain, delta)
	testkit.Must(t, err)
	if independent := *all.ByAccountant[privacy.AccountantRDP]; *claim.RDP > independent*(1+1e-12) {
		t.Errorf("epsilon %v, for all votes %v", *claim.RDP, independent)
	}
}

func TestDataDependentMoments(t *testing.T) {
	ln := func(lambda float64, votes ...[]int64) VotedEvent {
		return VotedEvent{Event: privacy.Event{Kind: privacy.LNMax, Lambda: lambda}, Votes: votes}
	}
	both := mustDataDependent(t, []VotedEvent{ln(.05, []int64{0, 100}), ln(.05, []int64{50, 50}, []int64{70, 30})},
		1e-5)
	closeTo(t, "epsilon", *both.PATEGANMoments, 0.35781766513090053, 1e-11)
	for name, events := range map[string][]VotedEvent{
		"two lambdas":   {ln(.05, []int64{0, 100}), ln(.06, []int64{0, 100})},
		"three classes": {ln(.05, []int64{0, 100}, []int64{0, 50, 50})},
		"without votes": {ln(.05, []int64{0, 100}), {Event: privacy.Event{Kind: privacy.LNMax, Lambda: .05, Count: 1}}},
		"gnmax":         {{Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40}, Votes: [][]int64{{0, 100}}}},
	} {
		if claim := mustDataDependent(t, events, 1e-5); claim.PATEGANMoments != nil || claim.RDP == nil {
			t.Errorf("%s: moments %v, rdp %v", name, claim.PATEGANMoments, claim.RDP)
		}
	}
	for _, events := range [][]VotedEvent{nil, {{Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40, Count: 3}}}} {
		if claim := mustDataDependent(t, events, 1e-5); claim.PATEGANMoments != nil || claim.RDP != nil {
			t.Errorf("a data-dependent claim without votes: %v", claim)
		}
	}
}

func TestResolveDerivesCounts(t *testing.T) {
	votes := [][]int64{{3, 4}, {5, 2}, {7, 0}}
	for _, c := range []struct {
		v    VotedEvent
		want privacy.Event
	}{
		{VotedEvent{Event: privacy.Event{Kind: privacy.GNMax, Sigma: 2}, Votes: votes},
			privacy.Event{Kind: privacy.GNMax, Sigma: 2, Count: 3}},
		{VotedEvent{Event: privacy.Event{Kind: privacy.LNMax, Lambda: 2, Count: 3}, Votes: votes},
			privacy.Event{Kind: privacy.LNMax, Lambda: 2, Count: 3}},
		{
			VotedEvent{Event: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 2, Sigma2: 3}, Votes: votes,
				Unanswered: []bool{true, true, false}},
			privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 2, Sigma2: 3, Asked: 3, Answered: 1},
		},
		{
			VotedEvent{Event: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 2, Sigma2: 3}, Votes: votes},
			privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 2, Sigma2: 3, Asked: 3, Answered: 3},
		},
		{VotedEvent{Event: privacy.Event{Kind: privacy.Laplace, Epsilon: 2, Count: 9}},
			privacy.Event{Kind: privacy.Laplace, Epsilon: 2, Count: 9}},
	} {
		if got, err := c.v.Resolve(); err != nil || got != c.want {
			t.Errorf("%v: %v, %v", c.v, got, err)
		}
	}
}

func TestDataDependentRefuses(t *testing.T) {
	nan, secret := math.NaN(), int64(31415926)
	gn := func(votes ...[]int64) VotedEvent {
		return VotedEvent{Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40}, Votes: votes}
	}
	for name, v := range map[string]VotedEvent{
		"negative count": gn([]int64{secret, -secret}),
		"one class":      gn([]int64{secret}),
		"no classes":     gn([]int64{}),
		"no votes":       gn([]int64{0, 0}),
		"overflow":       gn([]int64{math.MaxInt64, secret}),
		"count and votes": {Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40, Count: 2},
			Votes: [][]int64{{secret, 1}}},
		"no count":  {Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40}},
		"sigma NaN": {Event: privacy.Event{Kind: privacy.GNMax, Sigma: nan}, Votes: [][]int64{{secret, 1}}},
		"votes of gaussian": {Event: privacy.Event{Kind: privacy.Gaussian, Sigma: 1, Sensitivity: 1, Count: 1},
			Votes: [][]int64{{secret, 1}}},
		"votes of nothing": {Votes: [][]int64{{secret, 1}}},
		"unanswered gnmax": {Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40}, Votes: [][]int64{{secret, 1}},
			Unanswered: []bool{false}},
		"unanswered, no votes": {Event: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 1, Sigma2: 1, Asked: 1},
			Unanswered: []bool{true}},
		"unanswered of another": {Event: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 1, Sigma2: 1},
			Votes: [][]int64{{secret, 1}}, Unanswered: []bool{true, false}},
		"asked and votes": {Event: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 1, Sigma2: 1, Asked: 2},
			Votes: [][]int64{{secret, 1}}},
		"answered and votes": {Event: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 1, Sigma2: 1,
			Answered: 1}, Votes: [][]int64{{secret, 1}}, Unanswered: []bool{true}},
		"count of the other one": {Event: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 1, Sigma2: 1, Count: 1},
			Votes: [][]int64{{secret, 1}}},
	} {
		_, err := DataDependent([]VotedEvent{v}, 1e-5)
		field := (*privacy.FieldError)(nil)
		if !errors.As(err, &field) {
			t.Errorf("%s: error %v, want a FieldError", name, err)
		} else if strings.Contains(err.Error(), "31415926") {
			t.Errorf("%s: the message shows a count: %v", name, err)
		}
	}
	for _, delta := range []float64{0, 1, -1, nan} {
		if _, err := DataDependent([]VotedEvent{gn([]int64{5, 4})}, delta); err == nil {
			t.Errorf("delta %v is accepted", delta)
		}
	}
	tiny := []VotedEvent{{Event: privacy.Event{Kind: privacy.GNMax, Sigma: 1e-300}, Votes: [][]int64{{5, 4}}}}
	if claim := mustDataDependent(t, tiny, 1e-5); claim.RDP != nil {
		t.Errorf("noise that hides nothing has epsilon %v", *claim.RDP)
	}
}

// Queries without two equal histograms, and many equal ones, on all orders.
func BenchmarkDataDependent(b *testing.B) {
	different := make([][]int64, 10_000)
	for i := range different {
		different[i] = []int64{int64(i), int64(20000 - i), 7, int64(i % 13)}
	}
	for name, votes := range map[string][][]int64{
		"10000-different": different,
		"100000-equal":    slices.Repeat([][]int64{{9000, 1000}}, 100_000),
	} {
		answer := VotedEvent{Event: privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 12000, Sigma1: 900,
			Sigma2: 400}, Votes: votes}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				mustDataDependent(b, []VotedEvent{answer}, 1e-5)
			}
		})
	}
}
