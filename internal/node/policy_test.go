package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// policed is a node's configuration with a policy.
func policed(t testing.TB, c Config, policy string) Config {
	c.Policy = filepath.Join(t.TempDir(), "policy.yaml")
	writePolicy(t, c, policy)
	return c
}

func writePolicy(t testing.TB, c Config, policy string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(c.Policy, []byte(policy), 0o600))
}

const lenient = "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [pategan], approval: automatic}]"

// fitted adds a fit to a run's plan.
func fitted(s *conclavev1.RunSpec) {
	s.Plan = append(s.Plan, &conclavev1.Planned{Kind: "fit", Stage: "fit",
		Mechanism: &conclavev1.PrivacyEvent{Kind: "laplace", Epsilon: 0.9}, Count: 1})
}

// termsFor are the terms of a round of votes whose answers cost one GNMax query of sigma each.
func termsFor(
	t testing.TB, n *Node, r *conclavev1.Round, sigma float64, change func(*conclavev1.RunSpec),
) *conclavev1.RoundTerms {
	t.Helper()
	spec := &conclavev1.RunSpec{
		Name: r.Run, Dataset: "d", Pipeline: "pategan", SchemaSha256: n.site.Schema.SHA256,
		Epsilon: 3, Delta: 1e-5, Unit: "record",
		Guarantee: "data-independent", Teachers: 100, Plan: []*conclavev1.Planned{{Kind: "votes",
			Mechanism: &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: sigma}}},
	}
	if change != nil {
		change(spec)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	testkit.Must(t, err)
	return &conclavev1.RoundTerms{Spec: raw}
}

// A node remembers a bounded number of waiting runs, whatever names it is asked about.
func TestRunsThatWaitForTheSiteAreBounded(t *testing.T) {
	n := start(t, policed(t, smallConfig(t, 4), "no policy"), questiontest.SmallTable(t, 80, 1))
	r := voteRound("r", 0)
	request := n.policy.request(task{run: "r", permit: permitFor(t, r), spec: announcedBy(termsFor(t, n, r, 50, nil))})
	broken := n.policy.permit(request)
	wait := func(run string) bool {
		return n.policy.refusal(sitepolicy.Request{Run: run}, broken).Waiting
	}
	for i := range maxWaitingRuns {
		if !wait(fmt.Sprint("r", i)) {
			t.Fatalf("run %d does not wait: %v", i, broken)
		}
	}
	if !wait("r0") || wait("another") || len(n.policy.waiting) != maxWaitingRuns {
		t.Errorf("%d runs wait", len(n.policy.waiting))
	}
	n.policy.forget("r0")
	if !wait("another") {
		t.Error("the end of a run makes no room")
	}
}

func TestAPolicyStandsBeforeEveryAnswer(t *testing.T) {
	c := policed(t, smallConfig(t, 4), lenient)
	table := questiontest.SmallTable(t, 80, 1)
	n := start(t, c, table)
	r := voteRound("r", 1)
	terms := termsFor(t, n, r, 50, nil)
	refused := func(m *conclavev1.WorkRequest, want string) {
		t.Helper()
		reason := m.GetRefusal().GetReason()
		if !strings.Contains(reason, want) || strings.Contains(reason, c.Policy) ||
			strings.Contains(reason, c.State) || strings.Contains(reason, "80") {
			t.Fatalf("the reply is %v; want a refusal about %q without the site's own numbers and files", m, want)
		}
	}
	refused(askUnder(t, n, r, nil), "policy of site north, terms: ")
	refused(askUnder(t, n, r, &conclavev1.RoundTerms{Spec: []byte{0xff}}), "policy of site north, terms: ")
	refused(askUnder(t, n, r, termsFor(t, n, r, 50, func(s *conclavev1.RunSpec) { s.Name = "q" })),
		"policy of site north, terms: ")
	refused(askUnder(t, n, r, termsFor(t, n, r, 50, func(s *conclavev1.RunSpec) { s.Pipeline = "embed" })),
		`"embed" is not allowed`)
	refused(askUnder(t, n, r, termsFor(t, n, r, 50, fitted)), `"fit" is not allowed`)
	// A round of a different kind from its plan entry, and one without an entry.
	counts := countRound("r", 0, 2, 1)
	refused(askUnder(t, n, counts, termsFor(t, n, r, 50, nil)), "policy of site north, terms: ")
	counts.Planned = 1
	refused(askUnder(t, n, counts, termsFor(t, n, r, 50, nil)), "policy of site north, terms: ")
	refused(askUnder(t, n, r, termsFor(t, n, r, 1e-3, nil)), "the site's own limit on dataset d would be exceeded")
	if exists(c, "run-r.safetensors") {
		t.Error("teachers learned from a round that was refused")
	}

	first := askUnder(t, n, r, terms)
	if first.GetVotes() == nil {
		t.Fatalf("not answered: %v", first)
	}
	status, err := n.policy.enforcer.Status()
	testkit.Must(t, err)
	spent := status.EpsilonSpent
	// After a restart the same answer is free, and the ledger is unchanged.
	n = start(t, c, table)
	if again := askUnder(t, n, r, terms); !proto.Equal(again.GetVotes(), first.GetVotes()) {
		t.Errorf("another answer: %v", again)
	}
	if status, err = n.policy.enforcer.Status(); err != nil || status.EpsilonSpent != spent || len(status.Runs) != 4 {
		t.Errorf("status %+v, %v; %v was spent before, by one of four runs", status, err, spent)
	}
	// A malformed question is not charged.
	wrong := questiontest.Change(voteRound("r", 2), func(q *conclavev1.VoteQuestion) { q.Teacher.Classes = 7 })
	if m := askUnder(t, n, wrong, termsFor(t, n, wrong, 50, nil)); m.GetRefusal() == nil || m.GetRefusal().Waiting {
		t.Errorf("reply %v", m)
	}
	if status, err = n.policy.enforcer.Status(); err != nil || status.EpsilonSpent != spent {
		t.Errorf("%v was spent, now %v (%v)", spent, status.EpsilonSpent, err)
	}
	// Rounds are answered up to the limit, and not one more.
	number := uint64(2)
	for ; number < 1000; number++ {
		if m := askUnder(t, n, voteRound("r", number),
			termsFor(t, n, voteRound("r", number), 50, nil)); m.GetVotes() == nil {
			refused(m, "epsilon: the site's own limit")
			break
		}
	}
	if status, err = n.policy.enforcer.Status(); err != nil || number < 3 || status.EpsilonSpent > 1 ||
		status.EpsilonLeft > 0.5 {
		t.Errorf("after round %d: %+v (%v)", number, status, err)
	}
}

