package aggregator

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// askHolding sends a round in one part and asks for its sums to be kept.
func (s *testStudent) askHolding(ctx context.Context, round *conclavev1.Round) (*conclavev1.Release, error) {
	return s.askOnce(ctx, round, &conclavev1.AskRequest{Hold: true})
}

// One pass over the nodes serves as many selections as are paid for; each is charged once. The scores are so far
// apart that the best is not selected with a chance below exp(-60).
func TestSelections(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.SelectionsOf(6, 4))
	north := c.node(t, hello(d, "north", "a", 5), roundtest.Sums(roundtest.Units(30, 0, 10)))
	south := c.node(t, hello(d, "south", "a", 3), roundtest.Sums(roundtest.Units(30, 10, 20)))
	c.awaitTeachers(t, d, 8)
	selection := func(number uint64, expected []int64, change func(*conclavev1.Selection)) *conclavev1.Round {
		return roundtest.SelectionRound(spec.Name, number, expected, change)
	}
	first := roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 0, 0), nil)
	one := func(q *conclavev1.Selection) { q.Records = 1 }
	rounds := []*conclavev1.Round{
		first, // 60, 10, 30 remain
		selection(1, roundtest.Units(1, 0, 0), nil),  // -20, 10, 30
		selection(2, roundtest.Units(0, -1, 1), nil), // 60, 90, -50
		selection(3, roundtest.Units(0, -1, 1), one), // 60, 11, 29
	}
	for i, want := range []uint32{0, 2, 1, 0} {
		r := student.mustAsk(t, rounds[i])
		if r.GetSelected() == nil || r.GetSelected().GetIndex() != want || r.GetTeachers() != 8 {
			t.Fatalf("round %d selected %v with %d teachers, want %d", i, r.GetSelected(), r.GetTeachers(), want)
		}
		again, err := student.askHolding(testkit.Within(t), rounds[i])
		testkit.Must(t, err)
		if !proto.Equal(again, r) {
			t.Errorf("round %d asked again has another release", i)
		}
	}
	if len(north.rounds) != 1 || len(south.rounds) != 1 || len(c.behind(spec.Name)) != 0 {
		t.Errorf("nodes saw %d and %d rounds, sums were shown: %v", len(north.rounds), len(south.rounds),
			c.behind(spec.Name))
	}
	entries := student.ledger(t, spec.Name)
	for _, e := range entries {
		if !cmp.Equal(e.Events, roundtest.Times(1, roundtest.Exponential(6))) || e.Kind != runspec.Scores ||
			e.Queries != 1 || e.Answered != 1 || e.Entries != 0 {
			t.Errorf("the ledger has %+v", e)
		}
	}
	// A faulty selection among cached sums is also detected, and costs nothing.
	student.refused(t, selection(4, roundtest.Units(0, 0), nil), codes.InvalidArgument, "a selection among 3 "+
		"candidates has 2")
	_, err := student.ask(testkit.Within(t), selection(4, roundtest.Units(0, 0, 0),
		func(q *conclavev1.Selection) { q.Round = 1 }), nil)
	roundtest.WantStatus(t, err, codes.NotFound, "the sums of round 1", spec.Name, "not cached")
	if now := student.ledger(t, spec.Name); len(now) != 4 || len(entries) != 4 {
		t.Fatalf("%d releases in the ledger", len(now))
	}
	student.close(t, spec.Name)
	// A release is repeated. Nothing new is released, because the sums are gone.
	if r := student.mustAsk(t, rounds[2]); r.GetSelected().GetIndex() != 1 {
		t.Errorf("round 2 is now %v", r)
	}
	for range 2 {
		if c.server.rounds.Cached(t.Context(), spec.Name, 0) || len(north.rounds) != 1 {
			t.Error("the sums of a closed run are cached, or were collected again")
		}
		_, err = student.askHolding(testkit.Within(t), first)
		testkit.Must(t, err)
	}
}

// Asking for other scores under the same number is refused.
func TestSelectionsAreUnderTheEntryOfTheirSums(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.Both(roundtest.SelectionsOf(0.01, 2),
		roundtest.Also(roundtest.Planned(runspec.Scores, roundtest.Exponential(50), 1))))
	c.node(t, hello(d, "north", "a", 8), roundtest.Sums(roundtest.Units(30, 0)))
	student.mustAsk(t, roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 0), nil))
	again := roundtest.SelectionRound(spec.Name, 1, roundtest.Units(0, 0), nil)
	again.Planned = 1
	_, err := student.ask(testkit.Within(t), again, nil)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "entry 1", "charged under entry 0", "use that entry")
	again.Planned = 0
	if student.mustAsk(t, again); len(student.ledger(t, spec.Name)) != 2 {
		t.Error("what was refused was charged, or the selection was not")
	}
}

