package sitepolicy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestARoundThatIsAllowedIsChargedOnce(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	testkit.Must(t, g.Check())
	r := round("r", 0, 10)
	testkit.Must(t, g.Ask(r))
	e, err := g.Charge(r)
	testkit.Must(t, err)
	if e == nil || e.Type != EntryCharge || e.Seq != 3 || e.Hash == "" || !(e.EpsilonSpent > 0) {
		t.Fatalf("entry %+v; want the third, a charge", e)
	}
	// Repeating it, here and after a restart, is free; another question is not.
	for _, enforcer := range []*Enforcer{g, s.enforcer()} {
		// The charge names the entry that paid.
		if again, err := enforcer.Charge(r); err != nil || again.Seq != e.Seq || again.Hash != e.Hash ||
			again.Events != nil || again.EpsilonSpent != e.EpsilonSpent {
			t.Fatalf("charged again: %+v, %v", again, err)
		}
	}
	other := r
	other.Question = digest("something else")
	second, err := g.Charge(other)
	testkit.Must(t, err)
	if second == nil || second.EpsilonSpent <= e.EpsilonSpent {
		t.Fatalf("another question cost nothing: %+v", second)
	}
	// After a restored ledger is accepted, an answer may be drawn anew, and is charged again.
	testkit.Must(t, g.AcceptLedger(LedgerHead{Seq: 4, Hash: digest("restored")}, Decision{By: "ann"}))
	for _, enforcer := range []*Enforcer{g, s.enforcer()} {
		anew, err := enforcer.Charge(r)
		testkit.Must(t, err)
		if anew.EpsilonSpent <= second.EpsilonSpent || anew.Seq <= second.Seq {
			t.Fatalf("an answer that was drawn anew cost nothing: %+v", anew)
		}
	}
	second, err = g.Charge(r)
	testkit.Must(t, err)
	status, err := s.enforcer(func(o *Options) { o.ReadOnly = true }).Status()
	testkit.Must(t, err)
	if len(status.Runs) != 1 || status.Runs[0].Charges != 3 || status.Runs[0].State != StateAutomatic ||
		status.EpsilonSpent != second.EpsilonSpent || status.Problem != "" || status.Entries != 6 {
		t.Errorf("status %+v", status)
	}
}

