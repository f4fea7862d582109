package sitepolicy

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// keyOf is the fingerprint of a site's key.
func keyOf(site string) masking.Fingerprint { return sha256.Sum256([]byte("key of " + site)) }

// maskedRound is an attempt at one of three sums of a masked run among sites in name order.
func maskedRound(run string, number uint64, attempt int, sites ...string) Request {
	r := round(run, number, 0)
	g := &masking.Group{Quorum: len(sites), Colluding: 1}
	for _, site := range sites {
		g.Members = append(g.Members, masking.Member{Site: site, Key: keyOf(site)})
	}
	event := privacy.Event{Kind: privacy.Gaussian, Sigma: 20, Sensitivity: 1}
	r.Spec.Pipeline, r.Spec.Masked = "embed", g
	r.Spec.Plan = privacy.Plan{{Kind: string(EmbeddingSum), Mechanism: event, Count: 3}}
	r.Kind, r.Use.Planned, r.Charges = EmbeddingSum, 0, []privacy.Event{event.Times(1)}
	r.Question = digest(fmt.Sprint(run, number, attempt))
	return r
}

var peers = fmt.Sprintf("peers: [{site: east, key: %s}, {site: south, key: %s}]", keyOf("east").Hex(),
	strings.ToUpper(keyOf("south").Hex()))

// withRules is a policy with automatic approval and further rules.
func withRules(rules string) string {
	return strings.Replace(allowing, "approval: automatic}", "approval: automatic, "+rules+"}", 1)
}

func TestRulesOfMaskedRuns(t *testing.T) {
	all := []string{"east", "north", "south"}
	byHand := func(policy string) string { return strings.Replace(policy, "automatic", "by-hand", 1) }
	for name, c := range map[string]struct {
		policy string
		change func(*Request)
		rule   Rule // empty if the round is answered
		says   string
	}{
		"peers cover all, but the site itself": {policy: withRules("masked: true, least_sites: 3, " +
			"least_colluding: 1, " + peers)},
		"without masks": {withRules("masked: true, " + peers), func(r *Request) { r.Spec.Masked = nil }, RuleMasked,
			"runs without masks are not allowed on dataset d"},
		"without masks, which is allowed": {policy: withRules(peers), change: func(r *Request) { r.Spec.Masked = nil }},
		"few sites": {withRules("masked: true, least_sites: 4, " + peers), nil, RuleLeastSites,
			"sums need only 3 sites; the minimum is 4"},
		"few that collude": {withRules("masked: true, least_colluding: 2, " + peers), nil, RuleLeastColluding,
			"states colluding: 1; the minimum is 2"},
		"nobody checks the members": {allowing, nil, RulePeers, "nobody checks the members"},
		"a person looks at them":    {byHand(allowing), nil, RuleApproval, "waits for approval"},
		"a stranger, for whom a person is not asked": {byHand(withRules(peers)), func(r *Request) {
			r.Spec.Masked.Members[2].Site = "southern"
		}, RulePeers, "not peers on dataset d: southern"},
		"a peer with another key": {withRules(peers), func(r *Request) {
			r.Spec.Masked.Members[0].Key = keyOf("somebody else")
		}, RulePeers, "east with another key"},
		"a group that hides nothing": {withRules(peers), func(r *Request) { r.Spec.Masked.Quorum = 1 }, RuleTerms,
			"no valid description"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.write(c.policy)
			r := maskedRound("r", 0, 0, all...)
			if c.change != nil {
				c.change(&r)
			}
			err := s.enforcer().Ask(r)
			if c.rule == "" {
				testkit.Must(t, err)
				return
			}
			if refusal := refusedBy(t, err, c.rule); !strings.Contains(refusal.Leaving(), c.says) {
				t.Errorf("it says %q, want %q", refusal.Leaving(), c.says)
			}
		})
	}
	s := newSite(t)
	s.write(withRules(peers))
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("site-%d", i))
	}
	if r := refusedBy(t, s.enforcer().Ask(maskedRound("r", 0, 0, many...)), RulePeers); !strings.Contains(r.Leaving(),
		"site-0, site-1, site-2, site-3, site-4, 4 more") {
		t.Errorf("of nine strangers it says %q", r.Leaving())
	}
}

func TestRulesOfMaskedRunsThatCannotWork(t *testing.T) {
	for rules, want := range map[string]string{
		"least_sites: 2":                           "datasets[0].least_sites: has no effect on runs without masks",
		"least_colluding: 1":                       "datasets[0].least_colluding: has no effect on runs without masks",
		"masked: true, least_sites: -1":            "datasets[0].least_sites: -1 is not valid",
		"masked: true, least_colluding: 200":       "datasets[0].least_colluding: 200 is not valid",
		"peers: [{site: east}]":                    `datasets[0].peers[0].key: "" is not a SHA-256 in hex`,
		"peers: [{site: EAST, key: x}]":            "datasets[0].peers[0].site: ",
		strings.Replace(peers, "south", "east", 1): `datasets[0].peers[1].site: "east" is listed twice`,
		strings.Replace(peers, strings.ToUpper(keyOf("south").Hex()), keyOf("east").Hex(), 1): "datasets[0].peers[1]." +
			"key: is also the key of another peer",
	} {
		if _, err := Parse([]byte(withRules(rules))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", rules, err, want)
		}
	}
}