// If only some teachers took part, records count in proportion: 60 units of score are 20 below the expectation of 80
// units, and 10 above that of 5/8 of them. Later selections use the teachers behind the sums, also if others joined
// since. The best is not selected with a chance below exp(-50).
func TestSelectionsCountTheTeachersThatTookPart(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	for teachers, want := range map[uint32]uint32{8: 1, 5: 0} {
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.SelectionsOf(10, 2))
		c.node(t, hello(d, "north", "a", teachers), roundtest.Sums(roundtest.Units(60, 0)))
		r := student.mustAsk(t, roundtest.ScoreRound(spec.Name, 0, roundtest.Units(1, 0), nil))
		if teachers < 8 {
			c.node(t, hello(d, "south", "a", 8-teachers), roundtest.Sums(roundtest.Units(0, 0)))
		}
		again := student.mustAsk(t, roundtest.SelectionRound(spec.Name, 1, roundtest.Units(1, 0), nil))
		for _, r := range []*conclavev1.Release{r, again} {
			if r.GetSelected().GetIndex() != want || r.GetTeachers() != teachers {
				t.Errorf("%d teachers: round %d selected %v with %d", teachers, r.GetRound(), r.GetSelected(),
					r.GetTeachers())
			}
		}
	}
}

// Sums live in one aggregator's memory. The next aggregator says that it lacks them, collects them again on request,
// and charges nothing for that.
func TestSelectionsGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	student, spec, node := c.begin(t, roundtest.SelectionsOf(6, 3), roundtest.Sums(roundtest.Units(60, 0)))
	d := spec.Dataset
	first, second, third := roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 0), nil),
		roundtest.SelectionRound(spec.Name, 1, roundtest.Units(1, 0), nil),
		roundtest.SelectionRound(spec.Name, 2, roundtest.Units(0, 0), nil)
	released := student.mustAsk(t, first)
	student.mustAsk(t, second)
	testkit.Must(t, c.stop())
	testkit.Receive(t, node.ended)
	c.start(Options{})
	student = c.student(t)

	// The releases are there, the sums are not; no node is connected.
	if r := student.mustAsk(t, first); !cmp.Equal(r, released, protocmp.Transform()) {
		t.Errorf("after the restart round 0 is %v", r)
	}
	if r := student.mustAsk(t, second); r.GetSelected().GetIndex() != 1 {
		t.Errorf("after the restart round 1 is %v", r)
	}
	student.refused(t, third, codes.NotFound, "round 0", spec.Name, "not cached", "ask that round again")
	// A request for other scores under that number changes nothing.
	_, err := student.askHolding(testkit.Within(t), roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 1), nil))
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "released for another question")
	// A student that leaves while the sums are collected again loses nothing.
	ctx, cancel := context.WithCancel(testkit.Within(t))
	mute := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	gone := make(chan error, 1)
	go func() {
		_, err := student.askHolding(ctx, first)
		gone <- err
	}()
	testkit.Receive(t, mute.rounds)
	cancel()
	roundtest.WantStatus(t, testkit.Receive(t, gone), codes.Canceled)
	mute.leave()
	node = c.node(t, hello(d, "north", "a", 8), roundtest.Sums(roundtest.Units(60, 0)))
	r, err := student.askHolding(testkit.Within(t), first)
	testkit.Must(t, err)
	if !cmp.Equal(r, released, protocmp.Transform()) {
		t.Errorf("collected again, round 0 is %v", r)
	}
	if r := student.mustAsk(t, third); r.GetSelected().GetIndex() != 0 || r.GetTeachers() != 8 {
		t.Errorf("round 2 is %v", r)
	}
	// While the sums are cached, no node is asked again.
	asked := len(node.rounds)
	_, err = student.askHolding(testkit.Within(t), first)
	testkit.Must(t, err)
	if len(node.rounds) != asked {
		t.Error("held sums were collected again")
	}
	if entries := student.ledger(t, spec.Name); len(entries) != 3 {
		t.Errorf("%d releases in the ledger, want 3", len(entries))
	}
	student.close(t, spec.Name)
	verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
	claim, err := privacy.Account(roundtest.Times(3, roundtest.Exponential(6)), 1e-5)
	testkit.Must(t, err)
	if got := verified.Runs[spec.Name]; got.Releases != 3 || math.Abs(got.Price.Epsilon-claim.Epsilon) > 1e-9 {
		t.Errorf("the ledger has %+v, want epsilon %v", got, claim.Epsilon)
	}
}

// Two released rounds whose sums are requested in turn make nodes work without a charge.
func TestSumsAreCollectedAgainSomeTimes(t *testing.T) {
	c := shared(t)
	student, spec, node := c.begin(t, roundtest.SelectionsOf(6, 4), roundtest.Sums(roundtest.Units(30, 0, 10)))
	var rounds []*conclavev1.Round
	for number := range uint64(2) {
		rounds = append(rounds, roundtest.ScoreRound(spec.Name, number, roundtest.Units(0, 0, 0), nil))
		student.mustAsk(t, rounds[number])
	}
	var err error
	again := 0
	for ; err == nil && again < 100; again++ {
		_, err = student.askHolding(testkit.Within(t), rounds[again%2])
	}
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "collected again 16 times", spec.Name)
	if asked := len(node.rounds); asked != 2+16 {
		t.Errorf("the node was asked %d times, want 2 and 16 again", asked)
	}
}
