package aggregator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// fitPasses is how many passes the fit of FitRound takes.
var fitPasses = func() int {
	passes, err := ratio.Problem{
		Synthetic: make([]float64, roundtest.FitWidth), Width: roundtest.FitWidth, Clip: roundtest.FitClip, Lambda: 0.1,
		Records: 40, Rounding: ratio.Steps{Width: roundtest.FitWidth, Clip: roundtest.FitClip,
			Bound: ratio.FinestBound}.Rounding(),
	}.Passes()
	if err != nil {
		panic(err)
	}
	return passes
}()

// wantedOf is what the aggregator makes of such a question.
func wantedOf(t testing.TB, r *conclavev1.Round) *ratio.Wanted {
	t.Helper()
	q := new(conclavev1.Fit)
	testkit.Must(t, proto.Unmarshal(r.GetParams(), q))
	w, err := roundtest.Wanted(q)
	testkit.Must(t, err)
	return w
}

// passOf are the parameters of a pass.
func passOf(r *conclavev1.Round) *conclavev1.LogisticSum {
	q := new(conclavev1.LogisticSum)
	if err := proto.Unmarshal(r.GetParams(), q); err != nil {
		panic(err)
	}
	return q
}

// logisticOf are the sums of a node with these records, each a unit.
func logisticOf(records []float64, q *conclavev1.LogisticSum) []int64 {
	steps := ratio.Steps{Width: roundtest.FitWidth, Clip: q.GetFeatures().GetClip(), Bound: int64(q.GetBound())}
	pass, err := ratio.NewPass(steps, q.GetCoefficients())
	for i := 0; err == nil && i < len(records); i += roundtest.FitWidth {
		err = pass.Add(records[i : i+roundtest.FitWidth])
	}
	if err != nil {
		panic(err)
	}
	return pass.Sums()
}

// fitting is a node that has these records. Of pass number, from 1, otherwise may answer in
// its place.
func fitting(records []float64, otherwise func(pass int, r *conclavev1.Round) ([]*conclavev1.WorkRequest,
	bool)) roundtest.Answer {
	pass := 0
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		pass++
		if otherwise != nil {
			if replies, ok := otherwise(pass, r); ok {
				return replies
			}
		}
		return roundtest.Sums(logisticOf(records, passOf(r)))(r)
	}
}

// fitTo is the fit on the records of all nodes in one place.
func fitTo(t testing.TB, w *ratio.Wanted, records []float64) []float64 {
	t.Helper()
	return testkit.Value(ratio.Fit(context.Background(), w.Problem,
		func(_ context.Context, beta []float64) (ratio.Sums, error) {
			return w.Steps.Decode(logisticOf(records, &conclavev1.LogisticSum{
				Features: &conclavev1.RatioFeatures{Clip: roundtest.FitClip}, Coefficients: beta,
				Bound: uint64(w.Steps.Bound),
			}))
		}))
}

