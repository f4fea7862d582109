package aggregator

import (
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func refusal(key roundKey, waiting bool, reason string) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{
		Run: key.run, Round: key.number, Waiting: waiting, Reason: reason,
	}}}
}

func TestNodesThatWaitForTheirSites(t *testing.T) {
	now := time.Now()
	step := func(t *testing.T, e *execution, wantFinished bool, live ...*peer.Node) *conclavev1.Progress {
		t.Helper()
		finished, err := e.step(live, now)
		testkit.Must(t, err)
		if finished != wantFinished {
			t.Fatalf("finished is %v", finished)
		}
		p, _ := e.watch()
		return p
	}
	waits := func(t *testing.T, e *execution, n *peer.Node) {
		t.Helper()
		if err := e.take(n, refusal(e.key, true, "waits for approval")); err == nil || fault.KindOf(err, "") != "waiting" {
			t.Fatalf("error %v", err)
		}
	}

	t.Run("with a quorum of others a round ends without them, at once", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 4), liveNode("south", 4)
		step(t, e, false, north, south)
		waits(t, e, north)
		testkit.Must(t, e.take(south, answerOf(e, south)))
		step(t, e, true, north, south)
		if e.takenPart() != 4 {
			t.Errorf("%d teachers took part", e.takenPart())
		}
	})
	t.Run("without one it waits, says for whom, and asks again", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 4), liveNode("south", 3)
		step(t, e, false, north, south)
		waits(t, e, north)
		testkit.Must(t, e.take(south, answerOf(e, south)))
		p := step(t, e, false, north, south)
		if !p.GetWaitingForQuorum() || !slices.Equal(p.GetWaitingFor(), []string{"north/a waits for approval"}) || north.Queued() != 1 {
			t.Errorf("progress %v, %d messages", p, north.Queued())
		}
		if e.take(north, answerOf(e, north)) == nil {
			t.Error("an answer counts that was not asked for again")
		}
		if north.Ready("another") || !north.Ready(e.key.run) || north.Ready(e.key.run) {
			t.Error("ready for what did not wait")
		}
		if p := step(t, e, false, north, south); p.GetWaitingForQuorum() || len(p.GetWaitingFor()) != 0 || north.Queued() != 2 {
			t.Errorf("progress %v, %d messages", p, north.Queued())
		}
		testkit.Must(t, e.take(north, answerOf(e, north)))
		step(t, e, true, north, south)
	})
	t.Run("later rounds of the run are not sent to them", func(t *testing.T) {
		e, north := testExecution(t), liveNode("north", 4)
		step(t, e, false, north)
		waits(t, e, north)
		next := testExecution(t)
		next.key.number = 1
		if p := step(t, next, false, north); north.Queued() != 1 || len(p.GetWaitingFor()) != 1 {
			t.Errorf("progress %v, %d messages", p, north.Queued())
		}
	})
	t.Run("a refusal of another is no end while they could still answer", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 4), liveNode("south", 4)
		step(t, e, false, north, south)
		waits(t, e, north)
		if e.take(south, refusal(e.key, false, "no")) == nil {
			t.Fatal("counted")
		}
		step(t, e, false, north, south)
		small, other := testExecution(t), liveNode("east", 3)
		step(t, small, false, other, south)
		waits(t, small, other)
		if small.take(south, refusal(small.key, false, "no")) == nil {
			t.Fatal("counted")
		}
		_, err := small.step([]*peer.Node{other, south}, now)
		wantStatus(t, fault.Status(err), codes.FailedPrecondition, "south/a refused: no")
	})
	t.Run("surplus teachers are surplus, waiting or not", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 8), liveNode("south", 1)
		step(t, e, false, north)
		waits(t, e, north)
		_, err := e.step([]*peer.Node{north, south}, now)
		wantStatus(t, fault.Status(err), codes.FailedPrecondition, "more are connected")
	})
	t.Run("a node that does nothing else is asked so often, and no more", func(t *testing.T) {
		e, north := testExecution(t), liveNode("north", 8)
		for i := range maxAgain {
			step(t, e, false, north)
			waits(t, e, north)
			if !north.Ready(e.key.run) {
				t.Fatalf("%d: did not wait", i)
			}
		}
		step(t, e, false, north)
		if err := e.take(north, refusal(e.key, true, "again")); err == nil || fault.KindOf(err, "") != "refusal" {
			t.Fatalf("error %v", err)
		}
		if _, err := e.step([]*peer.Node{north}, now); err == nil || north.Queued() != maxAgain+1 {
			t.Errorf("error %v, %d messages", err, north.Queued())
		}
	})
}

