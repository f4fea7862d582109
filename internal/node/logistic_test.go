package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ratioWidth is that of the features of smallSchema with its two classes, without squares;
// x alone has one.
const ratioWidth = 1 + smallFeatures + 2

// ratioOf are features of smallSchema in some units.
func ratioOf(squares bool) *conclavev1.RatioFeatures {
	f := &conclavev1.RatioFeatures{Squares: squares, Clip: 2.5}
	for i := range smallFeatures + 2 {
		f.Mean, f.Scale = append(f.Mean, 0.1*float32(i)), append(f.Scale, 1+0.2*float32(i))
	}
	return f
}

// logisticRound asks for the derivatives at coefficients of this spread.
func logisticRound(number uint64, spread float64, change func(q *conclavev1.LogisticSum)) *conclavev1.Round {
	q := &conclavev1.LogisticSum{Features: ratioOf(true), Bound: ratio.FinestBound}
	rng := rand.New(rand.NewPCG(number, 29))
	for range ratioWidth + 1 {
		q.Coefficients = append(q.Coefficients, spread*rng.NormFloat64())
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: "r", Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Logistic{Logistic: q},
	}}}
}

// Nodes add up the same whole numbers however the units are divided among them: of
// gradients, which decide what is released. Curvature is made whole once a node.
func TestLogisticSumsDoNotDependOnTheNumberOfNodes(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, "who"} {
		one, two, seven := sites(t, unit, 1), sites(t, unit, 2), sites(t, unit, 7)
		for number := range uint64(3) {
			r := logisticRound(number, 0.8, nil)
			want := addedUp(t, one, r)
			if len(want) != ratioWidth+1+ratio.Triangle(ratioWidth+1) || want[0] >= 0 || want[ratioWidth+1] <= 0 {
				t.Fatalf("unit %s: sums %v", unit, want)
			}
			for _, nodes := range [][]*Node{two, seven} {
				got, width := addedUp(t, nodes, r), ratioWidth+1
				if !slices.Equal(got[:width], want[:width]) {
					t.Errorf("unit %s: %d nodes add up to %v, one to %v", unit, len(nodes), got[:width], want[:width])
				}
				for i, h := range got[width:] {
					if d := h - want[width+i]; d > int64(len(nodes)) || d < -int64(len(nodes)) {
						t.Errorf("unit %s: curvature %d of %d nodes is %d, of one %d", unit, i, len(nodes), h, want[width+i])
					}
				}
			}
		}
	}
}

// The sums are those of a logistic loss, the mean over a unit's records, to within rounding.
func TestLogisticSumsAreThoseOfOneMachine(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, "who"} {
		n := sites(t, unit, 1)[0]
		r := logisticRound(1, 0.8, nil)
		q := r.GetSum().GetLogistic()
		got := discriminatorSumOf(t, n, r)
		features, err := n.ratioFeatures(q.Features)
		testkit.Must(t, err)
		d := features.Width()
		want, x := make([]float64, len(got)), make([]float64, d)
		for u := range n.units {
			records := recordsOf(n, u)
			for _, rec := range records {
				features.At(x, rec.x, rec.class)
				score := 0.0
				for i, v := range x {
					score += v * q.Coefficients[i]
				}
				p, at := 1/(1+math.Exp(-score)), d
				for i := range d {
					want[i] += (p - 1) * x[i] / q.Features.Clip / float64(len(records))
					for j := i; j < d; j++ {
						want[at] += p * (1 - p) * x[i] * x[j] / (q.Features.Clip * q.Features.Clip) / float64(len(records))
						at++
					}
				}
			}
		}
		for i, v := range got {
			if math.Abs(float64(v)/float64(q.Bound)-want[i]) > 1e-9 {
				t.Errorf("unit %s, entry %d: %v, want %v", unit, i, float64(v)/float64(q.Bound), want[i])
			}
		}
	}
}