// The coefficients before their noise are those of a fit on the pooled records, to the last
// step of the lattice; noise is charged once, as the run was opened with; nodes see iterates
// and nothing else.
func TestFits(t *testing.T) {
	var private [][]int64
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(_ string, _ uint64,
		counts []int64) {
		private = append(private, slices.Clone(counts))
	}}})
	student := c.student(t)
	here, there := roundtest.Records(2, 25, 0.4), roundtest.Records(3, 20, 0.4)
	for _, noise := range []struct {
		kind  string
		open  func(*conclavev1.RunSpec)
		event privacy.Event
		norm  question.Norm
	}{
		{"Gaussian", roundtest.FitOf(roundtest.Gaussian(3)), roundtest.Gaussian(3), question.L2},
		{"Laplace", roundtest.FitOf(roundtest.Laplace(5)), roundtest.Laplace(5), question.L1},
		{"norm-Gamma", roundtest.GammaOf(5), roundtest.Laplace(5), question.L2},
	} {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, noise.open)
		north := c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		south := c.node(t, hello(d, "south", "a", 3), fitting(there, nil))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
		round := roundtest.FitRound(spec.Name, 0, noise.norm, nil)
		r := student.mustAsk(t, round)
		w := wantedOf(t, round)
		pooled := fitTo(t, w, slices.Concat(here, there))
		exact := w.Lattice.Round(pooled)
		if len(private) != 1 || !slices.Equal(private[0], exact) {
			t.Fatalf("%v: fitted %v, pooled %v", noise.kind, private, exact)
		}
		if len(north.rounds) != fitPasses || len(south.rounds) != fitPasses {
			t.Errorf("%v: nodes saw %d and %d passes, want %d", noise.kind, len(north.rounds), len(south.rounds),
				fitPasses)
		}
		for range len(north.rounds) {
			asked := testkit.Receive(t, north.rounds)
			q, digest := passOf(asked), sha256.Sum256(testkit.Value(proto.Marshal(round)))
			if len(q.GetCoefficients()) != roundtest.FitWidth || !bytes.Equal(asked.GetServes(), digest[:]) {
				t.Errorf("%v: a node was asked %v", noise.kind, asked)
			}
		}
		// Noise of at most 5 sensitivities' scale: 60 of those are passed with a chance below 1e-11.
		if len(r.GetSum().GetValues()) != roundtest.FitWidth || r.GetTeachers() != 8 {
			t.Fatalf("%v: released %v", noise.kind, r)
		}
		same := 0
		for i, v := range r.GetSum().GetValues() {
			if v == exact[i] {
				same++
			}
			if off := math.Abs(float64(v - exact[i])); off > 60*float64(w.L1) {
				t.Errorf("%v: coefficient %d is off by %v steps, and a unit moves it by %d", noise.kind, i, off, w.L1)
			}
		}
		if same == roundtest.FitWidth { // thousands of steps wide: a chance below 1e-9
			t.Errorf("%v: no noise", noise.kind)
		}
		if again := student.mustAsk(t, round); !cmp.Equal(again, r, protocmp.Transform()) || len(private) != 1 {
			t.Errorf("%v: asked again it has another release", noise.kind)
		}
		entries := student.ledger(t, spec.Name)
		if len(entries) != 1 || !cmp.Equal(entries[0].Events, roundtest.Times(1, noise.event)) ||
			entries[0].Kind != runspec.Fit ||
			entries[0].Queries != 1 || entries[0].Answered != 1 || entries[0].Entries != roundtest.FitWidth {
			t.Fatalf("%v: the ledger has %+v", noise.kind, entries)
		}
		if pure := noise.event.Kind == privacy.Laplace; pure {
			if plan := planOf(t, student.lines(t, spec.Name), spec.Name); len(plan) != 1 ||
				!cmp.Equal(plan.Events(), roundtest.Times(1, noise.event)) {
				t.Errorf("%v: the plan is %v", noise.kind, plan)
			}
			// The plan has one fit, and another is refused before a node is asked.
			asked := len(south.rounds)
			_, err := student.ask(testkit.Within(t), roundtest.FitRound(spec.Name, 1, noise.norm, nil), nil)
			roundtest.WantStatus(t, err, codes.ResourceExhausted, spec.Name)
			if len(south.rounds) != asked {
				t.Errorf("%v: nodes were asked for what is not in the plan", noise.kind)
			}
		}
		_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
		testkit.Must(t, err)
		if _, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name))); err != nil {
			t.Errorf("%v: %v", noise.kind, err)
		}
		_, err = student.ask(testkit.Within(t), roundtest.FitRound(spec.Name, 1, noise.norm, nil), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "is closed")
	}
}

// close checks that what was fitted minimizes the loss of these records: by strong convexity
// it is within twice the tolerance over lambda of another fit, and half a step in each
// coordinate.
func closeToFit(t *testing.T, w *ratio.Wanted, fitted []int64, records []float64) {
	t.Helper()
	want := fitTo(t, w, records)
	tolerance := w.Problem.DefaultTolerance()
	far := 0.0
	for i, v := range w.Lattice.Values(fitted) {
		far = math.Hypot(far, v-want[i])
	}
	if limit := 2*tolerance/w.Problem.Lambda + w.Lattice.Step()*math.Sqrt(roundtest.FitWidth)/2; far > limit {
		t.Errorf("the coefficients are %v from the fit on the records, limit %v", far, limit)
	}
}

