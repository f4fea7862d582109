package aggregator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// asking is a kind of question with a mechanism that answers it. [TestShapes] checks what all of them must satisfy; a
// new one is one line in [shapes].
type asking struct {
	open func(*conclavev1.RunSpec)
	// round is asked; another has the same shape but a different question.
	round, another func(run string, number uint64) *conclavev1.Round
	// honest answers correctly for the given number of teachers.
	honest func(teachers uint32) roundtest.Answer
	// charged is the event of one release.
	charged privacy.Event
	// passes is how often nodes are asked in one round.
	passes int
}

// shapes lists all shapes and mechanisms that runs use.
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

// suite is the state shared by the steps of [TestShapes].
type suite struct {
	*cluster
	list map[string]asking

	mu sync.Mutex // guards the fields below
	// kept has one run of each shape whose round 0 is released; left has runs with an unanswered question.
	kept, left map[string]*conclavev1.RunSpec
	first      map[string]*conclavev1.Release

	before, after atomic.Bool // whether a charge blocks before or after it commits
	reached       chan struct{}
	proceed       chan struct{}
}

// TestShapes checks what holds for every shape of question: replay, restart, crash, takeover, refusal, abandoned
// questions, budget and impossible answers.
func TestShapes(t *testing.T) {
	t.Parallel()
	s := &suite{
		list: shapes(), kept: map[string]*conclavev1.RunSpec{}, left: map[string]*conclavev1.RunSpec{},
		first: map[string]*conclavev1.Release{},
	}
	stop := func(on *atomic.Bool) func(string, uint64) {
		return func(string, uint64) {
			if on.Load() {
				s.reached <- struct{}{}
				<-s.proceed
			}
		}
	}
	options := Options{Hooks: Hooks{BeforeCharge: stop(&s.before), AfterCharge: stop(&s.after)}}
	s.cluster = newCluster(t, options, roomy)
	s.each(t, "released", s.release)
	s.each(t, "refusal", s.refusal)
	s.each(t, "budget", s.budget)
	s.each(t, "rejection", s.rejection)
	s.each(t, "left", s.leave)
	t.Run("crash before the charge", func(t *testing.T) { s.crash(t, options, &s.before) })
	t.Run("crash after the charge", func(t *testing.T) { s.crash(t, options, &s.after) })
	s.each(t, "replay", s.replay)
	s.each(t, "abandoned", s.abandoned)
}

// each runs one step for all shapes.
func (s *suite) each(t *testing.T, step string, take func(*testing.T, string, asking)) {
	t.Run(step, func(t *testing.T) {
		for name, a := range s.list {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				take(t, name, a)
			})
		}
	})
}

// opened opens a run on its own dataset.
func (a asking) opened(t *testing.T, c *cluster, s *testStudent) (*conclavev1.RunSpec, string) {
	d := c.dataset()
	spec, _ := s.open(t, d, a.open)
	return spec, d
}

// of is the round, charged to the first entry of its kind.
func (a asking) of(spec *conclavev1.RunSpec, number uint64) *conclavev1.Round {
	return roundtest.Paid(spec, "", a.round(spec.Name, number))
}

// paid checks that a round was charged its price exactly once.
func (a asking) paid(t *testing.T, s *testStudent, spec *conclavev1.RunSpec) ledger.Entry {
	t.Helper()
	entries := s.ledger(t, spec.Name)
	if len(entries) != 1 || len(entries[0].Events) != 1 || entries[0].Events[0] != a.charged {
		t.Fatalf("the ledger has %+v, want one event %+v", entries, a.charged)
	}
	return entries[0]
}

