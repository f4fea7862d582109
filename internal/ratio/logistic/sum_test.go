package logistic

import (
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ratioWidth is the width of the features of SmallSchema with its two classes, without squares; only x has one.
const ratioWidth = 1 + questiontest.SmallFeatures + 2

// ratioOf are features of SmallSchema in some units.
func ratioOf(squares bool) *conclavev1.RatioFeatures {
	f := &conclavev1.RatioFeatures{Squares: squares, Clip: 2.5}
	for i := range questiontest.SmallFeatures + 2 {
		f.Mean, f.Scale = append(f.Mean, 0.1*float32(i)), append(f.Scale, 1+0.2*float32(i))
	}
	return f
}

// pass asks for the derivatives at coefficients of this spread.
func pass(seed uint64, spread float64, change func(q *conclavev1.LogisticSum)) *conclavev1.LogisticSum {
	q := &conclavev1.LogisticSum{Features: ratioOf(true), Bound: ratio.FinestBound}
	rng := rand.New(rand.NewPCG(seed, 29))
	for range ratioWidth + 1 {
		q.Coefficients = append(q.Coefficients, spread*rng.NormFloat64())
	}
	if change != nil {
		change(q)
	}
	return q
}

func cases() questiontest.Cases {
	all := questiontest.Adversaries()
	c := questiontest.Cases{
		Good: map[string]proto.Message{
			"0": pass(0, 0.8, nil), "1": pass(1, 0.8, nil), "2": pass(2, 0.8, nil),
			"coarse": pass(1, 0.8, func(q *conclavev1.LogisticSum) { q.Bound = 1 << 8 }),
		},
		Zeros: map[string]proto.Message{
			"nothing": pass(1, 1, func(q *conclavev1.LogisticSum) { q.Nothing = true }),
		},
		Bad:         map[string]questiontest.Bad{},
		Adversaries: []questiontest.Adversary{all[0], all[1], all[3]},
		// Gradients decide the release; curvature is rounded once per node.
		PerNode: func(v *question.Vector) int { return v.Blocks[2] },
	}
	type sum = *conclavev1.LogisticSum
	nan, inf := math.NaN(), math.Inf(1)
	for name, bad := range map[string]struct {
		want   string
		change func(q sum)
	}{
		"no features": {"does not describe its features", func(q sum) { q.Features = nil }},
		"no units": {"features in units of 0 numbers; the schema has 7 with its classes",
			func(q sum) { q.Features.Mean = nil }},
		"a mean less": {"features in units of 6 numbers",
			func(q sum) { q.Features.Mean = q.Features.Mean[1:] }},
		"a scale less":     {"7 means and 6 scales", func(q sum) { q.Features.Scale = q.Features.Scale[1:] }},
		"a mean of NaN":    {"number 2 has mean NaN", func(q sum) { q.Features.Mean[2] = float32(nan) }},
		"an infinite mean": {"number 6 has mean +Inf", func(q sum) { q.Features.Mean[6] = float32(inf) }},
		"a scale of 0":     {"number 0", func(q sum) { q.Features.Scale[0] = 0 }},
		"a scale below 0":  {"scale -1", func(q sum) { q.Features.Scale[0] = -1 }},
		"a scale of NaN":   {"scale NaN", func(q sum) { q.Features.Scale[0] = float32(nan) }},
		"clip 0":           {"clip is 0", func(q sum) { q.Features.Clip = 0 }},
		"a clip of NaN":    {"clip is NaN", func(q sum) { q.Features.Clip = nan }},
		"a huge clip":      {"clip is 1e+300", func(q sum) { q.Features.Clip = 1e300 }},
		"no bound":         {"bound is 0", func(q sum) { q.Bound = 0 }},
		"a large bound":    {"bound of a fit is 68719476737", func(q sum) { q.Bound = ratio.FinestBound + 1 }},
		"an absurd bound":  {"bound of a fit is 18446744073709551615", func(q sum) { q.Bound = math.MaxUint64 }},
		"no coefficients":  {"0 coefficients for 9 features", func(q sum) { q.Coefficients = nil }},
		"a coefficient less": {"8 coefficients for 9 features",
			func(q sum) { q.Coefficients = q.Coefficients[1:] }},
		"a coefficient of NaN":   {"coefficient 3 is not finite", func(q sum) { q.Coefficients[3] = nan }},
		"an infinite coeffcient": {"coefficient 8 is not finite", func(q sum) { q.Coefficients[8] = -inf }},
	} {
		c.Bad[name] = questiontest.Bad{Params: pass(1, 1, bad.change), Want: bad.want}
	}
	for _, spread := range []float64{0, 1e-300, 1, 1e3, -1e3, 1e300, -1e300} {
		for _, bound := range []uint64{1, 1 << 8, ratio.FinestBound} {
			for _, scale := range []float32{1e-38, 1, 3e38} {
				c.Bounds = append(c.Bounds, pass(1, spread, func(q *conclavev1.LogisticSum) {
					q.Bound = bound
					for i := range q.Features.Scale {
						q.Features.Scale[i] *= scale / 4
					}
				}))
			}
		}
	}
	return c
}

// A unit moves gradients and second derivatives by an L2 norm of at most the bound each,
// whatever its records, the coefficients and the units of the features. Long gradients reach it.
func TestSumIsAKind(t *testing.T) {
	c, longest := cases(), map[string]float64{}
	c.Moved = func(_ testing.TB, a questiontest.Adversary, params proto.Message, distance float64) {
		longest[a.Name] = max(longest[a.Name], distance/float64(params.(*conclavev1.LogisticSum).Bound))
	}
	questiontest.Run(t, Sum, c)
	for _, a := range c.Adversaries {
		if longest[a.Name] < 0.9 {
			t.Errorf("%s: moved by %v of the bound at most; the test sees no long gradients", a.Name, longest[a.Name])
		}
	}
}

func FuzzSum(f *testing.F) { questiontest.Fuzz(f, Sum, cases()) }

// The sums are those of a logistic loss, the mean over a unit's records, to within rounding.
func TestSumsAreThoseOfOneMachine(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		s := questiontest.Site(t, questiontest.SmallUnits(t, unit, 60, func(int) bool { return true }), 2)
		q := pass(1, 0.8, nil)
		got := questiontest.Sum(t, s, Sum, q)
		if len(got) != ratioWidth+1+1+ratio.Triangle(ratioWidth+1) || got[0] >= 0 || got[ratioWidth+2] <= 0 ||
			got[ratioWidth+1] != int64(len(s.Units)) {
			t.Fatalf("unit %s: sums %v", unit, got)
		}
		f, err := features(s.Public, q.Features)
		testkit.Must(t, err)
		d, clip := f.Width(), f.Clip()
		want, x := make([]float64, len(got)), make([]float64, d)
		for _, records := range s.Units {
			for _, r := range records {
				f.At(x, s.Record(r), r.Class)
				score := 0.0
				for i, v := range x {
					score += v * q.Coefficients[i]
				}
				p, at := 1/(1+math.Exp(-score)), d+1
				for i := range d {
					want[i] += (p - 1) * x[i] / clip / float64(len(records))
					for j := i; j < d; j++ {
						want[at] += p * (1 - p) * x[i] * x[j] / (clip * clip) / float64(len(records))
						at++
					}
				}
			}
		}
		want[d] = float64(len(s.Units)) / float64(q.Bound)
		for i, v := range got {
			if math.Abs(float64(v)/float64(q.Bound)-want[i]) > 1e-9 {
				t.Errorf("unit %s, entry %d: %v, want %v", unit, i, float64(v)/float64(q.Bound), want[i])
			}
		}
	}
}
