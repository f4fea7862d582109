package sitepolicy

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// An approval counts until its end by the site's clock. Setting the clock back does not extend it.
func TestApprovalsExpire(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "approval: automatic", "approval: by-hand, approval_expires: 30d", 1))
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	var told []Entry
	g := s.enforcer(func(o *Options) { o.Expired = func(e Entry) { told = append(told, e) } })
	g.ledger.now = func() time.Time { return now }
	r := round("r", 0, 100)
	waits := func(r Request) { t.Helper(); refusedBy(t, g.Ask(r), RuleApproval) }
	approve := func(run string, until time.Time) *Run {
		t.Helper()
		decided, err := g.Decide(run, "", Decision{Approve: true, By: "ann", Until: until})
		testkit.Must(t, err)
		return decided
	}
	waits(r)
	if run := approve("r", time.Time{}); run.Until != "2026-12-26T12:00:00Z" || run.State != StateApproved {
		t.Errorf("by the policy's term it is %s until %s", run.State, run.Until)
	}
	if run := approve("r", now.Add(time.Hour)); run.Until != "2026-11-26T13:00:00Z" {
		t.Errorf("it is approved until %s", run.Until)
	}
	now = now.Add(time.Hour - time.Millisecond)
	testkit.Value(g.Charge(r))
	now = now.Add(time.Millisecond)
	waits(round("r", 1, 100))
	waits(round("r", 1, 100))
	waits(r) // a charged question is not answered again either
	if len(told) != 1 || told[0].Run != "r" || told[0].By != "ann" {
		t.Errorf("expiries %+v were told, want one", told)
	}
	status := testkit.Value(g.Status())
	if run := status.Runs[0]; run.State != StateWaiting || run.Charges != 1 || run.Said[1].Why != errExpired.Error() {
		t.Errorf("the run is %+v", run)
	}
	// The clock goes back. An expired approval stays expired, also if nobody asked meanwhile but the ledger went on.
	q := round("q", 0, 100)
	waits(q)
	approve("q", now.Add(time.Hour))
	now = now.Add(2 * time.Hour)
	waits(round("p", 0, 100))
	now = now.Add(-9 * time.Hour)
	waits(r)
	waits(q)
	if _, err := g.Decide("q", "", Decision{Approve: true, By: "ann", Until: now.Add(time.Hour)}); err == nil ||
		!strings.Contains(err.Error(), "the approval would end at 2026-11-26T07:00:00Z, but it is already "+
			"2026-11-26T15:00:00Z") {
		t.Errorf("an end before what the ledger knows of: %v", err)
	}
	now = now.Add(24 * time.Hour)
	approve("q", now.Add(time.Hour))
	testkit.Must(t, g.Ask(q))
}

// lab is an approval in advance for a student's runs.
func lab(epsilon float64) *Advance {
	return &Advance{Student: "lab", Pipelines: []string{"pategan"}, Epsilon: epsilon}
}

// byLab is a round of one of that student's runs, whose plan has this many votes.
func byLab(run string, number uint64, sigma float64, count int64) Request {
	r := round(run, number, sigma)
	r.Requester = "lab"
	r.Spec.Plan = privacy.Plan{{Kind: string(Votes), Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: sigma},
		Count: count}}
	r.Use = privacy.Use{Planned: 0, Queries: 1, Answered: 1}
	return r
}

