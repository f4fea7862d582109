package aggregator

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// fitWidth is that of the fits of these tests, fitClip the length of their records' features.
const (
	fitWidth = 3
	fitClip  = 2
)

// fitOf opens a run that may fit with such noise: Gaussian as often as its budget admits,
// pure once, by a plan that is priced as a whole.
func fitOf(noise privacy.Event) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Epsilon = 20
		asks(planned(runspec.Fit, noise, 0))(s)
		if noise.Kind == privacy.Laplace {
			both(wholly, asks(planned(runspec.Fit, noise, 1)))(s)
		}
	}
}

// gammaOf is fitOf with norm-Gamma noise.
func gammaOf(epsilon float64) func(*conclavev1.RunSpec) {
	return both(fitOf(laplace(epsilon)), func(s *conclavev1.RunSpec) { s.Plan[0].Variant = privacy.NormGamma })
}

// records are as many vectors of features, the same for the same seed, about a place.
func records(seed uint64, n int, place float64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0xf17))
	var all []float64
	for range n {
		x := []float64{1, place + rng.NormFloat64()/2, rng.NormFloat64() / 2}
		length := 0.0
		for _, v := range x {
			length = math.Hypot(length, v)
		}
		for _, v := range x { // as float32 has them, and not longer
			all = append(all, float64(float32(v*math.Min(1, 1.999/length))))
		}
	}
	return all
}

// fitRound asks for a fit to 50 synthetic records, counting on 40 real ones.
func fitRound(run string, number uint64, change func(*conclavev1.Fit)) *conclavev1.Round {
	synthetic := tensor(50, fitWidth)
	for i, v := range records(1, 50, -0.3) {
		putFloat(synthetic, i, float32(v))
	}
	q := &conclavev1.Fit{
		Features:  &conclavev1.RatioFeatures{Mean: make([]float32, 2), Scale: []float32{1, 1}, Clip: fitClip},
		Synthetic: synthetic, Lambda: 0.1, Records: 40,
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Fit{Fit: q}}
}

func putFloat(t *conclavev1.Tensor, at int, v float32) {
	bits := math.Float32bits(v)
	for i := range 4 {
		t.Data[4*at+i] = byte(bits >> (8 * i))
	}
}

// wantedOf is what the aggregator makes of such a question.
func wantedOf(t testing.TB, r *conclavev1.Round) *ratio.Wanted {
	t.Helper()
	q := r.GetFit()
	var synthetic []float64
	for i := 0; i < len(q.Synthetic.Data); i += 4 {
		synthetic = append(synthetic, float64(float32At(q.Synthetic.Data, i)))
	}
	w, err := ratio.NewWanted(ratio.Problem{Synthetic: synthetic, Width: fitWidth, Clip: fitClip, Lambda: q.Lambda, Records: q.Records})
	testkit.Must(t, err)
	return w
}

// logisticOf are the sums of a node with these records, each a unit.
func logisticOf(records []float64, q *conclavev1.LogisticSum) []int64 {
	steps := ratio.Steps{Width: fitWidth, Clip: q.GetFeatures().GetClip(), Bound: int64(q.GetBound())}
	pass, err := ratio.NewPass(steps, q.GetCoefficients())
	for i := 0; err == nil && i < len(records); i += fitWidth {
		err = pass.Add(records[i : i+fitWidth])
	}
	if err != nil {
		panic(err)
	}
	gradient, hessian := pass.Sums()
	return append(gradient, hessian...)
}

// fitting is a node that has these records. Of pass number, from 1, otherwise may answer in
// its place.
func fitting(records []float64, otherwise func(pass int, r *conclavev1.Round) ([]*conclavev1.WorkRequest, bool)) answerFunc {
	pass := 0
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		pass++
		if otherwise != nil {
			if replies, ok := otherwise(pass, r); ok {
				return replies
			}
		}
		return sums(logisticOf(records, r.GetSum().GetLogistic()))(r)
	}
}

// fitTo is the fit on the records of all nodes in one place.
func fitTo(t testing.TB, w *ratio.Wanted, records []float64) *ratio.Fitted {
	t.Helper()
	f, err := ratio.Fit(context.Background(), w.Problem, func(_ context.Context, beta []float64) ([]float64, []float64, error) {
		s := logisticOf(records, &conclavev1.LogisticSum{
			Features: &conclavev1.RatioFeatures{Clip: fitClip}, Coefficients: beta, Bound: uint64(w.Steps.Bound),
		})
		g, h := w.Steps.Decode(s[:fitWidth], s[fitWidth:])
		return g, h, nil
	})
	testkit.Must(t, err)
	return f
}