// Over the wire: one site waits, the student hears of it, and the round goes on by itself.
// Nodes of the protocol before get the same messages.
func TestARoundGoesOnWhenASiteIsReady(t *testing.T) {
	c := newCluster(t, Options{})
	student, d := c.student(t), c.dataset()
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum = 1 })
	key := roundKey{spec.Name, 0}
	asked := make(chan struct{}, 1)
	modern := hello(d, "north", "a", 4)
	modern.Protocol = 3
	first := true
	north := c.node(t, modern, func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if first {
			first = false
			asked <- struct{}{}
			return []*conclavev1.WorkRequest{refusal(key, true, "waits for approval at site north\x00")}
		}
		return votes(4, alternating)(r)
	})
	south := c.node(t, hello(d, "south", "a", 4), votes(4, alternating))
	said := make(chan *conclavev1.Progress, 1000)
	released := make(chan *conclavev1.Release, 1)
	go func() {
		r, err := student.ask(testkit.Within(t), voteRound(spec.Name, 0, 3), func(p *conclavev1.Progress) { said <- p })
		if err != nil {
			t.Error(err)
		}
		released <- r
	}()
	testkit.Receive(t, asked)
	for p := range said {
		if p.GetWaitingForQuorum() && slices.Equal(p.GetWaitingFor(), []string{"north/a waits for approval at site north"}) && p.GetTeachersAnswered() == 4 {
			break
		}
	}
	mustSend(t, north.stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{Ready: &conclavev1.Ready{Run: "another"}}})
	mustSend(t, north.stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{Ready: &conclavev1.Ready{Run: spec.Name}}})
	r := testkit.Receive(t, released)
	if r.GetTeachers() != 8 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	stored, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	testkit.Must(t, err)
	for _, terms := range []*conclavev1.RoundTerms{testkit.Receive(t, north.terms), testkit.Receive(t, north.terms),
		testkit.Receive(t, south.terms)} {
		if string(terms.GetSpec()) != string(stored) || string(terms.GetQuestion()) != string(r.GetQuestionSha256()) {
			t.Errorf("terms %v", terms)
		}
	}
}

// What nodes are told that an answer may cost is what the ledger then charges: they read the
// plan from the terms, and what pays from the round.
func TestTermsSayWhatIsCharged(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	plan := privacy.Plan{
		planned(runspec.Votes, gnMax(30), 7), planned(runspec.Votes, confidentMax(4, 30, 25), 0), planned(runspec.Scores, exponential(0.25), 3),
	}
	spec, _ := student.open(t, d, asks(plan...))
	n := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if r.GetVote() == nil {
			return sums(units(0, 0))(r)
		}
		return votes(8, alternating)(r)
	})
	rounds := []*conclavev1.Round{voteRound(spec.Name, 0, 5), voteRound(spec.Name, 1, 6), paid(spec, "", scoreRound(spec.Name, 2, units(0, 0), nil))}
	rounds[1].Planned = 1
	for i, round := range rounds {
		student.mustAsk(t, round)
		asked, terms := <-n.rounds, <-n.terms
		told := new(conclavev1.RunSpec)
		testkit.Must(t, proto.Unmarshal(terms.GetSpec(), told))
		read, err := runspec.Plan(told)
		testkit.Must(t, err)
		if diff := cmp.Diff(plan, read); diff != "" || asked.GetPlanned() != uint32(i) {
			t.Errorf("round %d names entry %d of the plan; nodes read %s", i, asked.GetPlanned(), diff)
		}
		entry := student.ledger(t, spec.Name)[i]
		if diff := cmp.Diff(read[asked.GetPlanned()].Cost(entry.Queries, entry.Answered), entry.Events); diff != "" || *entry.Planned != i {
			t.Errorf("round %d: charged by entry %d %s", i, *entry.Planned, diff)
		}
	}
	terms, err := termsOf(mustSpec(t, asks(plan...)), &payload{key: roundKey{"r", 0}}, coordinator.Mark{Seq: 7, Hash: testSchema})
	testkit.Must(t, err)
	if m := terms.GetLedger(); m.GetSeq() != 7 || hex.EncodeToString(m.GetHash()) != testSchema {
		t.Errorf("ledger %v", m)
	}
}

// All nodes hear that a run has ended, those that let it wait and the others, once.
func TestNodesHearThatARunIsOver(t *testing.T) {
	c := newCluster(t, Options{})
	student, d := c.student(t), c.dataset()
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum = 0.5 })
	later, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Name, s.Quorum = "later-"+d, 0.5 })
	north := c.node(t, hello(d, "north", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{refusal(roundKey{r.GetRun(), r.GetNumber()}, true, "waits for approval at site north")}
	})
	south := c.node(t, hello(d, "south", "a", 4), votes(4, alternating))
	student.mustAsk(t, voteRound(spec.Name, 0, 3))
	student.mustAsk(t, voteRound(later.Name, 0, 3))
	_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	for _, n := range []*testNode{north, south} {
		if w := testkit.Receive(t, n.withdrawn); !w.GetOver() || w.GetRun() != spec.Name {
			t.Errorf("a node heard %v", w)
		}
	}
	// It would be asked again, were there another round; the other run still waits.
	student.mustAsk(t, voteRound(later.Name, 1, 3))
	if n := len(north.rounds); n != 2 {
		t.Errorf("north was asked %d rounds; want the first of each run", n)
	}
	if len(north.withdrawn) != 0 || len(south.withdrawn) != 0 {
		t.Errorf("%d and %d withdrawals", len(north.withdrawn), len(south.withdrawn))
	}
}
