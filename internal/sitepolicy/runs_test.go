package sitepolicy

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// People see who asks and for what, what may be asked, how often, and with how much noise.
func TestARunIsShownAsItAsks(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	g := s.enforcer()
	r := round("r", 0, 10)
	r.Requester, r.Spec.Purpose, r.Spec.Plan = "lab", "survival of patients", privacy.Plan{
		{Kind: string(EmbeddingSum), Count: 1,
			Mechanism: privacy.Event{Kind: privacy.Gaussian, Sigma: 3, Sensitivity: 2}},
		{Kind: string(ClassCounts), Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: 0.25}, Count: 1},
		{Kind: string(Votes), Count: 512, Variant: "histogram",
			Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 40}},
		{Kind: string(ScoreSum), Stage: "selections",
			Mechanism: privacy.Event{Kind: privacy.Exponential, Epsilon: 0.125}, Count: 3},
		{Kind: string(Votes), Mechanism: privacy.Event{Kind: privacy.LNMax, Lambda: 0.5}},
	}
	r.Use.Planned = 2
	refusedBy(t, g.Ask(r), RuleApproval)
	r.Requester = "eve" // what was seen first stays
	refusedBy(t, g.Ask(r), RuleApproval)
	decided, err := g.Decide("r", "", true, "ann")
	testkit.Must(t, err)
	status, err := s.enforcer().Status()
	testkit.Must(t, err)
	for _, run := range append(status.Runs, *decided) {
		if run.Requester != "lab" || run.Spec.Purpose != "survival of patients" || run.By != "ann" {
			t.Errorf("the run is shown as %+v", run)
		}
		want := "1 x embedding: gaussian sigma 3 sensitivity 2; 1 x class-counts: laplace epsilon 0.25; " +
			"512 x votes: gnmax sigma 40 histogram; 3 x scores: exponential epsilon 0.125; " +
			"any number of votes: lnmax lambda 0.5"
		if got := run.Spec.Noise(); got != want {
			t.Errorf("it asks %q, want %q", got, want)
		}
	}
	if len(status.Runs) != 1 {
		t.Errorf("%d runs", len(status.Runs))
	}
}