// The coefficients before their noise are those of a fit on the pooled records, to the last
// step of the lattice; noise is charged once, as the run was opened with; nodes see iterates
// and nothing else.
func TestFits(t *testing.T) {
	var private [][]int64
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(_ string, _ uint64, counts []int64) { private = append(private, slices.Clone(counts)) }}})
	student := c.student(t)
	here, there := records(2, 25, 0.4), records(3, 20, 0.4)
	for _, noise := range []struct {
		kind  string
		open  func(*conclavev1.RunSpec)
		event privacy.Event
	}{
		{"Gaussian", fitOf(gaussian(3)), gaussian(3)},
		{"Laplace", fitOf(laplace(5)), laplace(5)},
		{"norm-Gamma", gammaOf(5), laplace(5)},
	} {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, noise.open)
		north := c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		south := c.node(t, hello(d, "south", "a", 3), fitting(there, nil))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
		round := fitRound(spec.Name, 0, nil)
		r := student.mustAsk(t, round)
		w := wantedOf(t, round)
		pooled := fitTo(t, w, slices.Concat(here, there))
		exact := w.Lattice.Round(pooled.Beta)
		if len(private) != 1 || !slices.Equal(private[0], exact) {
			t.Fatalf("%v: fitted %v, pooled %v", noise.kind, private, exact)
		}
		// However few would have done.
		if len(north.rounds) != leastPasses || len(south.rounds) != leastPasses || pooled.Iterations < 2 || pooled.Iterations >= leastPasses {
			t.Errorf("%v: nodes saw %d and %d passes, want %d; %d are enough", noise.kind, len(north.rounds), len(south.rounds), leastPasses, pooled.Iterations)
		}
		for range len(north.rounds) {
			q := testkit.Receive(t, north.rounds).GetSum().GetLogistic()
			if q == nil || len(q.GetCoefficients()) != fitWidth {
				t.Errorf("%v: a node was asked %v", noise.kind, q)
			}
		}
		// Noise of at most 5 sensitivities' scale: 60 of those are passed with a chance below 1e-11.
		if len(r.GetSum().GetValues()) != fitWidth || r.GetTeachers() != 8 {
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
		if same == fitWidth { // thousands of steps wide: a chance below 1e-9
			t.Errorf("%v: no noise", noise.kind)
		}
		if again := student.mustAsk(t, round); !cmp.Equal(again, r, protocmp.Transform()) || len(private) != 1 {
			t.Errorf("%v: asked again it has another release", noise.kind)
		}
		entries := student.ledger(t, spec.Name)
		if len(entries) != 1 || !cmp.Equal(entries[0].Events, times(1, noise.event)) || entries[0].Kind != runspec.Fit ||
			entries[0].Queries != 1 || entries[0].Answered != 1 || entries[0].Entries != fitWidth {
			t.Fatalf("%v: the ledger has %+v", noise.kind, entries)
		}
		if pure := noise.event.Kind == privacy.Laplace; pure {
			if plan := planOf(t, student.lines(t, spec.Name), spec.Name); len(plan) != 1 || !cmp.Equal(plan.Events(), times(1, noise.event)) {
				t.Errorf("%v: the plan is %v", noise.kind, plan)
			}
			// The plan has one fit, and another is refused before a node is asked.
			asked := len(south.rounds)
			_, err := student.ask(testkit.Within(t), fitRound(spec.Name, 1, nil), nil)
			wantStatus(t, err, codes.ResourceExhausted, spec.Name)
			if len(south.rounds) != asked {
				t.Errorf("%v: nodes were asked for what is not in the plan", noise.kind)
			}
		}
		_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
		testkit.Must(t, err)
		if _, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name))); err != nil {
			t.Errorf("%v: %v", noise.kind, err)
		}
		_, err = student.ask(testkit.Within(t), fitRound(spec.Name, 1, nil), nil)
		wantStatus(t, err, codes.FailedPrecondition, "is closed")
	}
}

// close checks that what was fitted minimizes the loss of these records: by strong convexity
// it is within twice the tolerance over lambda of another fit, and half a step in each
// coordinate.
func closeToFit(t *testing.T, w *ratio.Wanted, fitted []int64, records []float64) {
	t.Helper()
	want := fitTo(t, w, records).Beta
	tolerance := w.Problem.DefaultTolerance()
	far := 0.0
	for i, v := range w.Lattice.Values(fitted) {
		far = math.Hypot(far, v-want[i])
	}
	if limit := 2*tolerance/w.Problem.Lambda + w.Lattice.Step()*math.Sqrt(fitWidth)/2; far > limit {
		t.Errorf("the coefficients are %v from the fit on the records, limit %v", far, limit)
	}
}

