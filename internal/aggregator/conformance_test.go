package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// asking is a shape of questions with a mechanism that answers it: what every one of them must
// keep is tested by [TestShapes]. A new one is one line in [shapes].
type asking struct {
	open func(*conclavev1.RunSpec)
	// round is asked; another is one of the same shape that asks for something else.
	round, another func(run string, number uint64) *conclavev1.Round
	// honest answers for so many teachers.
	honest func(teachers uint32) roundtest.Answer
	// charged is the event of one release.
	charged privacy.Event
	// passes is how often nodes are asked in one round.
	passes int
}

// shapes are all shapes and mechanisms that runs use.
func shapes() map[string]asking {
	sums := func(values ...int64) func(uint32) roundtest.Answer {
		return func(uint32) roundtest.Answer { return roundtest.Sums(values) }
	}
	fitting := func(uint32) roundtest.Answer { return fitting(roundtest.Records(2, 40, 0.4), nil) }
	fit := func(norm question.Norm, change func(*conclavev1.Fit)) func(string, uint64) *conclavev1.Round {
		return func(run string, number uint64) *conclavev1.Round {
			return roundtest.FitRound(run, number, norm, change)
		}
	}
	other := func(q *conclavev1.Fit) { q.Records++ }
	list := map[string]asking{
		"votes": {
			open: func(*conclavev1.RunSpec) {},
			round: func(run string, number uint64) *conclavev1.Round {
				return roundtest.VoteRound(run, number, 5)
			},
			honest: func(teachers uint32) roundtest.Answer {
				return roundtest.Votes(teachers, roundtest.Alternating)
			},
			charged: privacy.Event{Kind: privacy.GNMax, Sigma: 20, Count: 5},
		},
		"bins": {
			open: roundtest.BinsBy(roundtest.GNMax(20)),
			round: func(run string, number uint64) *conclavev1.Round {
				return roundtest.BinRound(run, number, 3)
			},
			honest: func(teachers uint32) roundtest.Answer {
				return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
					packed := roundtest.PackVotes(int(teachers), 6, 10, func(_, query int) int { return query })
					return []*conclavev1.WorkRequest{roundtest.Addressed(&conclavev1.WorkRequest{
						Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
							Teachers: teachers, Queries: 6, Packed: packed,
						}}}, r)}
				}
			},
			charged: privacy.Event{Kind: privacy.GNMax, Sigma: 20, Count: 6},
		},
		"counts": {
			open: func(*conclavev1.RunSpec) {},
			round: func(run string, number uint64) *conclavev1.Round {
				return roundtest.CountRound(run, number, 2, 1<<16)
			},
			honest:  sums(40<<16, 60<<16),
			charged: roundtest.Laplace(0.1).Times(1),
		},
		"sums of teachers": {
			open: roundtest.SumsOf(2),
			round: func(run string, number uint64) *conclavev1.Round {
				return roundtest.GradientRound(run, number, 1, nil)
			},
			honest:  sums(1000, -2000, 3000),
			charged: roundtest.Gaussian(2).Times(1),
		},
		"sums of samples": {
			open: roundtest.SamplesOf(2, 0.25, 3),
			round: func(run string, number uint64) *conclavev1.Round {
				return roundtest.DiscriminatorRound(run, number, 3, nil)
			},
			honest:  sums(1000, -2000, 3000),
			charged: roundtest.Subsampled(2, 0.25).Times(1),
		},
		"sums of units": {
			open: roundtest.EmbeddingOf(2),
			round: func(run string, number uint64) *conclavev1.Round {
				return roundtest.EmbeddingRound(run, number, 3, nil)
			},
			honest:  sums(1000, -2000, 3000),
			charged: roundtest.Gaussian(2).Times(1),
		},
		"selections": {
			open: roundtest.SelectionsOf(0.5, 3),
			round: func(run string, number uint64) *conclavev1.Round {
				return roundtest.ScoreRound(run, number, roundtest.Units(0, 0), nil)
			},
			honest:  sums(5, -5),
			charged: roundtest.Exponential(0.5).Times(1),
		},
		"a fit with gaussian noise": {
			open: roundtest.FitOf(roundtest.Gaussian(2)), round: fit(question.L2, nil),
			another: fit(question.L2, other), honest: fitting,
			charged: roundtest.Gaussian(2).Times(1), passes: fitPasses,
		},
		"a fit with laplace noise": {
			open: roundtest.FitOf(roundtest.Laplace(5)), round: fit(question.L1, nil),
			another: fit(question.L1, other), honest: fitting,
			charged: roundtest.Laplace(5).Times(1), passes: fitPasses,
		},
		"a fit with norm-gamma noise": {
			open: roundtest.GammaOf(5), round: fit(question.L2, nil),
			another: fit(question.L2, other), honest: fitting,
			charged: roundtest.Laplace(5).Times(1), passes: fitPasses,
		},
	}
	for name, a := range list {
		round := a.round
		if a.another == nil {
			a.another = func(run string, number uint64) *conclavev1.Round {
				r := round(run, number)
				r.Params = append(slices.Clone(r.Params), "something else"...)
				return r
			}
		}
		a.passes = max(1, a.passes)
		list[name] = a
	}
	return list
}