// A unit moves gradients and second derivatives by an L2 norm of at most the bound each,
// whatever its records, the coefficients and the units of the features.
func TestAUnitMovesALogisticSumByAtMostTheBound(t *testing.T) {
	c := smallConfig(t, 2)
	c.Unit = "who"
	others := rowsOf(t, "who", everyUnit)
	rng := rand.New(rand.NewPCG(5, 6))
	for name, unit := range map[string]func(i int) []float64{
		"one record": func(int) []float64 { return []float64{1, 1, 2, 1} },
		"400 alike":  func(int) []float64 { return []float64{1, 1, 2, 1} },
		"200 at random": func(int) []float64 {
			return []float64{rng.Float64(), float64(rng.IntN(2)), float64(rng.IntN(3)), float64(rng.IntN(2))}
		},
	} {
		records := 1
		_, _ = fmt.Sscanf(name, "%d", &records)
		table := others.Subset(byNumber(others.Len()))
		for i := range records {
			testkit.Must(t, table.Append(append([]float64{math.NaN()}, unit(i)...), "adversary"))
		}
		without := start(t, c, others)
		with := withKeyOf(t, without, table)
		largest := 0.0
		for _, spread := range []float64{0, 1e-300, 1, 1e3, -1e3, 1e300, -1e300} {
			for _, bound := range []uint64{1, 1 << 8, ratio.FinestBound} {
				for _, scale := range []float32{1e-38, 1, 3e38} {
					r := logisticRound(1, spread, func(q *conclavev1.LogisticSum) {
						q.Bound = bound
						for i := range q.Features.Scale {
							q.Features.Scale[i] *= scale / 4
						}
					})
					a, b := discriminatorSumOf(t, without, r), discriminatorSumOf(t, with, r)
					var gradient, hessian float64
					for i := range a {
						d := float64(a[i] - b[i])
						if i < ratioWidth+1 {
							gradient = math.Hypot(gradient, d)
						} else {
							hessian = math.Hypot(hessian, d)
						}
					}
					if most := float64(bound) * (1 + 1e-12); gradient > most || hessian > most {
						t.Fatalf("%s, spread %v, scale %v: moved by %v and %v of %d", name, spread, scale, gradient, hessian, bound)
					}
					largest = max(largest, gradient/float64(bound))
				}
			}
		}
		if largest < 0.9 {
			t.Errorf("%s: moved by %v of the bound at most; the test sees no long gradients", name, largest)
		}
	}
}

// The baseline takes part without its records.
func TestLogisticSumsOfNothing(t *testing.T) {
	n := sites(t, partition.UnitRecord, 1)[0]
	for i, v := range discriminatorSumOf(t, n, logisticRound(1, 1, func(q *conclavev1.LogisticSum) { q.Nothing = true })) {
		if v != 0 {
			t.Fatalf("entry %d is %d", i, v)
		}
	}
}

// badLogistics are questions that no node answers.
func badLogistics() map[string]struct {
	change func(q *conclavev1.LogisticSum)
	want   string
} {
	type bad = struct {
		change func(q *conclavev1.LogisticSum)
		want   string
	}
	nan, inf := math.NaN(), math.Inf(1)
	return map[string]bad{
		"no features":            {func(q *conclavev1.LogisticSum) { q.Features = nil }, "does not describe its features"},
		"no units":               {func(q *conclavev1.LogisticSum) { q.Features.Mean = nil }, "features in units of 0 numbers; the schema has 7 with its classes"},
		"a mean less":            {func(q *conclavev1.LogisticSum) { q.Features.Mean = q.Features.Mean[1:] }, "features in units of 6 numbers"},
		"a scale less":           {func(q *conclavev1.LogisticSum) { q.Features.Scale = q.Features.Scale[1:] }, "7 means and 6 scales"},
		"a mean of NaN":          {func(q *conclavev1.LogisticSum) { q.Features.Mean[2] = float32(nan) }, "number 2 has mean NaN"},
		"an infinite mean":       {func(q *conclavev1.LogisticSum) { q.Features.Mean[6] = float32(inf) }, "number 6 has mean +Inf"},
		"a scale of 0":           {func(q *conclavev1.LogisticSum) { q.Features.Scale[0] = 0 }, "number 0"},
		"a scale below 0":        {func(q *conclavev1.LogisticSum) { q.Features.Scale[0] = -1 }, "scale -1"},
		"a scale of NaN":         {func(q *conclavev1.LogisticSum) { q.Features.Scale[0] = float32(nan) }, "scale NaN"},
		"clip 0":                 {func(q *conclavev1.LogisticSum) { q.Features.Clip = 0 }, "clip is 0"},
		"a clip of NaN":          {func(q *conclavev1.LogisticSum) { q.Features.Clip = nan }, "clip is NaN"},
		"a huge clip":            {func(q *conclavev1.LogisticSum) { q.Features.Clip = 1e300 }, "clip is 1e+300"},
		"no bound":               {func(q *conclavev1.LogisticSum) { q.Bound = 0 }, "bound is 0"},
		"a large bound":          {func(q *conclavev1.LogisticSum) { q.Bound = ratio.FinestBound + 1 }, "bound of a fit is 68719476737"},
		"an absurd bound":        {func(q *conclavev1.LogisticSum) { q.Bound = math.MaxUint64 }, "bound of a fit is 18446744073709551615"},
		"no coefficients":        {func(q *conclavev1.LogisticSum) { q.Coefficients = nil }, "0 coefficients for 9 features"},
		"a coefficient less":     {func(q *conclavev1.LogisticSum) { q.Coefficients = q.Coefficients[1:] }, "8 coefficients for 9 features"},
		"a coefficient of NaN":   {func(q *conclavev1.LogisticSum) { q.Coefficients[3] = nan }, "coefficient 3 is not finite"},
		"an infinite coeffcient": {func(q *conclavev1.LogisticSum) { q.Coefficients[8] = -inf }, "coefficient 8 is not finite"},
	}
}