// Nodes may come and go, refuse or send rubbish between the passes of a fit. What is
// released minimizes the loss of those that took part in the last one.
func TestFitsWithNodesThatChange(t *testing.T) {
	var private [][]int64
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(_ string, _ uint64, counts []int64) { private = append(private, slices.Clone(counts)) }}})
	student := c.student(t)
	here, there := records(4, 30, 0.5), records(5, 25, 0.1)
	fail := func(from int, answer answerFunc) func(int, *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
		return func(pass int, r *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
			if pass >= from {
				return answer(r), true
			}
			return nil, false
		}
	}
	refusal := func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{addressed(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Reason: "no"}}}, r)}
	}
	huge := make([]int64, fitWidth+ratio.Triangle(fitWidth))
	huge[4] = math.MaxInt64
	for name, bad := range map[string]answerFunc{
		"refusing": refusal, "of another length": sums(make([]int64, fitWidth)), "beyond all units": sums(huge), "voting": votes(3, alternating), "mute": silent,
	} {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
			fitOf(gaussian(1))(s)
			s.DeadlineSeconds = 0.2
		})
		c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		c.node(t, hello(d, "south", "a", 3), fitting(there, fail(2, bad)))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
		round := fitRound(spec.Name, 0, nil)
		r := student.mustAsk(t, round)
		if r.GetTeachers() != 5 || len(private) != 1 {
			t.Fatalf("%s: %d teachers took part", name, r.GetTeachers())
		}
		closeToFit(t, wantedOf(t, round), private[0], here)
	}

	t.Run("leaving", func(t *testing.T) {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, fitOf(gaussian(1)))
		c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		var south atomic.Pointer[testNode]
		south.Store(c.node(t, hello(d, "south", "a", 3), fitting(there, fail(2, func(*conclavev1.Round) []*conclavev1.WorkRequest {
			south.Load().cancel()
			return nil
		}))))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
		round := fitRound(spec.Name, 0, nil)
		if r := student.mustAsk(t, round); r.GetTeachers() != 5 {
			t.Errorf("%d teachers took part", r.GetTeachers())
		}
		closeToFit(t, wantedOf(t, round), private[0], here)
	})
	t.Run("joining", func(t *testing.T) {
		private = nil
		d := c.dataset()
		spec, _ := student.open(t, d, fitOf(gaussian(1)))
		joined := make(chan struct{})
		c.node(t, hello(d, "north", "a", 5), fitting(here, func(pass int, _ *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
			if pass == 2 {
				<-joined
			}
			return nil, false
		}))
		round := fitRound(spec.Name, 0, nil)
		asked := make(chan *conclavev1.Release, 1)
		go func() { asked <- student.mustAsk(t, round) }()
		c.node(t, hello(d, "south", "a", 3), fitting(there, nil))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
		close(joined)
		if r := testkit.Receive(t, asked); r.GetTeachers() != 8 {
			t.Errorf("%d teachers took part", r.GetTeachers())
		}
		closeToFit(t, wantedOf(t, round), private[0], slices.Concat(here, there))
	})
	t.Run("all refusing", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, fitOf(gaussian(1)))
		c.node(t, hello(d, "north", "a", 8), fitting(here, fail(2, refusal)))
		_, err := student.ask(testkit.Within(t), fitRound(spec.Name, 0, nil), nil)
		wantStatus(t, err, codes.FailedPrecondition, "north/a", "refused: no", spec.Name)
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
	here := records(6, 30, 0.5)
	for _, closing := range []bool{true, false} {
		d := c.dataset()
		spec, _ := student.open(t, d, fitOf(gaussian(1)))
		second := make(chan struct{}, 1)
		n := c.node(t, hello(d, "north", "a", 8), fitting(here, func(pass int, _ *conclavev1.Round) ([]*conclavev1.WorkRequest, bool) {
			if pass == 2 {
				second <- struct{}{}
				return nil, true // never
			}
			return nil, false
		}))
		ctx, cancel := context.WithCancel(testkit.Within(t))
		asked := make(chan error, 1)
		round := fitRound(spec.Name, 0, nil)
		go func() {
			_, err := student.ask(ctx, round, nil)
			asked <- err
		}()
		testkit.Receive(t, second)
		r := c.server.runs.get(spec.Name)
		testkit.Must(t, r.lock(t.Context()))
		fitting := r.openExecution()
		r.unlock()
		cancel()
		wantStatus(t, testkit.Receive(t, asked), codes.Canceled)
		testkit.Eventually(t, "a fit that nobody waits for", fitting.idle)
		if !closing { // other coefficients are asked for in its place
			student.mustAsk(t, fitRound(spec.Name, 0, func(q *conclavev1.Fit) { q.Lambda = 0.2 }))
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

// A pass is given up when nobody has waited for its fit for long, also where it waits for a
// quorum that does not come.
func TestAPassEndsWithItsFit(t *testing.T) {
	outer, inner := testExecution(t), testExecution(t)
	inner.outer, inner.abandoned = outer, outer.abandoned
	given := func() bool {
		select {
		case <-outer.abandoned:
			return true
		default:
			return false
		}
	}
	late := time.Now().Add(2 * abandonAfter)
	if _, err := inner.step(nil, late); err != nil || given() {
		t.Fatalf("given up while somebody waits (%v)", err)
	}
	outer.detach()
	if _, err := inner.step(nil, time.Now()); err != nil || given() {
		t.Fatalf("given up at once (%v)", err)
	}
	for range 2 { // however often
		if _, err := inner.step(nil, late); err != nil || !given() {
			t.Fatalf("not given up (%v)", err)
		}
	}
	outer.cancel()
}

// badFits are questions that no run takes.
func badFits() map[string]struct {
	change func(*conclavev1.Fit)
	want   string
} {
	type bad = struct {
		change func(*conclavev1.Fit)
		want   string
	}
	lambda := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Lambda = v } }
	count := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Records = v } }
	clip := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Features.Clip = v } }
	value := func(at int, v float64) func(*conclavev1.Fit) {
		return func(q *conclavev1.Fit) { putFloat(q.Synthetic, at, float32(v)) }
	}
	return map[string]bad{
		"no synthetic records": {func(q *conclavev1.Fit) { q.Synthetic = nil }, "a fit to 0 synthetic records of 0 features"},
		"no rows":              {func(q *conclavev1.Fit) { q.Synthetic = tensor(0, 3) }, "a fit to 0 synthetic records"},
		"too many features":    {func(q *conclavev1.Fit) { q.Synthetic = tensor(1, maxFitWidth+1) }, "401 features; use 1 record at least and 400 features at most"},
		"a flat tensor":        {func(q *conclavev1.Fit) { q.Synthetic.Shape = q.Synthetic.Shape[:1] }, "fit.synthetic has 1 dimensions"},
		"a short tensor":       {func(q *conclavev1.Fit) { q.Synthetic.Data = q.Synthetic.Data[4:] }, "fit.synthetic of shape [50, 3] holds 596 bytes"},
		"a NaN":                {value(4, math.NaN()), "fit.synthetic holds a value that is not finite in row 1, feature 1"},
		"an infinity":          {value(0, math.Inf(-1)), "not finite in row 0, feature 0"},
		"a long record":        {value(5, 3), "synthetic record 1 is longer than clip 2"},
		"no features":          {func(q *conclavev1.Fit) { q.Features = nil }, "clip is 0"},
		"clip 0":               {clip(0), "clip is 0"},
		"clip of NaN":          {clip(math.NaN()), "clip is NaN"},
		"infinite clip":        {clip(math.Inf(1)), "clip is +Inf"},
		"lambda 0":             {lambda(0), "lambda is 0"},
		"lambda below 0":       {lambda(-1), "lambda is -1"},
		"lambda of NaN":        {lambda(math.NaN()), "lambda is NaN"},
		"infinite lambda":      {lambda(math.Inf(1)), "lambda is +Inf"},
		"no records":           {count(0), "a fit counts on 0 privacy units; say 1 to 16777216, a public number"},
		"half a record":        {count(0.5), "counts on 0.5 privacy units"},
		"records of NaN":       {count(math.NaN()), "counts on NaN privacy units"},
		"too many records":     {count(maxUnits + 1), "privacy units; say 1 to 16777216"},
	}
}