// TestShapes checks what every shape of questions keeps, whatever is asked: replay, restart,
// crash, takeover, refusal, questions that are given up, budget, and what nodes cannot have computed.
func TestShapes(t *testing.T) {
	t.Parallel()
	for name, a := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, Options{})
			t.Run("replay", func(t *testing.T) { a.replay(t, c) })
			t.Run("crash", func(t *testing.T) { a.crash(t, c) })
			t.Run("refusal", func(t *testing.T) { a.refusal(t, c) })
			t.Run("abandoned", func(t *testing.T) { a.abandoned(t, c) })
			t.Run("budget", func(t *testing.T) { a.budget(t, c) })
			t.Run("rejection", func(t *testing.T) { a.rejection(t, c) })
		})
	}
}

// opened opens a run on a dataset of its own.
func (a asking) opened(t *testing.T, c *cluster, s *testStudent) (*conclavev1.RunSpec, string) {
	d := c.dataset()
	spec, _ := s.open(t, d, a.open)
	return spec, d
}

// of is the round at the expense of the first entry of its kind.
func (a asking) of(spec *conclavev1.RunSpec, number uint64) *conclavev1.Round {
	return roundtest.Paid(spec, "", a.round(spec.Name, number))
}

// released checks that a round was charged as it says, and once.
func (a asking) released(t *testing.T, s *testStudent, spec *conclavev1.RunSpec) []ledger.Entry {
	t.Helper()
	entries := s.ledger(t, spec.Name)
	if len(entries) != 1 || len(entries[0].Events) != 1 || entries[0].Events[0] != a.charged {
		t.Fatalf("the ledger has %+v, want one event %+v", entries, a.charged)
	}
	return entries
}

// A round that is asked again gives the stored release, also after a restart and without a node;
// another question in its place is refused. Neither costs anything, and the ledger verifies.
func (a asking) replay(t *testing.T, c *cluster) {
	s := c.student(t)
	spec, d := a.opened(t, c, s)
	n := c.node(t, hello(d, "north", "a", 8), a.honest(8))
	first := s.mustAsk(t, a.of(spec, 0))
	check := func() {
		t.Helper()
		if again := s.mustAsk(t, a.of(spec, 0)); !proto.Equal(again, first) {
			t.Errorf("asked again: %v, first %v", again, first)
		}
		_, err := s.ask(testkit.Within(t), roundtest.Paid(spec, "", a.another(spec.Name, 0)), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "round 0", "another question")
		a.released(t, s, spec)
	}
	check()
	if len(n.rounds) != a.passes {
		t.Errorf("a node was asked %d times, want %d", len(n.rounds), a.passes)
	}
	testkit.Must(t, c.stop())
	c.start(Options{})
	s = c.student(t)
	check()
	_, err := s.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	check()
	_, err = ledger.VerifyStrict(strings.NewReader(s.lines(t, spec.Name)))
	testkit.Must(t, err)
}

