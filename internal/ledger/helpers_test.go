package ledger

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// closeTo fails unless got is within a relative tolerance of want.
func closeTo(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s = %.17g, want %.17g within %g (relative)", what, got, want, tolerance)
	}
}

func mustAccount(t *testing.T, events []privacy.Event, delta float64) privacy.Price {
	t.Helper()
	price, err := privacy.Account(events, delta)
	testkit.Must(t, err)
	return price
}

// facts are the facts of the runs in these tests.
var facts = &Facts{Student: "ada", Pipeline: "pategan", SchemaSHA256: strings.Repeat("ab", 32), Teachers: 4}

// planned is a plan of events with their counts.
func planned(events ...privacy.Event) (plan privacy.Plan) {
	kinds := map[privacy.Kind]string{
		privacy.Laplace: "class-counts", privacy.SubsampledGaussian: "discriminator", privacy.GNMax: "votes",
		privacy.Exponential: "scores", privacy.Gaussian: "embedding", privacy.ConfidentGNMax: "votes",
	}
	for _, e := range events {
		p := privacy.Planned{Kind: kinds[e.Kind], Mechanism: e, Count: e.Count + e.Asked}
		p.Mechanism.Count, p.Mechanism.Asked, p.Mechanism.Answered = 0, 0, 0
		plan = append(plan, p)
	}
	return plan
}

func sampled(rate, sigma float64, count int64) privacy.Event {
	return privacy.Event{Kind: privacy.SubsampledGaussian, Rate: rate, NoiseMultiplier: sigma, Count: count}
}

// unlimited is a plan with all mechanisms of these tests, as often as the budget admits.
func unlimited() privacy.Plan {
	of := func(kind, stage string, e privacy.Event) privacy.Planned {
		e = e.Times(1)
		e.Count, e.Asked, e.Answered = 0, 0, 0
		return privacy.Planned{Kind: kind, Stage: stage, Mechanism: e}
	}
	return privacy.Plan{
		of("class-counts", "", shares), of("votes", "", labels), of("votes", "", confident), of("votes", "", lnmax),
		of("gradient-sums", "", summed), of("embedding", "", embedded), of("discriminator", "", sampled(0.02, 20, 1)),
		of("scores", "selections", selected), of("fit", "fit", fitted), of("fit", "fit", pureFit),
		of("fit", "fit", dear),
	}
}

// paidBy is the index of the plan entry with the mechanism of an event, or of the first entry.
func paidBy(plan privacy.Plan, e privacy.Event) int {
	return max(0, slices.IndexFunc(plan, func(p privacy.Planned) bool { return p.Mechanism.Times(1) == e.Times(1) }))
}

// releaseOf is a release of an event, charged to the plan entry with its mechanism.
func releaseOf(plan privacy.Plan, round uint64, e privacy.Event) Entry {
	at := paidBy(plan, e)
	return Entry{
		Type: EntryRelease, Round: &round, Planned: &at, Kind: plan[at].Kind,
		Charge: Charge{
			Events: []privacy.Event{e}, Queries: e.Count + e.Asked, Answered: e.Count + e.Answered,
			ReleaseSHA256: strings.Repeat("0a", 32),
		},
	}
}

// planFor fills the budget with the class shares and samples.
func planFor(t testing.TB, b privacy.Budget, releases int64) privacy.Plan {
	t.Helper()
	sigma, err := privacy.SampledSigma(b, 0.02, releases, []privacy.Event{shares})
	testkit.Must(t, err)
	return planned(shares, sampled(0.02, sigma, releases))
}