// Nodes may come and go, refuse or send rubbish between the passes of a fit. What is
// released minimizes the loss of those that took part in the last one.
func TestFitsWithNodesThatChange(t *testing.T) {
	t.Parallel()
	var private [][]int64
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(_ string, _ uint64,
		counts []int64) {
		private = append(private, slices.Clone(counts))
	}}})
	student := c.student(t)
	here, there := roundtest.Records(4, 30, 0.5), roundtest.Records(5, 25, 0.1)
	fail := func(from int, answer roundtest.Answer) func(int, *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
		return func(pass int, r *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
			if pass >= from {
				return answer(r), true
			}
			return nil, false
		}
	}
	refusal := func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{
			roundtest.Addressed(
				&conclavev1.WorkRequest{
					Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Reason: "no"}},
				},
				r,
			),
		}
	}
	huge := make([]int64, roundtest.FitWidth+1+ratio.Triangle(roundtest.FitWidth))
	huge[4] = math.MaxInt64
	for name, bad := range map[string]roundtest.Answer{
		"refusing": refusal, "of another length": roundtest.Sums(make([]int64, roundtest.FitWidth)),
		"beyond all units": roundtest.Sums(huge), "voting": roundtest.Votes(3, roundtest.Alternating),
		"mute": roundtest.Silent,
	} {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
			roundtest.FitOf(roundtest.Gaussian(1))(s)
			if name == "mute" { // others must be heard, however busy the machine is
				s.DeadlineSeconds = 0.2
			}
		})
		c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		c.node(t, hello(d, "south", "a", 3), fitting(there, fail(2, bad)))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
		round := roundtest.FitRound(spec.Name, 0, question.L2, nil)
		r := student.mustAsk(t, round)
		want := uint32(5)
		if name == "mute" { // that a node is slow is not told
			want = 8
		}
		if r.GetTeachers() != want || len(private) != 1 {
			t.Fatalf("%s: %d teachers took part, want %d", name, r.GetTeachers(), want)
		}
		closeToFit(t, wantedOf(t, round), private[0], here)
	}

	t.Run("leaving", func(t *testing.T) {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.FitOf(roundtest.Gaussian(1)))
		c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		var south atomic.Pointer[testNode]
		south.Store(c.node(t, hello(d, "south", "a", 3),
			fitting(there, fail(2, func(*conclavev1.Round) []*conclavev1.WorkRequest {
				south.Load().cancel()
				return nil
			}))))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
		round := roundtest.FitRound(spec.Name, 0, question.L2, nil)
		if r := student.mustAsk(t, round); r.GetTeachers() != 5 {
			t.Errorf("%d teachers took part", r.GetTeachers())
		}
		closeToFit(t, wantedOf(t, round), private[0], here)
	})
	t.Run("joining", func(t *testing.T) {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.FitOf(roundtest.Gaussian(1)))
		joined := make(chan struct{})
		c.node(t, hello(d, "north", "a", 5), fitting(here,
			func(pass int, _ *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
				if pass == 2 {
					<-joined
				}
				return nil, false
			}))
		round := roundtest.FitRound(spec.Name, 0, question.L2, nil)
		asked := make(chan *conclavev1.Release, 1)
		go func() { asked <- student.mustAsk(t, round) }()
		c.node(t, hello(d, "south", "a", 3), fitting(there, nil))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
		close(joined)
		if r := testkit.Receive(t, asked); r.GetTeachers() != 8 {
			t.Errorf("%d teachers took part", r.GetTeachers())
		}
		closeToFit(t, wantedOf(t, round), private[0], slices.Concat(here, there))
	})
	t.Run("all refusing", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.FitOf(roundtest.Gaussian(1)))
		c.node(t, hello(d, "north", "a", 8), fitting(here, fail(2, refusal)))
		_, err := student.ask(testkit.Within(t), roundtest.FitRound(spec.Name, 0, question.L2, nil), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "north/a", "refused: no", spec.Name)
		if entries := student.ledger(t, spec.Name); len(entries) != 0 {
			t.Errorf("charged %v", entries)
		}
	})
}