func TestRunsAreApprovedInAdvance(t *testing.T) {
	s := newSite(t)
	byHand := strings.Replace(allowing, "automatic", "by-hand", 1)
	s.write(byHand)
	g := s.enforcer()
	waits := func(what string, r Request) {
		t.Helper()
		t.Log(what)
		refusedBy(t, g.Ask(r), RuleApproval)
	}
	advance := lab(0.5)
	advance.Purpose = "study 12"
	if _, err := g.Decide("lab-2027", "", Decision{Approve: true, By: "ann", Advance: advance}); err == nil ||
		!strings.Contains(err.Error(), "needs an end") {
		t.Errorf("without an end: %v", err)
	}
	run, err := g.Decide("lab-2027", "", Decision{Approve: true, By: "ann", Advance: advance,
		Until: time.Now().Add(time.Hour)})
	testkit.Must(t, err) // nobody has asked yet
	if run.State != StateApproved || run.Advance.Student != "lab" || run.Spec != nil {
		t.Errorf("decided %+v", run)
	}
	asks := func(change func(*Request)) Request {
		r := byLab("r", 0, 50, 20)
		r.Spec.Purpose = "study 12"
		was := r.SpecSHA256
		change(&r)
		if r.SpecSHA256 == was { // different terms make a different run
			r.SpecSHA256 = digest(fmt.Sprintf("%s %+v %+v", r.Requester, r.Spec, r.Spec.Masked))
		}
		return r
	}
	waits("another student", asks(func(r *Request) { r.Requester = "eve" }))
	waits("nobody", asks(func(r *Request) { r.Requester = "" }))
	waits("another purpose", asks(func(r *Request) { r.Spec.Purpose = "study 13" }))
	waits("another pipeline", asks(func(r *Request) {
		r.Spec.Pipeline, r.Kind = "embed", EmbeddingSum
		r.Spec.Plan = privacy.Plan{{Kind: string(EmbeddingSum), Mechanism: r.Spec.Plan[0].Mechanism, Count: 1}}
	}))
	waits("a plan that costs more", asks(func(r *Request) { r.Spec.Plan[0].Count = 2000 }))
	waits("a budget that is more, with a plan that bounds nothing", asks(func(r *Request) { r.Spec.Plan[0].Count = 0 }))
	masked := asks(func(r *Request) {
		member := func(site string) masking.Member {
			return masking.Member{Site: site, Key: sha256.Sum256([]byte(site))}
		}
		r.Spec.Masked = &masking.Group{Quorum: 2, Colluding: 1, Members: []masking.Member{member("north"),
			member("south")}}
	})
	waits("members that nobody looks at", masked)
	first := asks(func(*Request) {})
	testkit.Must(t, g.Ask(first))
	entry := testkit.Value(g.Charge(first))
	if entry.Under != run.SpecSHA256 {
		t.Errorf("charged under %q", entry.Under)
	}
	status := testkit.Value(s.enforcer().Status())
	if ahead := status.InAdvance[0]; ahead.Charges != 1 || ahead.EpsilonCharged <= 0 || ahead.Run != "lab-2027" {
		t.Errorf("the approval in advance: %+v", ahead)
	}
	// The end of a run does not end the approval, even if both have the same name.
	testkit.Must(t, g.End("r", "lab-2027"))
	again := asks(func(r *Request) { r.Run, r.SpecSHA256 = "again", digest("again") })
	testkit.Must(t, g.Ask(again))
	testkit.Value(g.Charge(again))
	// After it is withdrawn, nothing continues.
	_, err = g.Decide("lab-2027", "", Decision{By: "ann"})
	testkit.Must(t, err)
	waits("what was withdrawn", again)
	// A denial of the run takes precedence over an approval in advance.
	if _, err = g.Decide("lab-2027", "", Decision{Approve: true, By: "ann"}); err == nil {
		t.Error("an approval in advance has no end")
	}
	_, err = g.Decide("lab-2027", "", Decision{Approve: true, By: "ann", Until: time.Now().Add(time.Hour)})
	testkit.Must(t, err)
	testkit.Must(t, g.Ask(again))
	_, err = g.Decide("again", "", Decision{By: "ann"})
	testkit.Must(t, err)
	refusedBy(t, g.Ask(again), RuleDenied)
}

// Two persons approve in advance as they approve a run.
func TestTwoPersonsApproveInAdvance(t *testing.T) {
	b := newBoard(t, 2)
	for i, name := range []string{"ann", "ann", "ben"} {
		refusedBy(t, b.enforcer().Ask(byLab("r", 0, 50, 20)), RuleApproval)
		b.now = b.now.Add(time.Second)
		run, err := b.enforcer().Decide("lab", "", Decision{Approve: true, Advance: lab(1), By: "u",
			Until: b.now.Add(time.Hour), Sign: b.signer(name)})
		testkit.Must(t, err)
		if want := min(i/2+1, 2); run.Approvals != want {
			t.Errorf("%d of 2 after %q approved", run.Approvals, name)
		}
	}
	testkit.Must(t, b.enforcer().Ask(byLab("r", 0, 50, 20)))
	b.now = b.now.Add(2 * time.Hour)
	refusedBy(t, b.enforcer().Ask(byLab("r", 0, 50, 20)), RuleApproval)
}

