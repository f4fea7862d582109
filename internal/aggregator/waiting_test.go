package aggregator

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func refusal(key payload.Key, waiting bool, reason string) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{
		Run: key.Run, Round: key.Number, Waiting: waiting, Reason: reason,
	}}}
}

// Over the wire: one site must decide, the student sees that, and the round continues by itself.
func TestARoundGoesOnWhenASiteIsReady(t *testing.T) {
	c := shared(t)
	student, d := c.student(t), c.dataset()
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum = 1 })
	key := payload.Key{Run: spec.Name, Number: 0}
	asked := make(chan struct{}, 1)
	first := true
	north := c.node(t, hello(d, "north", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if first {
			first = false
			asked <- struct{}{}
			return []*conclavev1.WorkRequest{refusal(key, true, "waits for approval at site north\x00")}
		}
		return roundtest.Votes(4, roundtest.Alternating)(r)
	})
	south := c.node(t, hello(d, "south", "a", 4), roundtest.Votes(4, roundtest.Alternating))
	said := make(chan *conclavev1.Progress, 1000)
	released := make(chan *conclavev1.Release, 1)
	go func() {
		r, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 3),
			func(p *conclavev1.Progress) { said <- p })
		if err != nil {
			t.Error(err)
		}
		released <- r
	}()
	testkit.Receive(t, asked)
	for {
		p := testkit.Receive(t, said)
		if p.GetWaitingForQuorum() && slices.Equal(p.GetWaitingFor(),
			[]string{"north/a waits for approval at site north"}) {
			break
		}
	}
	testkit.Eventually(t, "the other node's answer", func() bool {
		return c.server.rounds.Answered(t.Context(), spec.Name) == 4
	})
	mustSend(
		t,
		north.stream,
		&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{Ready: &conclavev1.Ready{Run: "another"}}},
	)
	mustSend(
		t,
		north.stream,
		&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{Ready: &conclavev1.Ready{Run: spec.Name}}},
	)
	r := testkit.Receive(t, released)
	if r.GetTeachers() != 8 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	stored, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	testkit.Must(t, err)
	for _, terms := range []*conclavev1.RoundTerms{testkit.Receive(t, north.terms), testkit.Receive(t, north.terms),
		testkit.Receive(t, south.terms)} {
		if string(terms.GetSpec()) != string(stored) {
			t.Errorf("terms %v", terms)
		}
	}
}

// The ledger charges the cost that nodes were shown: they read the plan from the terms, and the paying entry from the
// round.
func TestTermsSayWhatIsCharged(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	d := c.dataset()
	plan := privacy.Plan{
		roundtest.Planned(runspec.Votes, roundtest.GNMax(30), 7),
		roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(4, 30, 25), 0),
		roundtest.Planned(runspec.Scores, roundtest.Exponential(0.25), 3),
	}
	spec, _ := student.open(t, d, roundtest.Asks(plan...))
	n := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if r.GetVotes() == nil {
			return roundtest.Sums(roundtest.Units(0, 0))(r)
		}
		return roundtest.Votes(8, roundtest.Alternating)(r)
	})
	rounds := []*conclavev1.Round{roundtest.VoteRound(spec.Name, 0, 5), roundtest.VoteRound(spec.Name, 1, 6),
		roundtest.Paid(spec, "", roundtest.ScoreRound(spec.Name, 2, roundtest.Units(0, 0), nil))}
	rounds[1].Planned = 1
	for i, round := range rounds {
		student.mustAsk(t, round)
		asked, terms := testkit.Receive(t, n.rounds), testkit.Receive(t, n.terms)
		told := new(conclavev1.RunSpec)
		testkit.Must(t, proto.Unmarshal(terms.GetSpec(), told))
		read, err := runspec.Plan(told)
		testkit.Must(t, err)
		if diff := cmp.Diff(plan, read); diff != "" || asked.GetPlanned() != uint32(i) {
			t.Errorf("round %d names entry %d of the plan; nodes read %s", i, asked.GetPlanned(), diff)
		}
		entry := student.ledger(t, spec.Name)[i]
		if diff := cmp.Diff(read[asked.GetPlanned()].Cost(entry.Queries, entry.Answered), entry.Events); diff != "" ||
			*entry.Planned != i {
			t.Errorf("round %d: charged by entry %d %s", i, *entry.Planned, diff)
		}
	}
	m := round.HeadOf(coordinator.LedgerHead{Seq: 7, Hash: roundtest.Schema})
	if m.GetSeq() != 7 || hex.EncodeToString(m.GetHash()) != roundtest.Schema {
		t.Errorf("ledger %v", m)
	}
}