// A release sums what all nodes sent, adds noise and costs the price of its mechanism.
func (s *suite) release(t *testing.T, name string, a asking) {
	student := s.student(t)
	spec, d := a.opened(t, s.cluster, student)
	north := s.node(t, hello(d, "north", "a", 5), a.honest(5))
	s.node(t, hello(d, "south", "a", 3), a.honest(3))
	s.awaitTeachers(t, d, 8)
	asked := a.of(spec, 0)
	r := student.mustAsk(t, asked)
	e := a.paid(t, student, spec)
	queries := max(1, int64(asked.GetVotes().GetQueries()))
	if r.GetTeachers() != 8 || len(north.rounds) != a.passes || e.Hash != r.GetLedgerHash() ||
		e.Seq != r.GetLedgerSeq() || e.Kind != asked.Kind || *e.Planned != int(asked.Planned) ||
		e.Queries != queries || e.Answered != queries || e.Entries != int64(len(r.GetSum().GetValues())) {
		t.Errorf("released %v, charged %+v, a node was asked %d times", r, e, len(north.rounds))
	}
	want := 0.
	switch sigma := a.charged.Sigma; a.charged.Kind {
	case privacy.Gaussian:
		want = gaussianEpsilon(1/sigma, 1e-5)
	case privacy.GNMax:
		want = gaussianEpsilon(math.Sqrt(2*float64(queries))/sigma, 1e-5)
	}
	if got := r.GetEpsilonSpent(); want != 0 && math.Abs(got-want) > 1e-9*want {
		t.Errorf("epsilon %v, want %v", got, want)
	}
	s.mu.Lock()
	s.kept[name], s.first[name] = spec, r
	s.mu.Unlock()
	behind := s.behind(spec.Name)
	if r.GetSum() == nil {
		if len(behind) != 0 {
			t.Error("sums were shown that are not released")
		}
		return
	}
	private := behind[0]
	if a.passes == 1 {
		for i, v := range a.honest(5)(asked)[0].GetSum().GetValues() {
			if private[i] != 2*v {
				t.Errorf("before the noise number %d is %d, and two nodes sent %d", i, private[i], v)
			}
		}
		if r.GetSum().GetScale() != asked.GetSum().GetBound() {
			t.Errorf("released at scale %d", r.GetSum().GetScale())
		}
	}
	// Noise is thousands of steps wide, so all values are unchanged with a chance below 1e-9.
	if slices.Equal(private, r.GetSum().GetValues()) {
		t.Error("no noise")
	}
}

// Asking a released round again returns the stored release, also from another server and without a node. Another
// question in its place is refused, even the same fields in another order. Neither costs anything, and the ledger
// verifies.
func (s *suite) replay(t *testing.T, name string, a asking) {
	student := s.student(t)
	spec, first := s.kept[name], s.first[name]
	raw, front := a.of(spec, 0), &conclavev1.Round{Run: spec.Name}
	raw.Run = ""
	reordered := append(testkit.Value(proto.Marshal(raw)), testkit.Value(proto.Marshal(front))...)
	check := func() {
		t.Helper()
		if again := student.mustAsk(t, a.of(spec, 0)); !proto.Equal(again, first) {
			t.Errorf("asked again: %v, first %v", again, first)
		}
		student.refused(t, roundtest.Paid(spec, "", a.another(spec.Name, 0)), codes.FailedPrecondition, "round 0",
			"another question")
		_, err := student.askBytes(testkit.Within(t), payload.Key{Run: spec.Name}, reordered, nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "round 0", spec.Name, "another question",
			"another name")
		a.paid(t, student, spec)
	}
	check()
	_, found := student.open(t, spec.Dataset, a.open)
	if found.GetRounds() != 1 || found.GetEpsilonSpent() != first.GetEpsilonSpent() {
		t.Errorf("the run is found as %v", found)
	}
	closing := &conclavev1.CloseRunRequest{Run: spec.Name}
	closed, err := student.CloseRun(testkit.Within(t), closing)
	testkit.Must(t, err)
	if twice, err := student.CloseRun(testkit.Within(t), closing); err != nil || !proto.Equal(closed, twice) {
		t.Errorf("closed %v, and then %v, %v", closed, twice, err)
	}
	check()
	student.refused(t, a.of(spec, 1), codes.FailedPrecondition, "is closed")
	_, err = ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
}