// The remaining plan of a run that began is reserved: another one waits until that run has ended or was denied.
func TestARunThatBeganKeepsItsRoom(t *testing.T) {
	const rounds = 20
	cost, err := countedBy(privacy.Budget{Delta: 1e-5, Filter: privacy.FilterGDP},
		byLab("", 0, 50, rounds).Spec.Plan.Events())
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		count int64 // in the plan; 0 sets no bound
		over  func(g *Enforcer) error
	}{
		"ends":                           {rounds, func(g *Enforcer) error { return g.End("first") }},
		"is denied":                      {rounds, func(g *Enforcer) error { return decide(g, "first", false) }},
		"ends, and its plan is no bound": {0, func(g *Enforcer) error { return g.End("first") }},
	} {
		s := newSite(t)
		s.write("datasets: [{name: d, epsilon: 50, delta: 1e-5, pipelines: [pategan]}]")
		g := s.enforcer()
		// Each fits alone, but both together do not.
		testkit.Value(g.Decide("a", "", Decision{Approve: true, By: "ann", Advance: lab(1.2 * cost),
			Until: time.Now().Add(time.Hour)}))
		run := func(name string, number uint64) Request {
			r := byLab(name, number, 50, c.count)
			r.Spec.Epsilon = cost
			return r
		}
		testkit.Value(g.Charge(run("first", 0)))
		refusedBy(t, g.Ask(run("second", 0)), RuleApproval)
		for i := range rounds / 2 {
			testkit.Value(g.Charge(run("first", uint64(i+1))))
		}
		refusedBy(t, s.enforcer().Ask(run("second", 0)), RuleApproval)
		testkit.Must(t, c.over(g))
		refusedBy(t, g.Ask(run("second", 0)), RuleApproval) // the first run's charges leave room for less
		third := run("third", 0)
		third.Spec.Epsilon = cost / 3
		third.Spec.Plan[0].Count = min(c.count, rounds/4)
		if err := g.Ask(third); err != nil {
			t.Errorf("after the first %s: %v", name, err)
		}
	}
}

func decide(g *Enforcer, run string, approve bool) error {
	_, err := g.Decide(run, "", Decision{Approve: approve, By: "ann"})
	return err
}

// Whatever runs ask under an approval in advance, their total cost stays within its epsilon.
func TestAnApprovalInAdvanceIsABound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSite(t)
		s.write("datasets: [{name: d, epsilon: 50, delta: 1e-5, pipelines: [pategan]}]")
		g := s.enforcer()
		bound := rapid.Float64Range(0.1, 3).Draw(rt, "bound")
		testkit.Value(g.Decide("a", "", Decision{Approve: true, By: "ann", Advance: lab(bound),
			Until: time.Now().Add(time.Hour)}))
		for i := range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			r := byLab(fmt.Sprint("r", rapid.IntRange(0, 2).Draw(rt, "run")), uint64(i),
				rapid.Float64Range(5, 60).Draw(rt, "sigma"), rapid.Int64Range(0, 20).Draw(rt, "count"))
			_, _ = g.Charge(r) // some are refused
		}
		ahead := testkit.Value(g.Status()).InAdvance[0]
		counted, err := countedBy(privacy.Budget{Epsilon: bound, Delta: 1e-5, Filter: privacy.FilterGDP}, ahead.Events)
		if err != nil || counted > bound {
			rt.Fatalf("epsilon %v was charged of %v (%v)", counted, bound, err)
		}
		var all int
		for _, run := range testkit.Value(g.Status()).Runs {
			all += run.Charges
		}
		if all != ahead.Charges {
			rt.Fatalf("%d charges of %d are under it", ahead.Charges, all)
		}
	})
}