// Questions that a run does not allow are refused before a node sees them, and cost nothing.
func TestFitQuestionsAreRefused(t *testing.T) {
	c := newCluster(t, Options{AllowCoin: true})
	student := c.student(t)
	opened := func(change func(*conclavev1.RunSpec)) (string, *testNode) {
		d := c.dataset()
		spec, _ := student.open(t, d, change)
		return spec.Name, c.node(t, hello(d, "north", "a", 8), fitting(records(7, 10, 0), nil))
	}
	refused := func(run string, n *testNode, round *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		_, err := student.ask(testkit.Within(t), round, nil)
		wantStatus(t, err, code, names...)
		if entries := student.ledger(t, run); len(n.rounds) != 0 || len(entries) != 0 {
			t.Fatalf("the node saw %d rounds, charged was %v", len(n.rounds), entries)
		}
	}
	run, n := opened(fitOf(gaussian(1)))
	for _, bad := range badFits() {
		refused(run, n, fitRound(run, 0, bad.change), codes.InvalidArgument, bad.want)
	}
	nothing := func(q *conclavev1.Fit) { q.Nothing = true }
	refused(run, n, fitRound(run, 0, nothing), codes.FailedPrecondition, "leave out fit.nothing")
	// A student cannot ask for the sums of an iterate itself: they have no noise.
	iterate := &conclavev1.Round{Run: run, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Logistic{Logistic: &conclavev1.LogisticSum{Coefficients: make([]float64, 3), Bound: 1 << 16}},
	}}}
	refused(run, n, iterate, codes.InvalidArgument, "asks nothing")

	for _, change := range []func(*conclavev1.RunSpec){nil, sumsOf(2), samplesOf(2, 0.25, 2), selectionsOf(1, 1)} {
		other, n := opened(change)
		refused(other, n, fitRound(other, 0, nil), codes.FailedPrecondition, other, "and the round asks for fit; open a run whose plan has it")
	}
	over, n2 := opened(func(s *conclavev1.RunSpec) {
		fitOf(gaussian(1))(s)
		s.Epsilon = 1
	})
	refused(over, n2, fitRound(over, 0, nil), codes.ResourceExhausted, over)
	// What there is no noise for is found before a node is asked.
	wide, n3 := opened(gammaOf(1))
	refused(wide, n3, fitRound(wide, 0, func(q *conclavev1.Fit) { q.Synthetic, q.Features.Clip = tensor(1, 200), 100 }), codes.InvalidArgument, "gaussian")

	// Nothing is asked for by the baseline, in a run that says so.
	coin, _ := opened(func(s *conclavev1.RunSpec) { fitOf(gaussian(1))(s); s.CoinVotes = true })
	student.mustAsk(t, fitRound(coin, 0, nothing))
	if entries := student.ledger(t, coin); len(entries) != 1 {
		t.Errorf("the baseline was charged %v", entries)
	}
	if r := student.mustAsk(t, fitRound(run, 0, nil)); r.GetTeachers() != 8 {
		t.Errorf("released %v", r)
	}
}