// An aggregator that dies before the charge has released nothing. One that dies after it has told the nodes, and the
// next leader returns the same release.
func (s *suite) crash(t *testing.T, options Options, at *atomic.Bool) {
	after := at == &s.after
	s.reached, s.proceed = make(chan struct{}), make(chan struct{})
	proceed := sync.OnceFunc(func() { at.Store(false); close(s.proceed) })
	defer proceed() // also where it fails
	at.Store(true)
	student := s.student(t)
	specs, asked := map[string]*conclavev1.RunSpec{}, map[string]<-chan error{}
	for name, a := range s.list {
		spec, d := a.opened(t, s.cluster, student)
		n := s.node(t, hello(d, "north", "a", 8), a.honest(8))
		specs[name], asked[name] = spec, inBackground(t, student, a.of(spec, 0))
		testkit.Receive(t, s.reached)
		for after && !bytes.Contains(testkit.Receive(t, n.entries), []byte(`"type":"release"`)) {
		}
		if len(asked[name]) != 0 {
			t.Errorf("%s: the student was answered first", name)
		}
	}
	s.depose(t) // it can no longer commit
	proceed()
	for _, outcome := range asked {
		if err := testkit.Receive(t, outcome); !after { // a charged release may still be returned
			roundtest.WantStatus(t, err, codes.Unavailable, "leader")
		}
	}
	if err := s.ended(); !errors.Is(err, ErrLeadershipLost) {
		t.Errorf("Serve returned %v", err)
	}
	s.start(options)
	student = s.student(t)
	for name, spec := range specs {
		a := s.list[name]
		if entries := student.ledger(t, spec.Name); (len(entries) == 1) != after {
			t.Fatalf("%s: the ledger has %d releases", name, len(entries))
		}
		n := s.node(t, hello(spec.Dataset, "north", "a", 8), a.honest(8))
		student.mustAsk(t, a.of(spec, 0))
		a.paid(t, student, spec)
		if again := len(n.rounds) > 0; again == after {
			t.Errorf("%s: nodes were asked again: %v", name, again)
		}
	}
}

// If all nodes refuse, the student gets their reason and pays nothing. If some refuse, the others still answer.
func (s *suite) refusal(t *testing.T, _ string, a asking) {
	student := s.student(t)
	spec, d := a.opened(t, s.cluster, student)
	s.node(t, hello(d, "north", "a", 2), roundtest.Refusing("own\n budget\x00 spent"))
	n := s.node(t, hello(d, "south", "a", 6), roundtest.Refusing("own\n budget\x00 spent"))
	_, err := student.ask(testkit.Within(t), a.of(spec, 0), nil)
	// The other node alone is not enough, so it is not asked.
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "south/a refused: own budget spent")
	if entries := student.ledger(t, spec.Name); len(entries) != 0 {
		t.Errorf("charged %v", entries)
	}
	n.leave()
	s.awaitTeachers(t, d, 2)
	s.node(t, hello(d, "south", "b", 6), a.honest(6))
	if r := student.mustAsk(t, a.of(spec, 0)); r.GetTeachers() != 6 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	a.paid(t, student, spec)
}

// giveUp asks a round and cancels when the node has received it.
func (s *suite) giveUp(t *testing.T, student *testStudent, n *testNode, r *conclavev1.Round) {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Within(t))
	gone := make(chan error, 1)
	go func() {
		_, err := student.ask(ctx, r, nil)
		gone <- err
	}()
	testkit.Receive(t, n.rounds)
	cancel()
	roundtest.WantStatus(t, testkit.Receive(t, gone), codes.Canceled)
	testkit.Eventually(t, "a round that nobody waits for", func() bool {
		return s.server.rounds.Waiting(t.Context(), r.Run) == 0
	})
}

// leave abandons an unanswered question, which [suite.abandoned] continues on another server.
func (s *suite) leave(t *testing.T, name string, a asking) {
	student := s.student(t)
	d := s.dataset()
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
		a.open(s)
		for _, p := range s.Plan {
			if p.Count == 1 {
				p.Count, s.Epsilon = 3, 90
			}
		}
	})
	s.giveUp(t, student, s.node(t, hello(d, "north", "a", 8), roundtest.Silent), a.of(spec, 0))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[name] = spec
}

