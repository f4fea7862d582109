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
	r.Requester = "eve" // the first value stays
	refusedBy(t, g.Ask(r), RuleTerms)
	decided, err := g.Decide("r", "", Decision{Approve: true, By: "ann"})
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

// People see that a run does not fit the site's limit, and what an approval then lets it do.
func TestARunThatDoesNotFitTheLimitSaysSo(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	e, r := s.enforcer(), round("r", 0, 10)
	r.Spec.Plan = privacy.Plan{{Kind: string(Votes), Count: 1,
		Mechanism: privacy.Event{Kind: privacy.Gaussian, Sigma: 1, Sensitivity: 1}}}
	r.Use.Planned = 0
	refusedBy(t, e.Ask(r), RuleApproval)
	brief := testkit.Value(e.Brief("r", ""))
	for _, rule := range brief.Rules {
		want := rule.Rule != RuleEpsilon
		if rule.Met != want || !want && !strings.HasSuffix(rule.Says,
			"and the site's limit is 2; after an approval the node answers only up to the limit") {
			t.Errorf("rule %s: met %v, %q", rule.Rule, rule.Met, rule.Says)
		}
	}
	if last := brief.Rules[len(brief.Rules)-1]; last.Rule != RuleEpsilon {
		t.Errorf("the last rule is %s", last.Rule)
	}
}

// The figure of a run that has ended is about what was charged, and not about the rest of its plan or its budget.
func TestAnEndedRunRevealsWhatWasCharged(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	e, r := s.enforcer(), round("r", 0, 10)
	r.Spec.Plan = privacy.Plan{{Kind: string(Votes), Count: 2,
		Mechanism: privacy.Event{Kind: privacy.Gaussian, Sigma: 10, Sensitivity: 1}}}
	r.Charges = []privacy.Event{{Kind: privacy.Gaussian, Sigma: 10, Sensitivity: 1, Count: 1}}
	r.Use.Planned = 0
	testkit.Value(e.Charge(r))
	whole := testkit.Value(e.Brief("r", "")).Telling
	testkit.Must(t, e.End("r"))
	if got := testkit.Value(e.Brief("r", "")).Telling; !got.Exact || got.Chance >= whole.Chance || got.Chance <= 0.5 {
		t.Errorf("after one of two answers %+v, and the whole plan has %+v", got, whole)
	}
}

// Runs that a site refuses, or never decides about, fill its ledger only up to a bound, and those of one student up
// to a tenth of it; others continue.
func TestUndecidedRunsAreBounded(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	of := func(student string, n int) Request {
		r := round(fmt.Sprint(student, n), 0, 1e3)
		r.SpecSHA256, r.Requester = digest(r.Run), student
		return r
	}
	noted := func(want int, why string) {
		t.Helper()
		status, err := g.Status()
		testkit.Must(t, err)
		if len(status.Runs) != want {
			t.Fatalf("%d runs are in the ledger %s, want %d", len(status.Runs), why, want)
		}
	}
	full := func(r Request) {
		t.Helper()
		says := refusedBy(t, g.Ask(r), RuleApproval)
		if says.Waiting || !strings.Contains(says.Leaving(), "ask its people to deny some") ||
			!strings.Contains(says.Error(), "and deny some with `teacher deny`") {
			t.Fatalf("refused with %q, waiting %v", says, says.Waiting)
		}
	}
	waits := func(r Request) {
		t.Helper()
		if says := refusedBy(t, g.Ask(r), RuleApproval); !says.Waiting {
			t.Fatalf("refused with %q", says)
		}
	}
	for n := range maxUndecidedOfOne + 5 {
		r := of("eve", n)
		r.Spec.Pipeline = "gpate"
		refusedBy(t, g.Ask(r), RulePipeline)
	}
	noted(maxUndecidedOfOne, "once eve was refused more")
	// A run that is answered needs no room, because it is recorded once it is charged.
	testkit.Must(t, g.Ask(of("eve", 500)))
	_, err := g.Charge(of("eve", 500))
	testkit.Must(t, err)
	noted(maxUndecidedOfOne+1, "with one that is charged")

	s.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	full(of("eve", 600))
	waits(of("lab", 0))
	noted(maxUndecidedOfOne+2, "as another student's waits")
	testkit.Must(t, g.End("eve0", "eve1")) // the end of a run makes no room, because its entry stays
	full(of("eve", 600))
	_, err = g.Decide("eve0", "", Decision{By: "ann"})
	testkit.Must(t, err)
	waits(of("eve", 600))
	full(of("eve", 601))

	for student := range maxUndecided/maxUndecidedOfOne + 1 {
		for n := range maxUndecidedOfOne {
			_ = g.Ask(of(fmt.Sprint("student", student, "-"), n))
		}
	}
	noted(maxUndecided+2, "of many students, with one that is charged and one that is denied")
	full(of("another", 0))
}
