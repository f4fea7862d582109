package aggregator

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/distuv"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/shape"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// askHolding sends a round in one part and has its sums collected again.
func (s *testStudent) askHolding(ctx context.Context, round *conclavev1.Round) (*conclavev1.Release, error) {
	return s.askOnce(ctx, round, &conclavev1.AskRequest{Hold: true})
}

// One pass over the nodes, then as many selections as are paid for; each is charged, none
// twice, and the ledger verifies. The scores are so far apart that another selection than
// the best has a chance below exp(-60).
func TestSelections(t *testing.T) {
	var private int
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(string, uint64, []int64) { private++ }}})
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.SelectionsOf(6, 4))
	north := c.node(t, hello(d, "north", "a", 5), roundtest.Sums(roundtest.Units(30, 0, 10)))
	south := c.node(t, hello(d, "south", "a", 3), roundtest.Sums(roundtest.Units(30, 10, 20)))
	testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
	first := roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 0, 0), nil) // 60, 10, 30 remain
	rounds := []*conclavev1.Round{
		first,
		// -20, 10, 30
		roundtest.SelectionRound(spec.Name, 1, roundtest.Units(1, 0, 0), nil),
		// 60, 90, -50
		roundtest.SelectionRound(spec.Name, 2, roundtest.Units(0, -1, 1), nil),
		// 60, 11, 29
		roundtest.SelectionRound(spec.Name, 3, roundtest.Units(0, -1, 1),
			func(q *conclavev1.Selection) { q.Records = 1 }),
	}
	for i, want := range []uint32{0, 2, 1, 0} {
		r := student.mustAsk(t, rounds[i])
		if r.GetSelected() == nil || r.GetSelected().GetIndex() != want || r.GetTeachers() != 8 {
			t.Fatalf("round %d selected %v with %d teachers, want %d", i, r.GetSelected(), r.GetTeachers(), want)
		}
		again, err := student.askHolding(testkit.Within(t), rounds[i])
		testkit.Must(t, err)
		if !cmp.Equal(again, r, protocmp.Transform()) {
			t.Errorf("round %d asked again has another release", i)
		}
	}
	if len(north.rounds) != 1 || len(south.rounds) != 1 || private != 0 {
		t.Errorf("nodes saw %d and %d rounds, %d sums were shown", len(north.rounds), len(south.rounds), private)
	}
	entries := student.ledger(t, spec.Name)
	if len(entries) != 4 {
		t.Fatalf("%d releases in the ledger", len(entries))
	}
	for _, e := range entries {
		if !cmp.Equal(e.Events, roundtest.Times(1, roundtest.Exponential(6))) || e.Kind != runspec.Scores ||
			e.Queries != 1 || e.Answered != 1 || e.Entries != 0 {
			t.Errorf("the ledger has %+v", e)
		}
	}
	_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	if _, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name))); err != nil {
		t.Error(err)
	}
	// What was released is told again, and nothing new; the sums are gone.
	if r := student.mustAsk(t, rounds[2]); r.GetSelected().GetIndex() != 1 {
		t.Errorf("round 2 is now %v", r)
	}
	if c.server.rounds.Cached(t.Context(), spec.Name, 0) {
		t.Error("the sums of a closed run are cached")
	}
	_, err = student.askHolding(testkit.Within(t), first)
	testkit.Must(t, err)
	if c.server.rounds.Cached(t.Context(), spec.Name, 0) || len(north.rounds) != 1 {
		t.Error("the sums of a closed run were collected again")
	}
	_, err = student.ask(testkit.Within(t), roundtest.SelectionRound(spec.Name, 4, roundtest.Units(0, 0, 0), nil), nil)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "is closed")
}

// Opposites have the same sums but for the sign and come after all discriminators.
func TestSelectionsAmongOpposites(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.SelectionsOf(6, 2))
	c.node(t, hello(d, "north", "a", 8), roundtest.Sums(roundtest.Units(-60, 20)))
	opposites := func(r *conclavev1.Round) {
		r.Selection.Complements, r.Selection.Expected = true, roundtest.Units(0, 0, 0, 0)
	}
	if r := student.mustAsk(t, roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 0),
		opposites)); r.GetSelected().GetIndex() != 2 {
		t.Errorf("selected %v of -60, 20, 60, -20", r.GetSelected())
	}
	// -60, 20, 60 - 80, -20 + 80
	among := func(q *conclavev1.Selection) { q.Complements = true }
	if r := student.mustAsk(t, roundtest.SelectionRound(spec.Name, 1, roundtest.Units(0, 0, 1, -1),
		among)); r.GetSelected().GetIndex() != 3 {
		t.Errorf("selected %v of -60, 20, -20, 60", r.GetSelected())
	}
	_, err := student.ask(testkit.Within(t), roundtest.SelectionRound(spec.Name, 2, roundtest.Units(0, 0), among), nil)
	roundtest.WantStatus(t, err, codes.InvalidArgument, "a selection among 4 says of 2")
}