func TestRulesRefuseByName(t *testing.T) {
	all := func(policy string, changes ...func(*Options)) func(t *testing.T, r Request) error {
		return func(t *testing.T, r Request) error {
			s := newSite(t)
			s.write(policy)
			return s.enforcer(changes...).Ask(r)
		}
	}
	facts := func(units, least int) func(*Options) {
		return func(o *Options) { o.Facts = Facts{Units: units, LeastUnits: least} }
	}
	allowed := all(allowing)
	for name, c := range map[string]struct {
		rule    Rule
		ask     func(t *testing.T, r Request) error
		change  func(*Request)
		leaving string
		waiting bool
	}{
		"no terms": {RuleTerms, allowed, func(r *Request) { *r = Request{Run: "r"} }, "no valid description",
			false},
		"no price": {RuleTerms, allowed, func(r *Request) { r.Charges = nil }, "no valid description", false},
		"a price below 0": {RuleTerms, allowed, func(r *Request) { r.Charges[0].Count = -1 }, "no valid description",
			false},
		"a word that moves the cursor": {RuleTerms, allowed, func(r *Request) {
			r.Spec.Guarantee = "none\x1b[2K"
		}, "no valid description", false},
		"a word that turns letters": {RuleTerms, allowed, func(r *Request) {
			r.Spec.Pipeline = "pate\u202egan"
		}, "no valid description", false},
		"a run's bad name": {RuleTerms, allowed, func(r *Request) { r.Run = "../r" }, "no valid description", false},
		"nobody asks": {RuleTerms, allowed, func(r *Request) { r.Requester = "\x1b[2J" }, "no valid description",
			false},
		"a purpose of lines": {RuleTerms, allowed, func(r *Request) { r.Spec.Purpose = "a\nb" }, "no valid description",
			false},
		"other schema": {RuleTerms, allowed, func(r *Request) {
			r.Spec.SchemaSHA256 = digest("x")
		}, "another schema", false},
		"other unit": {RuleTerms, allowed, func(r *Request) {
			r.Spec.Unit = "person"
		}, "another privacy unit", false},
		"fewer sites": {RuleTerms, all(allowing, func(o *Options) { o.Overlap = 3 }), func(r *Request) {
			r.Spec.Overlap = 2
		}, "those of this node may be at up to 3", false},
		"other dataset": {RuleDataset, allowed, func(r *Request) { r.Spec.Dataset = "e" }, "another dataset", false},
		"absent dataset": {RuleDataset, all(strings.Replace(allowing, "name: d", "name: e", 1)), nil,
			"nothing is allowed", false},
		"pipeline": {RulePipeline, allowed, func(r *Request) {
			r.Spec.Pipeline = "gpate"
		}, `"gpate" is not allowed`, false},
		"stage": {RuleStages, allowed, func(r *Request) {
			r.Spec.Plan = planOf(Votes, ScoreSum, Fit)
			r.Spec.Plan[1].Stage, r.Spec.Plan[2].Stage = "selections", "fit"
		}, `"fit" is not allowed on dataset d; leave that stage out`, false},
		"question": {RuleQuestion, allowed, func(r *Request) {
			r.Kind, r.Spec.Plan = GradientSum, planOf(GradientSum)
		}, "a round of gradient-sums belongs neither", false},
		"a stage's": {RuleQuestion, allowed, func(r *Request) {
			r.Kind, r.Spec.Plan = ScoreSum, planOf(ScoreSum)
		}, "a round of scores", false},
		"not planned": {RuleQuestion, allowed, func(r *Request) {
			r.Kind = EmbeddingSum
			r.Spec.Plan = planOf(Votes)
		}, "a round of embedding", false},
		"an embed's votes": {RuleQuestion, allowed, func(r *Request) {
			r.Spec.Pipeline = "embed"
		}, "a round of votes", false},
		"few rows":        {RuleRows, all(allowing, facts(99, 50)), nil, "the site does not answer", false},
		"few per teacher": {RulePerHead, all(allowing, facts(1000, 4)), nil, "the site does not answer", false},
		"over the limit": {RuleEpsilon, allowed, func(r *Request) {
			r.Charges[0].Count = 1e6
		}, "own limit on dataset d would be exceeded", false},
		"by hand": {RuleApproval, all(strings.Replace(allowing, "automatic", "by-hand", 1)), nil,
			"waits for approval at site north", true},
		"bad policy": {RulePolicy, all("datasets: [{name: d}]"), nil, "until it is fixed", true},
		"no policy": {RulePolicy, func(t *testing.T, r Request) error {
			return newSite(t).enforcer().Ask(r)
		}, nil, "until it is fixed", true},
		"no folder": {RuleLedger, func(t *testing.T, r Request) error {
			s := newSite(t)
			s.write(allowing)
			return s.enforcer(func(o *Options) { o.Ledger = filepath.Join(s.dir, "gone", "l.jsonl") }).Ask(r)
		}, nil, "cannot be used", true},
		"a folder for a policy": {RulePolicy, func(t *testing.T, r Request) error {
			s := newSite(t)
			return s.enforcer(func(o *Options) { o.Policy = s.dir }).Ask(r)
		}, nil, "until it is fixed", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := round("r", 0, 10)
			if c.change != nil {
				c.change(&r)
			}
			refusal := refusedBy(t, c.ask(t, r), c.rule)
			says := refusal.Leaving()
			if !strings.Contains(says, c.leaving) || refusal.Waiting != c.waiting {
				t.Errorf("it says %q, waiting %v; want %q, %v", says, refusal.Waiting, c.leaving, c.waiting)
			}
			// A rule about the number of records is not named, because that would reveal a bit about them.
			named := c.rule != RuleRows && c.rule != RulePerHead
			if !strings.Contains(says, "site north") || strings.Contains(says, string(c.rule)) != named {
				t.Errorf("%q does not name the site, or the rule %s: %v", says, c.rule, !named)
			}
			// Numbers of records and file names are only for the site.
			for _, secret := range []string{"99", "1000", "privacy units,", "with 4", "/", ".yaml", ".jsonl"} {
				if strings.Contains(says, secret) {
					t.Errorf("%q holds %q", says, secret)
				}
			}
		})
	}
}

