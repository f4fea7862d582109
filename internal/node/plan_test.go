package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/statelock"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A run that a node could not finish is refused when its permit is asked, before people are asked and anything is
// charged. Entries that are over do not count, and the reason is the same whatever the records are.
func TestAPlanThatANodeCannotFinish(t *testing.T) {
	const byHand = "datasets: [{name: d, epsilon: 9, delta: 1e-5, pipelines: [pategan], " +
		"stages: [fit, selections, quality], approval: by-hand}]"
	streams := onFile(t, partition.UnitRecord, tabular.CSV)
	streams.Stream = true
	streams = policed(t, streams, byHand)
	n := node(t, streams)
	testkit.Must(t, n.manifest.store())
	inMemory := start(t, policed(t, smallConfig(t, 4), byHand), questiontest.SmallTable(t, 80, 1))
	stage := func(kind, stage string) func(*conclavev1.RunSpec) {
		return func(s *conclavev1.RunSpec) {
			s.Plan = append(s.Plan, &conclavev1.Planned{Kind: kind, Stage: stage, Count: 1,
				Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 5, Sensitivity: 1}})
		}
	}
	const streamed = " would be refused later (leave it out): this node streams its records"
	for name, c := range map[string]struct {
		change  func(*conclavev1.RunSpec)
		planned uint32
		want    string // of the node that streams; empty if it waits, as the other does
		unknown bool   // to both
	}{
		"nothing after it": {nil, 0, "", false},
		"a fit":            {fitted, 0, "the stage fit" + streamed, false},
		"selections": {stage("scores", "selections"), 0,
			"the stage selections" + streamed, false},
		"a figure": {stage("marginals", "quality"), 0, "", false},
		"a fit that is over": {func(s *conclavev1.RunSpec) {
			votes := s.Plan[0]
			s.Plan = nil
			fitted(s)
			s.Plan = append(s.Plan, votes)
		}, 1, "", false},
		"a stage of tomorrow": {stage("dreams", "sleep"), 0,
			"the stage sleep would be refused later (leave it out): the question has a kind that is " +
				"unknown to this node",
			true},
		"a training of tomorrow": {stage("dreams", ""), 0,
			"the run's questions of kind dreams would be refused: the question", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := proto.Clone(voteRound("r", 1)).(*conclavev1.Round)
			r.Planned = c.planned
			terms := termsFor(t, n, r, 50, c.change)
			said := inquire(t, n, permitFor(t, r), terms)
			other := inquire(t, inMemory, permitFor(t, r), terms)
			if reason := said.GetRefusal().GetReason(); c.want == "" && !said.GetRefusal().GetWaiting() ||
				c.want != "" && (!strings.HasPrefix(reason, c.want) || said.GetRefusal().GetWaiting()) {
				t.Errorf("the node that streams says %v", said)
			}
			if other.GetRefusal().GetWaiting() == c.unknown {
				t.Errorf("the node with its rows in memory says %v", other)
			}
			answer := askUnder(t, n, r, terms)
			if diff := cmp.Diff(answer.GetRefusal(), said.GetRefusal(), protocmp.Transform()); diff != "" {
				t.Errorf("the round is answered %v\n%s", answer, diff)
			}
			if status, err := n.policy.enforcer.Status(); err != nil || status.EpsilonSpent != 0 {
				t.Errorf("%+v was charged, %v", status, err)
			}
		})
	}
}

// A node whose disk has no room to divide its records refuses the run when its permit is asked. Outside it says what
// it says of records that cannot be read, whatever the reason.
func TestNoRoomToDivideRecords(t *testing.T) {
	c := onFile(t, partition.UnitRecord, tabular.CSV)
	c.Stream = true
	n := node(t, c)
	testkit.Must(t, n.manifest.store())
	trains, sums := voteRound("r", 1), countRound("r", 0, 2, 1)
	terms := termsFor(t, n, trains, 50, nil)
	if m := inquire(t, n, permitFor(t, trains), terms); m.GetPermitted() == nil {
		t.Errorf("with room the node says %v", m)
	}
	rows := n.site.Divisible.Rows
	n.site.Divisible.Rows = 1 << 55
	if m := inquire(t, n, permitFor(t, trains), terms); m.GetRefusal().GetReason() != question.ErrRows.Error() ||
		m.GetRefusal().GetWaiting() {
		t.Errorf("without room the node says %v", m)
	}
	if err := n.site.Room(); err == nil || !strings.Contains(err.Error(), c.State) ||
		!strings.Contains(err.Error(), "MiB are free; make room, or move the state folder") {
		t.Errorf("at the site: %v", err)
	}
	if m := ask(t, n, trains); m.GetRefusal().GetReason() != question.ErrRows.Error() {
		t.Errorf("the round is answered %v", m)
	}
	counts := termsFor(t, n, sums, 50, func(s *conclavev1.RunSpec) { s.Plan[0].Kind = "class-counts" })
	if m := inquire(t, n, permitFor(t, sums), counts); m.GetPermitted() == nil {
		t.Errorf("of a run that divides nothing the node says %v", m)
	}
	n.site.Divisible.Rows = rows
	votesOf(t, n, trains)
	n.site.Divisible.Rows = 1 << 55 // they are divided now
	if m := inquire(t, n, permitFor(t, trains), terms); m.GetPermitted() == nil {
		t.Errorf("with divided records the node says %v", m)
	}
}

// A second node on a state folder ends before it reads a record, and so does a command that changes the folder.
func TestAStateFolderHasOneNode(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	table := questiontest.SmallTable(t, 40, 1)
	stop, _ := run(t, start(t, c, table))
	f.next()
	second := start(t, c, table)
	if err := second.Run(t.Context()); !errors.Is(err, statelock.ErrTaken) {
		t.Errorf("a second node: %v", err)
	}
	c.Data = "none.csv"
	if _, err := New(c, kinds.All(), zap.NewNop()); !errors.Is(err, statelock.ErrTaken) {
		t.Errorf("a second start: %v", err)
	}
	if _, err := AcceptLedger(c, nil, sitepolicy.LedgerHead{}, sitepolicy.Decision{}); !errors.Is(err,
		statelock.ErrTaken) {
		t.Errorf("another ledger: %v", err)
	}
	testkit.Must(t, stop())
	if _, err := New(c, kinds.All(), zap.NewNop()); err == nil || errors.Is(err, statelock.ErrTaken) {
		t.Errorf("after its end: %v", err)
	}
}