// A student that goes away in a fit leaves nothing behind: the run can be closed at once, or
// the fit asked again, and a fit that nobody comes back to ends.
func TestAStudentThatGoesAwayInAFit(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	here := roundtest.Records(6, 30, 0.5)
	for _, closing := range []bool{true, false} {
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.FitOf(roundtest.Gaussian(1)))
		second := make(chan struct{}, 1)
		n := c.node(t, hello(d, "north", "a", 8),
			fitting(here, func(pass int, _ *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
				if pass == 2 {
					second <- struct{}{}
					return nil, true // never
				}
				return nil, false
			}))
		ctx, cancel := context.WithCancel(testkit.Within(t))
		asked := make(chan error, 1)
		round := roundtest.FitRound(spec.Name, 0, question.L2, nil)
		go func() {
			_, err := student.ask(ctx, round, nil)
			asked <- err
		}()
		testkit.Receive(t, second)
		cancel()
		roundtest.WantStatus(t, testkit.Receive(t, asked), codes.Canceled)
		testkit.Eventually(t, "a fit that nobody waits for", func() bool {
			return c.server.rounds.Waiting(t.Context(), spec.Name) == 0
		})
		if !closing { // other coefficients are asked for in its place
			student.mustAsk(
				t,
				roundtest.FitRound(spec.Name, 0, question.L2, func(q *conclavev1.Fit) { q.Lambda = 0.2 }),
			)
			continue
		}
		testkit.Eventually(t, "a run that can be closed", func() bool {
			_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
			return err == nil
		})
		if entries := student.ledger(t, spec.Name); len(entries) != 0 {
			t.Errorf("charged %v", entries)
		}
		if r := testkit.Receive(t, n.withdrawn); r.GetRound() != 0 {
			t.Errorf("withdrawn was %v", r)
		}
	}
}

// Questions that a run does not allow are refused before a node sees them, and cost nothing.
func TestFitQuestionsAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	opened := func(change func(*conclavev1.RunSpec)) (string, *testNode) {
		d := c.dataset()
		spec, _ := student.open(t, d, change)
		return spec.Name, c.node(t, hello(d, "north", "a", 8), fitting(roundtest.Records(7, 10, 0), nil))
	}
	refused := func(run string, n *testNode, round *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		_, err := student.ask(testkit.Within(t), round, nil)
		roundtest.WantStatus(t, err, code, names...)
		if entries := student.ledger(t, run); len(n.rounds) != 0 || len(entries) != 0 {
			t.Fatalf("the node saw %d rounds, charged was %v", len(n.rounds), entries)
		}
	}
	run, n := opened(roundtest.FitOf(roundtest.Gaussian(1)))
	for _, bad := range roundtest.BadFits() {
		refused(run, n, roundtest.FitRound(run, 0, question.L2, bad.Change), codes.InvalidArgument, bad.Want)
	}
	// A student cannot ask for the sums of an iterate itself: they have no noise.
	iterate := roundtest.FitRound(run, 0, question.L2, nil)
	iterate.Params = question.Marshal(&conclavev1.LogisticSum{Coefficients: make([]float64, 3), Bound: 1 << 16})
	refused(run, n, iterate, codes.InvalidArgument, "install matching versions")
	iterate.Serves = make([]byte, 32)
	refused(run, n, iterate, codes.InvalidArgument, "leave out serves")

	for _, change := range []func(*conclavev1.RunSpec){nil, roundtest.SumsOf(2), roundtest.SamplesOf(2, 0.25, 2),
		roundtest.SelectionsOf(1, 1)} {
		other, n := opened(change)
		refused(other, n, roundtest.FitRound(other, 0, question.L2, nil), codes.FailedPrecondition, other,
			"and the round asks for fit; open a run whose plan has it")
	}
	over, n2 := opened(func(s *conclavev1.RunSpec) {
		roundtest.FitOf(roundtest.Gaussian(1))(s)
		s.Epsilon = 1
	})
	refused(over, n2, roundtest.FitRound(over, 0, question.L2, nil), codes.ResourceExhausted, over)
	// What there is no noise for is found before a node is asked.
	wide, n3 := opened(roundtest.GammaOf(1))
	refused(
		wide,
		n3,
		roundtest.FitRound(
			wide,
			0,
			question.L2,
			func(q *conclavev1.Fit) { q.Synthetic, q.Features.Clip, q.Lambda = roundtest.Tensor(1, 200), 100, 2 },
		),
		codes.InvalidArgument,
		"gaussian",
	)

	if r := student.mustAsk(t, roundtest.FitRound(run, 0, question.L2, nil)); r.GetTeachers() != 8 {
		t.Errorf("released %v", r)
	}
}