// Where not all teachers took part, records count by their share: 60 units of score are 20
// fewer than 80 units' expectation, and 10 more than that of 5 of 8 of them. Later
// selections keep to the teachers behind the sums, whoever has come since. Another selection
// than the best has a chance below exp(-50).
func TestSelectionsCountTheTeachersThatTookPart(t *testing.T) {
	c := newCluster(t, Options{})
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

// Selections are drawn with probability proportional to exp(epsilon u/(2 bound)): 250 of them
// through the aggregator, 20,000 by the question alone. Each count of the eight is in the part
// of its binomial that 1e-10 lies outside of, so the test fails by chance in 8e-10 of all runs.
// Of 20,000 selections it finds a probability that is off by 0.023.
func TestSelectionsHaveTheirProbabilities(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	const epsilon, through, alone = 0.5, 250, 20_000
	d := c.dataset()
	run, _ := student.open(t, d, roundtest.SelectionsOf(epsilon, through))
	// u is 3, 1, 0, 2 bounds, with 80 units' expectation taken off.
	c.node(t, hello(d, "north", "a", 8), roundtest.Sums(roundtest.Units(3, 41, -40, 82)))
	expected := []int64{0, roundtest.Unit / 2, -roundtest.Unit / 2, roundtest.Unit}
	score := []float64{3, 1, 0, 2}
	check := func(counts []float64) {
		t.Helper()
		var total, n float64
		for i, u := range score {
			total += math.Exp(epsilon * u / 2)
			n += counts[i]
		}
		for i, u := range score {
			b := distuv.Binomial{N: n, P: math.Exp(epsilon*u/2) / total}
			if b.CDF(counts[i]) < 5e-11 || 1-b.CDF(counts[i]-1) < 5e-11 {
				t.Errorf("%v of %v selections are %d, expected are %v", counts[i], n, i, n*b.P)
			}
		}
	}
	counts := make([]float64, 4)
	for number := range uint64(through) {
		r := roundtest.SelectionRound(run.Name, number, expected, nil)
		if number == 0 {
			r = roundtest.ScoreRound(run.Name, number, expected, nil)
		}
		counts[student.mustAsk(t, r).GetSelected().GetIndex()]++
	}
	check(counts)

	pb := roundtest.Spec()
	roundtest.SelectionsOf(epsilon, 1)(pb)
	alike := testkit.Value(spec.New(pb))
	q, err := shape.Parser(nil)(roundtest.ScoreRound("r", 0, expected, nil), alike, nil)
	testkit.Must(t, err)
	clear(counts)
	src := gnmax.NewSource()
	for range alone {
		r := &conclavev1.Release{Teachers: 8}
		if _, err := q.Answer(src, roundtest.Units(3, 41, -40, 82), r); err != nil {
			t.Fatal(err)
		}
		counts[r.GetSelected().GetIndex()]++
	}
	check(counts)
}

// Sums live in one aggregator's memory. The next one does not have them, says so, collects
// them again when it is asked to, and charges nothing for that.
func TestSelectionsGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.SelectionsOf(6, 3))
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Sums(roundtest.Units(60, 0)))
	first, second, third := roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 0), nil),
		roundtest.SelectionRound(spec.Name, 1, roundtest.Units(1, 0), nil),
		roundtest.SelectionRound(spec.Name, 2, roundtest.Units(0, 0), nil)
	released := student.mustAsk(t, first)
	student.mustAsk(t, second)
	testkit.Must(t, c.stop())
	testkit.Receive(t, node.ended)
	c.start(Options{})
	student = c.student(t)

	// Answers are there, sums are not; no node is connected.
	if r := student.mustAsk(t, first); !cmp.Equal(r, released, protocmp.Transform()) {
		t.Errorf("after the restart round 0 is %v", r)
	}
	if r := student.mustAsk(t, second); r.GetSelected().GetIndex() != 1 {
		t.Errorf("after the restart round 1 is %v", r)
	}
	_, err := student.ask(testkit.Within(t), third, nil)
	roundtest.WantStatus(t, err, codes.NotFound, "round 0", spec.Name, "not cached", "ask for that round again")
	// Somebody who asks for other scores under that number is no help.
	_, err = student.askHolding(testkit.Within(t), roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 1), nil))
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "released for another question")
	// A student that goes away while the sums are collected again loses nothing.
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
	// Asked again while they are held, no node is.
	asked := len(node.rounds)
	_, err = student.askHolding(testkit.Within(t), first)
	testkit.Must(t, err)
	if len(node.rounds) != asked {
		t.Error("held sums were collected again")
	}
	if entries := student.ledger(t, spec.Name); len(entries) != 3 {
		t.Errorf("%d releases in the ledger, want 3", len(entries))
	}
	_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
	claim, err := privacy.Account(roundtest.Times(3, roundtest.Exponential(6)), 1e-5)
	testkit.Must(t, err)
	if got := verified.Runs[spec.Name]; got.Releases != 3 || math.Abs(got.Price.Epsilon-claim.Epsilon) > 1e-9 {
		t.Errorf("the ledger has %+v, want epsilon %v", got, claim.Epsilon)
	}
}

