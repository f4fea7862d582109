package aggregator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// fitPasses is the number of passes of the fit in FitRound.
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

// wantedOf is the aggregator's form of a fit round.
func wantedOf(t testing.TB, r *conclavev1.Round) *ratio.Wanted {
	t.Helper()
	q := new(conclavev1.Fit)
	testkit.Must(t, proto.Unmarshal(r.GetParams(), q))
	w, err := roundtest.Wanted(q)
	testkit.Must(t, err)
	return w
}

// passOf returns the parameters of a pass.
func passOf(r *conclavev1.Round) *conclavev1.LogisticSum {
	q := new(conclavev1.LogisticSum)
	if err := proto.Unmarshal(r.GetParams(), q); err != nil {
		panic(err)
	}
	return q
}

// logisticOf returns the sums of a node with these records, each its own unit.
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

// fitting is a node with these records. otherwise may replace its answer to pass number, counted from 1.
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

// fitTo fits the pooled records of all nodes.
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

// Without noise, the coefficients equal those of a fit on the pooled records to the last lattice step. Nodes see only
// iterates.
func TestFits(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	here, there := roundtest.Records(2, 25, 0.4), roundtest.Records(3, 20, 0.4)
	for _, noise := range []struct {
		kind string
		open func(*conclavev1.RunSpec)
		norm question.Norm
	}{
		{"Gaussian", roundtest.FitOf(roundtest.Gaussian(3)), question.L2},
		{"Laplace", roundtest.FitOf(roundtest.Laplace(5)), question.L1},
		{"norm-Gamma", roundtest.GammaOf(5), question.L2},
	} {
		d := c.dataset()
		spec, _ := student.open(t, d, noise.open)
		north := c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		south := c.node(t, hello(d, "south", "a", 3), fitting(there, nil))
		c.awaitTeachers(t, d, 8)
		round := roundtest.FitRound(spec.Name, 0, noise.norm, nil)
		r := student.mustAsk(t, round)
		w := wantedOf(t, round)
		exact := w.Lattice.Round(fitTo(t, w, slices.Concat(here, there)))
		if private := c.behind(spec.Name); len(private) != 1 || !slices.Equal(private[0], exact) {
			t.Fatalf("%v: fitted %v, pooled %v", noise.kind, private, exact)
		}
		if len(north.rounds) != fitPasses || len(south.rounds) != fitPasses || r.GetTeachers() != 8 {
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
		// The noise scale is at most 5 sensitivities. Noise exceeds 60 sensitivities with a chance below 1e-11.
		for i, v := range r.GetSum().GetValues() {
			if off := math.Abs(float64(v - exact[i])); off > 60*float64(w.L1) {
				t.Errorf("%v: coefficient %d is off by %v steps, and a unit moves it by %d", noise.kind, i, off, w.L1)
			}
		}
	}
}

// closeToFit checks that the fit minimizes the loss on these records. By strong convexity it is within twice the
// tolerance over lambda of another fit, plus half a step per coordinate.
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

// Nodes may join, leave, refuse or send garbage between the passes of a fit. The release minimizes the loss over the
// nodes in the last pass.
func TestFitsWithNodesThatChange(t *testing.T) {
	c := shared(t)
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
	huge := make([]int64, roundtest.FitWidth+1+ratio.Triangle(roundtest.FitWidth))
	huge[4] = math.MaxInt64
	for name, bad := range map[string]roundtest.Answer{
		"refusing": roundtest.Refusing("no"), "wrong length": roundtest.Sums(make([]int64, roundtest.FitWidth)),
		"beyond all units": roundtest.Sums(huge), "voting": roundtest.Votes(3, roundtest.Alternating),
		"mute": roundtest.Silent,
	} {
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
			roundtest.FitOf(roundtest.Gaussian(1))(s)
			if name == "mute" { // others must answer, however busy the machine is
				s.DeadlineSeconds = 0.2
			}
		})
		c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		c.node(t, hello(d, "south", "a", 3), fitting(there, fail(2, bad)))
		c.awaitTeachers(t, d, 8)
		round := roundtest.FitRound(spec.Name, 0, question.L2, nil)
		r := student.mustAsk(t, round)
		want := uint32(5)
		if name == "mute" { // slowness is not reported
			want = 8
		}
		private := c.behind(spec.Name)
		if r.GetTeachers() != want || len(private) != 1 {
			t.Fatalf("%s: %d teachers took part, want %d", name, r.GetTeachers(), want)
		}
		closeToFit(t, wantedOf(t, round), private[0], here)
	}

	t.Run("leaving", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.FitOf(roundtest.Gaussian(1)))
		c.node(t, hello(d, "north", "a", 5), fitting(here, nil))
		var south atomic.Pointer[testNode]
		south.Store(c.node(t, hello(d, "south", "a", 3),
			fitting(there, fail(2, func(*conclavev1.Round) []*conclavev1.WorkRequest {
				south.Load().cancel()
				return nil
			}))))
		c.awaitTeachers(t, d, 8)
		round := roundtest.FitRound(spec.Name, 0, question.L2, nil)
		if r := student.mustAsk(t, round); r.GetTeachers() != 5 {
			t.Errorf("%d teachers took part", r.GetTeachers())
		}
		closeToFit(t, wantedOf(t, round), c.behind(spec.Name)[0], here)
	})
	t.Run("joining", func(t *testing.T) {
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
		c.awaitTeachers(t, d, 8)
		close(joined)
		if r := testkit.Receive(t, asked); r.GetTeachers() != 8 {
			t.Errorf("%d teachers took part", r.GetTeachers())
		}
		closeToFit(t, wantedOf(t, round), c.behind(spec.Name)[0], slices.Concat(here, there))
	})
	t.Run("all refusing", func(t *testing.T) {
		student, spec, _ := c.begin(t, roundtest.FitOf(roundtest.Gaussian(1)),
			fitting(here, fail(2, roundtest.Refusing("no"))))
		student.refused(t, roundtest.FitRound(spec.Name, 0, question.L2, nil), codes.FailedPrecondition,
			"north/a", "refused: no", spec.Name)
		if entries := student.ledger(t, spec.Name); len(entries) != 0 {
			t.Errorf("charged %v", entries)
		}
	})
}