// A question that nodes were asked is charged, released or not: its duration or its failure may reveal records.
// Asking the same bytes again costs nothing. Another question in its place, or the end of the run, charges the worst
// case.
func (s *suite) abandoned(t *testing.T, name string, a asking) {
	student, spec := s.student(t), s.left[name]
	d := spec.Dataset
	n := s.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	s.giveUp(t, student, n, a.of(spec, 0))
	if entries := chargesOf(t, student.lines(t, spec.Name)); len(entries) != 0 {
		t.Errorf("the same question asked again: charged %+v", entries)
	}
	released := inBackground(t, student, roundtest.Paid(spec, "", a.another(spec.Name, 0)))
	testkit.Receive(t, n.rounds)
	if w := testkit.Receive(t, n.withdrawn); w.GetRun() != spec.Name || w.GetOver() {
		t.Errorf("withdrawn was %v", w)
	}
	n.leave()
	s.awaitTeachers(t, d, 0)
	n = s.node(t, hello(d, "north", "b", 8), a.honest(8))
	testkit.Must(t, testkit.Receive(t, released))
	entries := chargesOf(t, student.lines(t, spec.Name))
	if len(entries) != 2 || entries[0].Type != ledger.EntryAbandoned || entries[1].Type != ledger.EntryRelease {
		t.Fatalf("another question in its place: charged %+v", entries)
	}
	n.leave()
	s.awaitTeachers(t, d, 0)
	s.giveUp(t, student, s.node(t, hello(d, "north", "c", 8), roundtest.Silent), a.of(spec, 1))
	student.close(t, spec.Name)
	entries = chargesOf(t, student.lines(t, spec.Name))
	if len(entries) != 3 || entries[2].Type != ledger.EntryAbandoned || *entries[2].Round != 1 {
		t.Fatalf("the run's end: charged %+v", entries)
	}
	for _, e := range entries {
		if len(e.Events) != 1 || e.Events[0] != a.charged {
			t.Errorf("charged %+v, want %+v", e.Events, a.charged)
		}
	}
	_, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
}

// A question that exceeds the budget is refused before a node is asked.
func (s *suite) budget(t *testing.T, _ string, a asking) {
	student, d := s.student(t), s.dataset()
	spec := specOn(d, a.open)
	spec.Epsilon = 0.01
	n := s.node(t, hello(d, "north", "a", 8), a.honest(8))
	_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
	if spec.Filter == "" {
		testkit.Must(t, err)
		_, err = student.ask(testkit.Within(t), a.of(spec, 0), nil)
	}
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "budget")
	if len(n.rounds) != 0 {
		t.Errorf("a node was asked %d times", len(n.rounds))
	}
}

// An answer that no node can have computed is rejected with the node's name, but without its content. It costs
// nothing, and the answers of others count.
func (s *suite) rejection(t *testing.T, _ string, a asking) {
	student := s.student(t)
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
		"a sum":           {longer(1, nil), "got a sum, want votes", true},
		"other teachers":  {a.honest(3), "of 3 teachers, but the node has 2", true},
		"votes":           {roundtest.Votes(2, roundtest.Alternating), "got votes, want a sum", false},
		"one number more": {longer(1, nil), "entries, want", false},
		"the least integer": {longer(0, func(v []int64) {
			v[1] = math.MinInt64
		}), "entry 1 of the sum is out of range", false},
	} {
		if bad.votes == sums {
			continue
		}
		spec, d := a.opened(t, s.cluster, student)
		s.node(t, hello(d, "north", "bad", 2), bad.answer)
		n := s.node(t, hello(d, "south", "bad", 2), bad.answer)
		err := student.refused(t, a.of(spec, 0), codes.FailedPrecondition, "north/bad", bad.want)
		if strings.Contains(err.Error(), "922337203685477580") {
			t.Errorf("%s: %q tells of the answer", name, err)
		}
		if entries := student.ledger(t, spec.Name); len(entries) != 0 {
			t.Fatalf("%s: charged %v", name, entries)
		}
		n.leave()
		s.awaitTeachers(t, d, 2)
		s.node(t, hello(d, "south", "good", 6), a.honest(6))
		if r := student.mustAsk(t, a.of(spec, 0)); r.GetTeachers() != 6 {
			t.Errorf("%s: %d teachers took part", name, r.GetTeachers())
		}
		a.paid(t, student, spec)
	}
}

// awaitTeachers waits until this number of teachers is connected: the aggregator notices a departure slightly late.
func (c *cluster) awaitTeachers(t *testing.T, dataset string, teachers int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprint(teachers, " teachers"), func() bool {
		return int(c.server.rounds.Datasets[dataset].Teachers()) == teachers
	})
}

// depose makes another aggregator take leadership and then stop.
func (c *cluster) depose(t *testing.T) {
	t.Helper()
	other, err := coordinator.Open(testkit.Within(t), coordinator.Config{Endpoints: c.server.embedded.Endpoints()})
	testkit.Must(t, err)
	defer other.Close()
	lead, err := other.Lead(testkit.Within(t), c.config.Name, testkit.Patience)
	testkit.Must(t, err)
	testkit.Must(t, lead.Resign(testkit.Within(t)))
}