// Two released rounds that are held in turn have nodes work, and nothing charged.
func TestSumsAreCollectedAgainSomeTimes(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.SelectionsOf(6, 4))
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Sums(roundtest.Units(30, 0, 10)))
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

// Questions that a run does not allow are refused before a node sees them, and cost nothing.
func TestScoreQuestionsAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	opened := func(change func(*conclavev1.RunSpec)) (string, *testNode) {
		d := c.dataset()
		spec, _ := student.open(t, d, change)
		return spec.Name, c.node(t, hello(d, "north", "a", 8), roundtest.Sums(roundtest.Units(0, 0)))
	}
	refused := func(run string, n *testNode, round *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		_, err := student.ask(testkit.Within(t), round, nil)
		roundtest.WantStatus(t, err, code, names...)
		if entries := student.ledger(t, run); len(n.rounds) != 0 || len(entries) != 0 {
			t.Fatalf("the node saw %d rounds, charged was %v", len(n.rounds), entries)
		}
	}
	run, n := opened(roundtest.SelectionsOf(0.5, 5))
	for _, bad := range roundtest.BadSelections() {
		refused(run, n, roundtest.ScoreRound(run, 0, roundtest.Units(0, 0), bad.Change), codes.InvalidArgument,
			bad.Want)
	}
	// Nothing is held before it was asked for.
	refused(run, n, roundtest.SelectionRound(run, 0, roundtest.Units(0, 0), nil), codes.NotFound, "round 0", run,
		"not cached")

	for _, change := range []func(*conclavev1.RunSpec){nil, roundtest.SumsOf(2), roundtest.SamplesOf(2, 0.25, 2)} {
		other, n := opened(change)
		refused(other, n, roundtest.ScoreRound(other, 0, roundtest.Units(0, 0), nil), codes.FailedPrecondition, other,
			"and the round asks for scores; open a run whose plan has it")
	}
	over, n2 := opened(func(s *conclavev1.RunSpec) { roundtest.SelectionsOf(5, 1)(s); s.Epsilon = 1 })
	refused(over, n2, roundtest.ScoreRound(over, 0, roundtest.Units(0, 0), nil), codes.ResourceExhausted, over)

	// What is wrong with a selection among held sums is found too, and costs nothing.
	student.mustAsk(t, roundtest.ScoreRound(run, 0, roundtest.Units(0, 0), nil))
	for _, bad := range []struct {
		change func(*conclavev1.Selection)
		code   codes.Code
		want   string
	}{
		{func(q *conclavev1.Selection) { q.Records = 0 }, codes.InvalidArgument, "counts on 0 privacy units"},
		{func(q *conclavev1.Selection) { q.Expected = q.Expected[:1] }, codes.InvalidArgument,
			"a selection among 2 says of 1"},
		{func(q *conclavev1.Selection) { q.Expected[1] = -roundtest.Unit - 1 }, codes.InvalidArgument,
			"outside -4096 to 4096"},
		{func(q *conclavev1.Selection) { q.Round = 1 }, codes.NotFound, "the sums of round 1"},
	} {
		_, err := student.ask(testkit.Within(t), roundtest.SelectionRound(run, 1, roundtest.Units(0, 0), bad.change),
			nil)
		roundtest.WantStatus(t, err, bad.code, bad.want)
	}
	if entries := student.ledger(t, run); len(entries) != 1 || len(n.rounds) != 1 {
		t.Errorf("charged %v, the node saw %d rounds", entries, len(n.rounds))
	}
}