// An approval ends with the run, and when the uses in its plan are used up, whatever is asked in whichever round.
func TestAnApprovalEnds(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	ask := func(number uint64, question string) error {
		r := round("r", number, 1e12)
		r.Spec.Plan[2].Count, r.Question = 3, digest(question)
		_, err := g.Charge(r)
		return err
	}
	testkit.Must(t, ask(0, "a"))
	testkit.Must(t, ask(0, "b")) // another question in the same round
	testkit.Must(t, ask(0, "b")) // the same again
	testkit.Must(t, ask(1, "c"))
	refusedBy(t, ask(1, "d"), RulePlan)
	refusedBy(t, ask(0, "a"), RulePlan) // the node would now draw another answer to it
	refusedBy(t, ask(0, "e"), RulePlan)
	testkit.Must(t, ask(1, "c"))
	g = s.enforcer() // a restart changes nothing
	refusedBy(t, ask(2, "f"), RulePlan)
	testkit.Must(t, g.End("r"))
	testkit.Must(t, g.End("r"))
	testkit.Must(t, g.End("never asked"))
	for _, enforcer := range []*Enforcer{g, s.enforcer()} {
		g = enforcer
		refusedBy(t, ask(0, "a"), RuleEnded)
		status, err := g.Status()
		testkit.Must(t, err)
		if len(status.Runs) != 1 || status.Runs[0].State != StateEnded || status.Runs[0].Charges != 3 {
			t.Errorf("status %+v", status.Runs)
		}
	}
}

// A node repeats its last answer of a run, and draws a new one for any earlier question. Each new one is charged,
// also if a run of the same name has another spec, and after a restart.
func TestQuestionsInTurnAreChargedEachTime(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "epsilon: 2", "epsilon: 1000", 1))
	a, b, other := round("r", 0, 1e4), round("r", 0, 1e4), round("r", 0, 1e4)
	b.Question, other.Question, other.SpecSHA256 = digest("b"), digest("other"), digest("another")
	charges := 0
	for i := range 12 {
		g := s.enforcer()
		r := []Request{a, b, other}[i%3]
		for again := range 3 {
			entry, err := g.Charge(r)
			testkit.Must(t, err)
			if due := again == 0; due != (entry.Events != nil) {
				t.Fatalf("question %d asked for the %d. time is charged: %v", i, again+1, entry.Events != nil)
			}
		}
		charges++
		status, err := g.Status()
		testkit.Must(t, err)
		written := 0
		for _, run := range status.Runs {
			written += run.Charges
		}
		if written != charges {
			t.Fatalf("%d charges after %d questions", written, charges)
		}
	}
}

// A person approves the run's budget: nothing more is answered, whatever room the site's limit has and however often
// the plan may be used.
func TestARunIsHeldToItsBudget(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	answered := 0
	for number := range uint64(50) {
		r := round("r", number, 20)
		r.Spec.Epsilon = 0.3
		if _, err := g.Charge(r); err != nil {
			refusedBy(t, err, RuleBudget)
			break
		}
		answered++
	}
	status, err := g.Status()
	testkit.Must(t, err)
	if spent := status.Runs[0].EpsilonCharged; answered < 1 || spent > 0.3 || spent < 0.1 {
		t.Errorf("%d rounds were answered for epsilon %v of 0.3", answered, spent)
	}
}

// Accepting an older dataset ledger revives nothing that had ended.
func TestAcceptingALedgerRevivesNothing(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	_, err := g.Charge(round("r", 0, 100))
	testkit.Must(t, err)
	testkit.Must(t, g.End("r"))
	testkit.Must(t, g.AcceptLedger(LedgerHead{Seq: 4, Hash: digest("restored")}, Decision{By: "ann"}))
	_, err = g.Charge(round("r", 0, 100))
	refusedBy(t, err, RuleEnded)
}