// With too few records the node does not join, and no refusal that leaves reveals the reason.
func TestTooFewRecordsStayUncounted(t *testing.T) {
	for rule, policy := range map[string]string{
		"min_rows":             "min_rows: 81, approval",
		"min_rows_per_teacher": "min_rows_per_teacher: 60, approval",
		"least_records_by":     "least_records_by: [{column: b, least: 2}, {column: c, least: 40}], approval",
	} {
		policy = strings.Replace(lenient, "approval", policy, 1)
		n := start(t, policed(t, smallConfig(t, 4), policy), questiontest.SmallTable(t, 80, 1))
		if f := facts(n.site); f.Units != 80 || f.LeastUnits >= 60 || f.LeastUnits < 1 {
			t.Fatalf("facts %+v", f)
		}
		if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "("+rule+")") ||
			!strings.Contains(err.Error(), "cannot join") {
			t.Errorf("%s: the node ended with %v", rule, err)
		}
		r := voteRound("r", 1)
		m := askUnder(t, n, r, termsFor(t, n, r, 50, nil)).GetRefusal()
		if m.GetReason() != "policy of site north: the site does not answer; ask its people" {
			t.Errorf("%q leaves", m.GetReason())
		}
	}
}

// A streaming node learns how many units each teacher has when it divides its records. It then asks the policy again
// before the answer leaves, and nothing is charged.
func TestTooFewRecordsOfATeacherOnTheDisk(t *testing.T) {
	c := onFile(t, partition.UnitRecord, tabular.CSV)
	c.Stream, c.Teachers = true, 4
	c = policed(t, c, strings.Replace(lenient, "approval", "min_rows_per_teacher: 30, approval", 1))
	n := node(t, c)
	if f := facts(n.site); f.LeastUnits < 30 {
		t.Fatalf("facts %+v", f)
	}
	testkit.Must(t, n.policy.enforcer.Enough())
	r := voteRound("r", 1)
	m := askUnder(t, n, r, termsFor(t, n, r, 50, nil)).GetRefusal()
	if m.GetReason() != "policy of site north: the site does not answer; ask its people" {
		t.Errorf("%q leaves", m.GetReason())
	}
	if status := testkit.Value(n.policy.enforcer.Status()); status.EpsilonSpent > 0 {
		t.Errorf("charged: %+v", status)
	}
}