// What cannot be answered is refused with a reason. What a fit's features cannot be is found
// before a run is open.
func TestLogisticQuestionsAreChecked(t *testing.T) {
	c := smallConfig(t, 3)
	table := smallTable(t, 60, 1)
	n := start(t, c, table)
	c.State = t.TempDir()
	site, err := NewSite(c, table)
	testkit.Must(t, err)
	fit := func(f *conclavev1.RatioFeatures) *conclavev1.Round {
		return &conclavev1.Round{Run: "r", Question: &conclavev1.Round_Fit{Fit: &conclavev1.Fit{Features: f}}}
	}
	if err := site.CheckRound(fit(ratioOf(true))); err != nil {
		t.Errorf("good features: %v", err)
	}
	for name, c := range badLogistics() {
		r := logisticRound(1, 1, c.change)
		if got := ask(t, n, r).GetRefusal().GetReason(); !strings.Contains(got, c.want) {
			t.Errorf("%s: refused with %q, want %q", name, got, c.want)
		}
		if q := r.GetSum().GetLogistic(); !strings.Contains(c.want, "coefficient") && !strings.Contains(c.want, "bound") {
			if err := site.CheckRound(fit(q.Features)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: checked as %v, want %q", name, err, c.want)
			}
		}
	}
	// What only the aggregator is asked is not answered.
	for name, r := range map[string]*conclavev1.Round{
		"a fit":       fit(ratioOf(false)),
		"a selection": {Run: "r", Question: &conclavev1.Round_Selection{Selection: &conclavev1.Selection{}}},
	} {
		if got := ask(t, n, r).GetRefusal().GetReason(); !strings.Contains(got, "of a kind this node does not know") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// checkLogisticSum checks that there is a number for each derivative, within their bounds.
func checkLogisticSum(t *testing.T, n *Node, todo task, asked *conclavev1.LogisticSum, s *conclavev1.Sum) {
	t.Helper()
	width := len(asked.GetCoefficients())
	if s.Run != todo.run || s.Round != todo.round || width == 0 || len(s.Values) != width+ratio.Triangle(width) {
		t.Fatalf("%d sums of round %d of %q for %d coefficients", len(s.Values), s.Round, s.Run, width)
	}
	var gradient, hessian float64
	for i, v := range s.Values {
		if i < width {
			gradient = math.Hypot(gradient, float64(v))
		} else {
			hessian = math.Hypot(hessian, float64(v))
		}
	}
	most := float64(len(n.units)) * float64(asked.GetBound()) * (1 + 1e-9)
	if asked.GetNothing() {
		most = 0
	}
	if gradient > most || hessian > most {
		t.Fatalf("sums of length %v and %v by %d units with bound %d", gradient, hessian, len(n.units), asked.GetBound())
	}
}