// An aggregator that dies before the charge has released nothing; one that dies after it has
// released what the next one hands out.
func (a asking) crash(t *testing.T, c *cluster) {
	for _, after := range []bool{false, true} {
		testkit.Must(t, c.stop())
		reached, proceed := make(chan struct{}), make(chan struct{})
		stop := func(string, uint64) { close(reached); <-proceed }
		hooks := Hooks{BeforeCharge: stop}
		if after {
			hooks = Hooks{AfterCharge: stop}
		}
		c.start(Options{Hooks: hooks})
		s := c.student(t)
		spec, d := a.opened(t, c, s)
		c.node(t, hello(d, "north", "a", 8), a.honest(8))
		asked := make(chan error, 1)
		go func() {
			_, err := s.ask(testkit.Within(t), a.of(spec, 0), nil)
			asked <- err
		}()
		testkit.Receive(t, reached)
		c.depose(t) // it can no longer commit
		close(proceed)
		if err := testkit.Receive(t, asked); !after { // what was charged may still go out
			roundtest.WantStatus(t, err, codes.Unavailable)
		}
		if err := c.ended(); !errors.Is(err, ErrLeadershipLost) {
			t.Errorf("Serve returned %v", err)
		}
		c.start(Options{})
		s = c.student(t)
		if entries := s.ledger(t, spec.Name); (len(entries) == 1) != after {
			t.Fatalf("died after the charge: %v; the ledger has %d releases", after, len(entries))
		}
		n := c.node(t, hello(d, "north", "a", 8), a.honest(8))
		s.mustAsk(t, a.of(spec, 0))
		a.released(t, s, spec)
		if again := len(n.rounds) > 0; again == after {
			t.Errorf("died after the charge: %v; nodes were asked again: %v", after, again)
		}
	}
}

// A refusal of all nodes is the student's to read, and costs nothing; one of some leaves the
// others.
func (a asking) refusal(t *testing.T, c *cluster) {
	s := c.student(t)
	spec, d := a.opened(t, c, s)
	refuses := func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{roundtest.Addressed(&conclavev1.WorkRequest{
			Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Reason: "no such column"}}}, r)}
	}
	c.node(t, hello(d, "north", "a", 2), refuses)
	n := c.node(t, hello(d, "south", "a", 6), refuses)
	_, err := s.ask(testkit.Within(t), a.of(spec, 0), nil)
	// The other one is not asked where it is not enough by itself.
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "south/a refused: no such column")
	if entries := s.ledger(t, spec.Name); len(entries) != 0 {
		t.Errorf("charged %v", entries)
	}
	n.leave()
	c.awaitTeachers(t, d, 2)
	c.node(t, hello(d, "south", "b", 6), a.honest(6))
	if r := s.mustAsk(t, a.of(spec, 0)); r.GetTeachers() != 6 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	a.released(t, s, spec)
}

// A question that nodes were asked is paid for, released or not: how long it took, or that it
// failed, may tell of records. The same bytes asked again cost nothing; another question in its
// place, or the run's end, has it charged at its worst.
func (a asking) abandoned(t *testing.T, c *cluster) {
	s := c.student(t)
	d := c.dataset()
	spec, _ := s.open(t, d, func(s *conclavev1.RunSpec) {
		a.open(s)
		for _, p := range s.Plan {
			if p.Count == 1 {
				p.Count, s.Epsilon = 3, 90
			}
		}
	})
	n := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	leave := func(r *conclavev1.Round) {
		t.Helper()
		ctx, cancel := context.WithCancel(testkit.Within(t))
		gone := make(chan error, 1)
		go func() {
			_, err := s.ask(ctx, r, nil)
			gone <- err
		}()
		testkit.Receive(t, n.rounds)
		cancel()
		roundtest.WantStatus(t, testkit.Receive(t, gone), codes.Canceled)
		testkit.Eventually(t, "a round that nobody waits for", func() bool {
			return c.server.rounds.Waiting(t.Context(), spec.Name) == 0
		})
	}
	leave(a.of(spec, 0))
	testkit.Must(t, c.stop()) // the next server goes on under the same charge
	c.start(Options{})
	s = c.student(t)
	n = c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	leave(a.of(spec, 0))
	if entries := chargesOf(t, s.lines(t, spec.Name)); len(entries) != 0 {
		t.Errorf("the same question asked again: charged %+v", entries)
	}
	released := make(chan error, 1)
	go func() {
		_, err := s.ask(testkit.Within(t), roundtest.Paid(spec, "", a.another(spec.Name, 0)), nil)
		released <- err
	}()
	testkit.Receive(t, n.rounds)
	n.leave()
	c.awaitTeachers(t, d, 0)
	n = c.node(t, hello(d, "north", "b", 8), a.honest(8))
	testkit.Must(t, testkit.Receive(t, released))
	entries := chargesOf(t, s.lines(t, spec.Name))
	if len(entries) != 2 || entries[0].Type != ledger.EntryAbandoned || entries[1].Type != ledger.EntryRelease {
		t.Fatalf("another question in its place: charged %+v", entries)
	}
	n.leave()
	c.awaitTeachers(t, d, 0)
	n = c.node(t, hello(d, "north", "c", 8), roundtest.Silent)
	leave(a.of(spec, 1))
	_, err := s.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	entries = chargesOf(t, s.lines(t, spec.Name))
	if len(entries) != 3 || entries[2].Type != ledger.EntryAbandoned || *entries[2].Round != 1 {
		t.Fatalf("the run's end: charged %+v", entries)
	}
	for _, e := range entries {
		if len(e.Events) != 1 || e.Events[0] != a.charged {
			t.Errorf("charged %+v, want %+v", e.Events, a.charged)
		}
	}
	_, err = ledger.VerifyStrict(strings.NewReader(s.lines(t, spec.Name)))
	testkit.Must(t, err)
}