// Every pass of a fit uses the terms of the fit, which is charged once.
func TestAFitIsChargedOnce(t *testing.T) {
	policy := strings.Replace(lenient, "approval", "stages: [fit], approval", 1)
	n := start(t, policed(t, smallConfig(t, 4), policy), questiontest.SmallTable(t, 80, 1))
	r := logisticRound("r", 1, 1)
	terms := termsFor(t, n, r, 50, fitted)
	for pass := range 3 {
		r := logisticRound("r", 1, float64(pass))
		r.Planned = 1
		terms.Spec = termsFor(t, n, r, 50, fitted).Spec
		if m := askUnder(t, n, r, terms); m.GetSum() == nil {
			t.Fatalf("pass %d: %v", pass, m)
		}
	}
	status, err := n.policy.enforcer.Status()
	testkit.Must(t, err)
	if len(status.Runs) != 1 || status.Runs[0].Charges != 1 || status.Runs[0].Spec.Stages()[0] != "fit" {
		t.Errorf("status %+v", status)
	}
}

// A waiting run continues by itself when somebody approves it, and the stream says so.
func TestARunThatWaitsIsSaidToBeReady(t *testing.T) {
	t.Parallel()
	f := newFakeAggregator(t)
	c := policed(t, f.watchedConfig(4), strings.Replace(lenient, "automatic", "by-hand", 1))
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	stop, log := run(t, n)
	j := f.next()
	r := voteRound("r", 1)
	terms := termsFor(t, n, r, 50, nil)
	ask := func(attempt uint64) {
		t.Helper()
		j.askUnder(r, terms, attempt)
	}
	ready := func(want string) {
		t.Helper()
		if m := j.reply(); m.GetReady().GetRun() != want {
			t.Fatalf("the node says %v, want that it is ready for %s", m, want)
		}
	}
	ask(1)
	m := j.reply()
	if !m.GetRefusal().GetWaiting() || m.GetRefusal().GetReason() != "waits for approval at site north" ||
		m.Attempt != 1 {
		t.Fatalf("reply %v", m)
	}
	if _, metrics := get(t, n, "/metrics"); !strings.Contains(metrics, "\nconclave_node_waiting_runs 1\n") ||
		!strings.Contains(metrics, "\nconclave_node_policy_epsilon_limit 1\n") ||
		!strings.Contains(metrics, "\nconclave_node_refused_total 0\n") {
		t.Error("the metrics do not say that a run waits")
	}
	people := sitepolicy.New(c.PolicyOptions(n.site.Schema.SHA256))
	_, err := people.Decide("r", "", sitepolicy.Decision{Approve: true, By: "ann"})
	testkit.Must(t, err)
	ready("r")
	ask(2)
	if m := j.reply(); m.GetVotes() == nil || m.Attempt != 2 {
		t.Fatalf("not answered after the approval: %v", m)
	}
	// A broken policy makes everything wait; after a fix everything continues without a decision.
	writePolicy(t, c, "datasets: [")
	awaitReady(t, n, 503)
	ask(3)
	if m := j.reply(); !m.GetRefusal().GetWaiting() ||
		!strings.Contains(m.GetRefusal().GetReason(), "policy of site north, policy: ") {
		t.Fatalf("reply %v", m)
	}
	// The log says what it waits for.
	for broken, want := range map[string]string{"datasets: 5": "sequence is expected",
		"nothing: here": "unknown field"} {
		writePolicy(t, c, broken)
		said := func() bool {
			return slices.ContainsFunc(log.FilterMessage("round waits for this site for a new reason").All(),
				func(l observer.LoggedEntry) bool {
					return strings.Contains(fmt.Sprint(l.ContextMap()["error"]), want)
				})
		}
		testkit.Eventually(t, "a log that says what is broken by "+broken, said)
	}
	writePolicy(t, c, lenient)
	ready("r")
	awaitReady(t, n, 200)
	// A run that ended waits for nobody.
	writePolicy(t, c, "datasets: [")
	ask(5)
	if m := j.reply(); !m.GetRefusal().GetWaiting() {
		t.Fatalf("reply %v", m)
	}
	j.withdraw(&conclavev1.Withdraw{Run: "r", Over: true})
	testkit.Eventually(t, "that a run which ended waits no longer", func() bool {
		_, metrics := get(t, n, "/metrics")
		return strings.Contains(metrics, "\nconclave_node_waiting_runs 0\n")
	})
	writePolicy(t, c, lenient)
	awaitReady(t, n, 200)
	// A denied run is refused for good.
	_, err = people.Decide("r", "", sitepolicy.Decision{By: "ann"})
	testkit.Must(t, err)
	ask(4)
	if m := j.reply(); m.GetRefusal().GetWaiting() || !strings.Contains(m.GetRefusal().GetReason(), "denied") {
		t.Fatalf("reply %v", m)
	}
	testkit.Must(t, stop())
	entries, _ := trailOf(t, c)
	for _, e := range entries {
		if e.Event == "answer" && (e.LedgerSeq == 0 || e.LedgerHash == "" || e.EpsilonSpent == 0) {
			t.Errorf("the audit log does not name the ledger's entry: %+v", e)
		}
	}
}