// The largest coefficients with their noise are within what is set aside for them.
func TestNoFitIsLargerThanItsBound(t *testing.T) {
	for _, width := range []int{1, maxFitWidth} {
		r := largestRelease()
		r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: slices.Repeat([]int64{-1 << 61}, width), Scale: 1}}
		checkSize(t, &fit{want: &ratio.Wanted{Problem: ratio.Problem{Width: width}}}, r)
	}
}

// FuzzFit decodes a question for a fit from the wire: no input may panic, and a question that
// is taken is charged by the run's noise and can be answered.
func FuzzFit(f *testing.F) {
	specs := []*runSpec{
		mustSpec(f, fitOf(gaussian(2))), mustSpec(f, fitOf(laplace(2))), mustSpec(f, gammaOf(2)),
	}
	add := func(r *conclavev1.Round) {
		raw, err := proto.Marshal(r)
		testkit.Must(f, err)
		f.Add(raw)
	}
	add(fitRound("r", 1, nil))
	add(fitRound("r", 1, func(q *conclavev1.Fit) { q.Nothing = true }))
	add(fitRound("r", 1, func(q *conclavev1.Fit) { q.Lambda = 1e-300 }))
	add(fitRound("r", 1, func(q *conclavev1.Fit) { q.Lambda = 1e300 }))
	for _, bad := range badFits() {
		add(fitRound("r", 1, bad.change))
	}
	f.Fuzz(func(t *testing.T, question []byte) {
		round := new(conclavev1.Round)
		if proto.Unmarshal(question, round) != nil {
			return
		}
		for _, spec := range specs {
			q, err := parseQuestion(&payload{key: roundKey{"r", 1}, round: round}, &run{spec: spec}, true)
			if err != nil {
				continue
			}
			if _, ok := q.(*fit); !ok {
				return
			}
			r := new(conclavev1.Release)
			answered, err := q.answer(gnmax.NewSource(), make([]int64, q.length()), r)
			if err != nil || len(r.GetSum().GetValues()) != q.length() || answered != 1 || q.queries() != 1 || round.GetPlanned() != 0 {
				t.Fatalf("released %v for %d answers, %v", r, answered, err)
			}
		}
	})
}