// A site opens a round of a masked run at most four times. Its limit pays each time, the run's plan and budget once.
// Requests without a charge do not count.
func TestEachOpeningIsChargedAndFourAreTheMost(t *testing.T) {
	s := newSite(t)
	s.write(withRules(peers))
	ask := func(number uint64, attempt int) (*Entry, error) { // as after a restart: only the ledger remembers
		return s.enforcer().Charge(maskedRound("r", number, attempt, "east", "north", "south"))
	}
	spent := 0.0
	for number := range uint64(3) {
		for attempt := range 1 + masking.Retries {
			for unopened := range 10 {
				r := maskedRound("r", number, 100+unopened, "east", "north", "south")
				testkit.Must(t, s.enforcer().Ask(r))
			}
			e, err := ask(number, attempt)
			testkit.Must(t, err)
			if e == nil || e.EpsilonSpent <= spent {
				t.Fatalf("attempt %d at round %d: entry %+v, and %v were spent before", attempt, number, e, spent)
			}
			spent = e.EpsilonSpent
		}
		_, err := ask(number, 1+masking.Retries)
		if r := refusedBy(t, err, RuleReveals); !strings.Contains(r.Leaving(), "were revealed 4 times here, the "+
			"maximum") {
			t.Errorf("it says %q", r.Leaving())
		}
	}
	_, err := ask(3, 0)
	refusedBy(t, err, RulePlan) // all three planned sums were asked
	_, err = ask(1, 9)
	refusedBy(t, err, RuleReveals) // a round before the newest
	other := maskedRound("r", 2, 9, "east", "north", "south")
	other.Use.Queries = 2
	refusedBy(t, s.enforcer().Ask(other), RuleReveals)

	status, err := s.enforcer().Status()
	testkit.Must(t, err)
	run := status.Runs[0]
	if run.Charges != 12 || run.RevealsAtMost != 4 || run.EpsilonMost == nil ||
		*run.EpsilonMost != status.EpsilonCounted {
		t.Errorf("the run is shown as %+v, and %v were counted", run, status.EpsilonCounted)
	}
	if run.Spec.Masked == nil || run.Spec.Masked.Members[2].Key != keyOf("south") || run.Spec.Masked.Colluding != 1 {
		t.Errorf("its members are shown as %+v", run.Spec.Masked)
	}
	// What a rolled-back dataset ledger does not know may be asked again.
	testkit.Must(t, s.enforcer().AcceptLedger(LedgerHead{Seq: 4, Hash: digest("restored")}, Decision{By: "ann"}))
	_, err = ask(0, 20)
	testkit.Must(t, err)
}

// Without masks, another question in a round is another use of the plan.
func TestOtherRunsHaveNoAttempts(t *testing.T) {
	s := newSite(t)
	s.write(allowing)
	for attempt := range 4 {
		r := maskedRound("r", 0, attempt, "east", "north")
		r.Spec.Masked = nil
		if _, err := s.enforcer().Charge(r); (err == nil) != (attempt < 3) {
			t.Errorf("question %d: %v", attempt, err)
		}
	}
	status, err := s.enforcer().Status()
	testkit.Must(t, err)
	if run := status.Runs[0]; run.RevealsAtMost != 1 || *run.EpsilonMost != status.EpsilonCounted {
		t.Errorf("the run is shown as %+v", run)
	}
}

func TestTheWorstCaseOfMaskedRoundsIsForeseen(t *testing.T) {
	s := newSite(t)
	s.write(withRules(peers))
	r := maskedRound("r", 0, 0, "east", "north", "south")
	r.Spec.Plan[0].Count = 10_000
	f, err := s.enforcer().Forecast(r, 10_000, nil)
	testkit.Must(t, err)
	if f.Fits < 8 || f.FitsAtLeast < f.Fits/4-1 || f.FitsAtLeast > f.Fits/4 {
		t.Fatalf("forecast %+v; rounds that are opened four times use the limit up four times as fast", f)
	}
	g := s.enforcer()
	for number := range f.FitsAtLeast + 1 {
		for attempt := range 4 {
			r := maskedRound("r", uint64(number), attempt, "east", "north", "south")
			r.Spec.Plan[0].Count = 10_000
			_, err := g.Charge(r)
			switch {
			case number < f.FitsAtLeast:
				testkit.Must(t, err)
			case err != nil:
				refusedBy(t, err, RuleEpsilon)
				return
			}
		}
	}
	t.Error("one more round was opened four times")
}
