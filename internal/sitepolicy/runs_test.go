package sitepolicy

import (
	"fmt"
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

// Runs that a site refuses, or never decides about, fill its ledger up to a bound; others go on.
func TestUndecidedRunsAreBounded(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	named := func(name string, n int) Request {
		r := round(fmt.Sprint(name, n), 0, 1e3)
		r.SpecSHA256 = digest(r.Run)
		return r
	}
	noted := func() int {
		status, err := g.Status()
		testkit.Must(t, err)
		return len(status.Runs)
	}
	for n := range maxUndecided + 5 {
		r := named("refused", n)
		r.Spec.Pipeline = "gpate"
		refusedBy(t, g.Ask(r), RulePipeline)
	}
	if n := noted(); n != maxUndecided {
		t.Fatalf("%d runs that are refused are in the ledger, want %d", n, maxUndecided)
	}
	// An honest run is answered, and is in the ledger once it is charged.
	testkit.Must(t, g.Ask(named("honest", 0)))
	_, err := g.Charge(named("honest", 0))
	testkit.Must(t, err)
	if n := noted(); n != maxUndecided+1 {
		t.Fatalf("%d runs are in the ledger, want one more than %d", n, maxUndecided)
	}
	// What waits for a person has to be there to be decided about: when what was refused has ended.
	s.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	says := refusedBy(t, g.Ask(named("waits", 0)), RuleApproval)
	if says.Waiting || !strings.Contains(says.Leaving(), "too many runs wait") {
		t.Errorf("refused with %q, waiting %v", says.Leaving(), says.Waiting)
	}
	testkit.Must(t, g.End("refused0"))
	if says := refusedBy(t, g.Ask(named("waits", 0)), RuleApproval); !says.Waiting {
		t.Errorf("refused with %q", says.Leaving())
	}
	if n := noted(); n != maxUndecided+2 {
		t.Errorf("%d runs are in the ledger, want two more than %d", n, maxUndecided)
	}
}