// What the budget has no room for is refused before a node is asked.
func (a asking) budget(t *testing.T, c *cluster) {
	s := c.student(t)
	d := c.dataset()
	spec := roundtest.Spec()
	a.open(spec)
	spec.Dataset, spec.Name, spec.Epsilon = d, "run-"+d, 0.01
	n := c.node(t, hello(d, "north", "a", 8), a.honest(8))
	_, err := s.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
	if spec.Filter == "" {
		testkit.Must(t, err)
		_, err = s.ask(testkit.Within(t), a.of(spec, 0), nil)
	}
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "budget")
	if len(n.rounds) != 0 {
		t.Errorf("a node was asked %d times", len(n.rounds))
	}
}

// What a node cannot have computed is rejected by its name, and says nothing of what it was. It
// costs nothing, and others' answers count.
func (a asking) rejection(t *testing.T, c *cluster) {
	s := c.student(t)
	votes := roundtest.Votes(2, roundtest.Alternating)
	longer := func(by int, change func([]int64)) roundtest.Answer {
		return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
			values := make([]int64, int(r.GetSum().GetEntries())+by)
			if change != nil {
				change(values)
			}
			return roundtest.Sums(values)(r)
		}
	}
	sums := a.round("r", 0).GetSum() != nil
	for name, bad := range map[string]struct {
		answer roundtest.Answer
		want   string
		votes  bool
	}{
		"a sum":           {longer(1, nil), "a sum where votes were asked", true},
		"other teachers":  {a.honest(3), "of 3 teachers from a node that has 2", true},
		"votes":           {votes, "votes where a sum was asked", false},
		"one number less": {longer(-1, nil), "entries where", false},
		"one number more": {longer(1, nil), "entries where", false},
		"the least integer": {longer(0, func(v []int64) {
			v[1] = math.MinInt64
		}), "entry 1 of the sum is out of range", false},
	} {
		if bad.votes == sums {
			continue
		}
		spec, d := a.opened(t, c, s)
		c.node(t, hello(d, "north", "bad", 2), bad.answer)
		n := c.node(t, hello(d, "south", "bad", 2), bad.answer)
		_, err := s.ask(testkit.Within(t), a.of(spec, 0), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "north/bad", bad.want)
		if strings.Contains(err.Error(), "922337203685477580") {
			t.Errorf("%s: %q tells of the answer", name, err)
		}
		if entries := s.ledger(t, spec.Name); len(entries) != 0 {
			t.Fatalf("%s: charged %v", name, entries)
		}
		n.leave()
		c.awaitTeachers(t, d, 2)
		c.node(t, hello(d, "south", "good", 6), a.honest(6))
		if r := s.mustAsk(t, a.of(spec, 0)); r.GetTeachers() != 6 {
			t.Errorf("%s: %d teachers took part", name, r.GetTeachers())
		}
		a.released(t, s, spec)
	}
}

// awaitTeachers waits until so many teachers are connected: an aggregator sees a node leave a
// little after the node has left.
func (c *cluster) awaitTeachers(t *testing.T, dataset string, teachers int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprint(teachers, " teachers"), func() bool {
		return int(c.server.rounds.Datasets[dataset].Teachers()) == teachers
	})
}

// depose has another aggregator lead, and go again.
func (c *cluster) depose(t *testing.T) {
	t.Helper()
	other, err := coordinator.Open(testkit.Within(t), coordinator.Config{Endpoints: c.server.embedded.Endpoints()})
	testkit.Must(t, err)
	defer other.Close()
	lead, err := other.Lead(testkit.Within(t), c.config.Name, testkit.Patience)
	testkit.Must(t, err)
	testkit.Must(t, lead.Resign(testkit.Within(t)))
}