// All nodes, waiting or not, are told once that a run has ended.
func TestNodesHearThatARunIsOver(t *testing.T) {
	c := shared(t)
	student, d := c.student(t), c.dataset()
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum = 0.5 })
	later, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Name, s.Quorum = "later-"+d, 0.5 })
	north := c.node(t, hello(d, "north", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{refusal(payload.Key{Run: r.GetRun(), Number: r.GetNumber()}, true,
			"waits for approval at site north")}
	})
	south := c.node(t, hello(d, "south", "a", 4), roundtest.Votes(4, roundtest.Alternating))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 3))
	student.mustAsk(t, roundtest.VoteRound(later.Name, 0, 3))
	student.close(t, spec.Name)
	for _, n := range []*testNode{north, south} {
		if w := testkit.Receive(t, n.withdrawn); !w.GetOver() || w.GetRun() != spec.Name {
			t.Errorf("a node was told %v", w)
		}
	}
	// The node would be asked again in a next round; the other run still waits.
	student.mustAsk(t, roundtest.VoteRound(later.Name, 1, 3))
	if n := len(north.rounds); n != 2 {
		t.Errorf("north was asked %d rounds; want the first of each run", n)
	}
	if len(north.withdrawn) != 0 || len(south.withdrawn) != 0 {
		t.Errorf("%d and %d withdrawals", len(north.withdrawn), len(south.withdrawn))
	}
}

// Over the wire: a node is asked once per stream whether its site permits a run, and no round is sent before a quorum
// permits it.
func TestNodesAreAskedOnceWhetherTheyMay(t *testing.T) {
	c := shared(t)
	student, d := c.student(t), c.dataset()
	open := func(name string) string {
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Name, s.Quorum = name+d, 1 })
		return spec.Name
	}
	liked, unliked := open("liked-"), open("unliked-")
	answer := roundtest.Votes(4, roundtest.Alternating)
	north := c.node(t, hello(d, "north", "a", 4), answer)
	denies := func(p *conclavev1.Permit) *conclavev1.WorkRequest {
		if p.GetRun() == unliked {
			return refusal(payload.Key{Run: p.GetRun(), Number: p.GetRound()}, false, "denied by the site")
		}
		return roundtest.Permitted(p)
	}
	south := c.nodeOf(t, hello(d, "south", "a", 4), answer, denies)
	for number := range uint64(2) {
		student.mustAsk(t, roundtest.VoteRound(liked, number, 3))
	}
	student.refused(t, roundtest.VoteRound(unliked, 0, 3), codes.FailedPrecondition, "has 4 of the 8 teachers",
		"south/a refused: denied by the site")
	south.leave()
	c.awaitTeachers(t, d, 4)
	again := c.nodeOf(t, hello(d, "south", "a", 4), answer, denies)
	student.mustAsk(t, roundtest.VoteRound(liked, 2, 3))
	for n, want := range map[*testNode][3]int{north: {1, 1, 3}, south: {1, 1, 2}, again: {1, 0, 1}} {
		asked := map[string]int{}
		for range len(n.permits) {
			asked[(<-n.permits).GetRun()]++
		}
		if got := [3]int{asked[liked], asked[unliked], len(n.rounds)}; got != want {
			t.Errorf("a node was asked %v times about the runs, and was sent so many rounds; want %v", got, want)
		}
	}
	if spec := student.ledger(t, unliked); len(spec) != 0 {
		t.Errorf("what a site denied is in the ledger: %v", spec)
	}
}

// Sites see which student submitted or opened a run, and its purpose, but not the worker.
func TestSitesAreToldWhoAsks(t *testing.T) {
	c := shared(t)
	d := c.dataset()
	n := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	told := func(requester, purpose string) {
		t.Helper()
		spec, terms := new(conclavev1.RunSpec), testkit.Receive(t, n.terms)
		testkit.Must(t, proto.Unmarshal(terms.GetSpec(), spec))
		if terms.GetRequester() != requester || spec.GetPurpose() != purpose {
			t.Errorf("the terms name %q, for %q; want %q, for %q", terms.GetRequester(), spec.GetPurpose(), requester,
				purpose)
		}
	}
	student := c.studentAs(t, "ann")
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Purpose = "survival, study 12" })
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 3))
	told("ann", "survival, study 12")

	lab, works := c.queue(t, "lab"), c.queue(t, "wes")
	submission := roundtest.Submission(d, "queued-"+d)
	submission.Spec.Purpose = "for all"
	_, err := lab.SubmitRun(testkit.Within(t), submission)
	testkit.Must(t, err)
	if shown := lab.show(t, "queued-"+d); shown.GetPurpose() != "for all" {
		t.Errorf("shown %v", shown)
	}
	run := works.worker(t, &conclavev1.Worker{Dataset: d, Name: "w1"}).claimed()
	student = c.studentAs(t, "wes")
	_, err = student.OpenRun(holding(t, run), &conclavev1.OpenRunRequest{Spec: run.GetSpec()})
	testkit.Must(t, err)
	_, err = student.ask(holding(t, run), roundtest.VoteRound(run.GetName(), 0, 4), nil)
	testkit.Must(t, err)
	told("lab", "for all")
}