func TestAnApprovalIsForOneSpec(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	g, people := s.enforcer(), s.enforcer()
	if _, err := people.Decide("r", "", Decision{Approve: true, By: "ann"}); !errors.Is(err, ErrNoRun) {
		t.Fatalf("a run that never asked: %v", err)
	}
	r := round("r", 0, 10)
	refusedBy(t, g.Ask(r), RuleApproval)
	_, err := g.Charge(r)
	refusedBy(t, err, RuleApproval)
	run, err := people.Decide("r", "", Decision{Approve: true, By: "ann"})
	testkit.Must(t, err)
	if run.State != StateApproved || run.By != "ann" || run.Spec.Pipeline != "pategan" {
		t.Errorf("decided %+v", run)
	}
	testkit.Must(t, g.Ask(r))
	// The same name with another spec is another run.
	other := r
	other.SpecSHA256 = digest("another")
	refusedBy(t, g.Ask(other), RuleApproval)
	if _, err := people.Decide("r", "", Decision{Approve: true, By: "ann"}); !errors.Is(err, ErrSpec) ||
		!strings.Contains(err.Error(), "--spec") {
		t.Errorf("two runs of a name: %v", err)
	}
	// An invalid spec prefix is a different error from a run that never asked.
	for _, spec := range []string{"xx", r.SpecSHA256 + "0"} {
		_, err := people.Decide("r", spec, Decision{Approve: true, By: "ann"})
		if !errors.Is(err, ErrSpec) || errors.Is(err, ErrNoRun) ||
			!strings.Contains(err.Error(), "has no spec that starts with") || !strings.Contains(err.Error(),
			r.SpecSHA256[:12]) {
			t.Errorf("spec %q: %v", spec, err)
		}
	}
	run, err = people.Decide("r", other.SpecSHA256[:12], Decision{By: "ann"})
	testkit.Must(t, err)
	if run.State != StateDenied || run.SpecSHA256 != other.SpecSHA256 {
		t.Errorf("decided %+v", run)
	}
	refusedBy(t, g.Ask(other), RuleDenied)
	_, err = g.Charge(r)
	testkit.Must(t, err)
	// An approved run can be stopped, also if the policy currently asks nobody.
	s.write(allowing)
	_, err = people.Decide("r", r.SpecSHA256, Decision{By: "bob"})
	testkit.Must(t, err)
	refusedBy(t, g.Ask(round("r", 1, 10)), RuleDenied)
	status, err := people.Status()
	testkit.Must(t, err)
	if len(status.Runs) != 2 || status.Runs[0].State != StateDenied || status.Runs[0].By != "bob" ||
		status.Runs[0].Charges != 1 {
		t.Errorf("status %+v", status)
	}
}

func TestAPolicyIsReadAgainWhenItChanges(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	r := round("r", 0, 10)
	_, err := g.Charge(r)
	testkit.Must(t, err)
	s.write("datasets: [")
	refusedBy(t, g.Ask(r), RulePolicy)
	refusedBy(t, g.Check(), RulePolicy)
	testkit.Must(t, os.Remove(filepath.Join(s.dir, "policy.yaml")))
	refusedBy(t, g.Ask(r), RulePolicy)
	s.write(strings.Replace(allowing, "epsilon: 2", "epsilon: 1e-3", 1))
	testkit.Must(t, g.Ask(r)) // it was charged
	refusedBy(t, g.Ask(round("r", 1, 10)), RuleEpsilon)
	s.write(strings.Replace(allowing, "1e-5,", "1e-5, filter: rdp,", 1))
	err = g.Ask(round("r", 1, 10))
	refusedBy(t, err, RuleFilter)
	// A typo in the file must not end a run for good.
	var refusal *Refusal
	if errors.As(err, &refusal); !refusal.Waiting {
		t.Error("the run does not wait until the filter is put back")
	}
	s.write(strings.Replace(allowing, "epsilon: 2", "epsilon: 3", 1))
	testkit.Must(t, g.Ask(round("r", 1, 10)))
	status, err := g.Status()
	testkit.Must(t, err)
	if status.Limit.Epsilon != 3 || len(status.Runs) != 1 {
		t.Errorf("status %+v", status)
	}
	if lines := s.lines(); len(lines) != 5 || !strings.Contains(lines[3], `"type":"limit"`) ||
		!strings.Contains(lines[4], `"type":"limit"`) {
		t.Errorf("the ledger does not show the limits: %q", lines)
	}
}

func TestEpsilonLeftIsWhatFits(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	g := s.enforcer()
	r := round("r", 0, 10)
	r.Charges = []privacy.Event{{Kind: privacy.Gaussian, Sigma: 3, Sensitivity: 1, Count: 1}}
	_, err := g.Charge(r)
	testkit.Must(t, err)
	status, err := g.Status()
	testkit.Must(t, err)
	limit := *status.Limit
	run := privacy.Budget{Epsilon: status.EpsilonLeft, Delta: limit.Delta}
	testkit.Must(t, limit.Room(r.Charges, run))
	if run.Epsilon += 2e-3; limit.Room(r.Charges, run) == nil || status.EpsilonLeft < 0.5 {
		t.Errorf("%v is left of %v after %v; more fits", status.EpsilonLeft, limit, r.Charges)
	}
}

func TestALedgerBelongsToOneNode(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	_, err := s.enforcer().Charge(round("r", 0, 10))
	testkit.Must(t, err)
	refusal := refusedBy(t, s.enforcer(func(o *Options) { o.Node = "1" }).Ask(round("r", 0, 10)), RuleLedger)
	if !strings.Contains(refusal.Error(), "north/0") {
		t.Error(refusal)
	}
}
