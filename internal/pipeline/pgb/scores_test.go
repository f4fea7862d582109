package pgb

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/discriminator/discriminatortest"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// scores asks for the scores of discriminators of SmallSchema.
func scores(bound uint64, spread float64, changes ...discriminatortest.Change) *conclavev1.ScoreSum {
	s := &conclavev1.ScoreSum{Bound: bound}
	for i, change := range changes {
		s.Discriminators = append(s.Discriminators, scoredOf(discriminatortest.Question(uint64(i)+1, spread, change)))
	}
	return s
}

// together is a question whose sums get noise.
func together(q *conclavev1.ScoreSum) *conclavev1.ScoreSum {
	q.Together = true
	return q
}

// scoredOf is a discriminator in the form that asks for its gradients.
func scoredOf(q *conclavev1.DiscriminatorSum) *conclavev1.ScoreSum_Scored {
	return &conclavev1.ScoreSum_Scored{
		Discriminator: q.Discriminator, Weights: q.Weights, Mean: q.Mean, Scale: q.Scale,
	}
}

// scorable returns the discriminators that can be asked for scores, in a fixed order.
func scorable() (changes []discriminatortest.Change) {
	all := discriminatortest.Networks()
	for _, name := range []string{
		"each", "told", "linear", "two layers", "standard", "standard told", "pieces", "fourier",
	} {
		changes = append(changes, all[name])
	}
	return changes
}

func cases() questiontest.Cases {
	two := scorable()[:2]
	c := questiontest.Cases{
		Good: map[string]proto.Message{
			"all":       scores(1<<16, 0.7, scorable()...),
			"coarse":    scores(1<<8, 0.7, scorable()...),
			"fine":      scores(1<<20, 0.7, scorable()...),
			"two":       scores(1<<16, 0.5, two...),
			"the first": scores(1<<16, 0.5, two[:1]...),
			"together":  together(scores(1<<16, 0.7, scorable()...)),
		},
		Zeros:       map[string]proto.Message{},
		Bad:         map[string]questiontest.Bad{},
		Adversaries: questiontest.Adversaries(),
	}
	nothing := scores(1<<16, 0.7, scorable()...)
	nothing.Nothing = true
	c.Zeros["nothing"] = nothing
	bad := func(name, want string, change func(q *conclavev1.ScoreSum)) {
		q := scores(1<<16, 0.5, two...)
		change(q)
		c.Bad[name] = questiontest.Bad{Params: q, Want: want}
	}
	bad("no bound", "bound of scores is 0; use 256 to 1048576", func(q *conclavev1.ScoreSum) { q.Bound = 0 })
	bad("small bound", "bound of scores is 255", func(q *conclavev1.ScoreSum) { q.Bound = 1<<8 - 1 })
	bad("large bound", "bound of scores is 1048577", func(q *conclavev1.ScoreSum) { q.Bound = 1<<20 + 1 })
	bad("absurd bound", "bound of scores is 18446744073709551615",
		func(q *conclavev1.ScoreSum) { q.Bound = math.MaxUint64 })
	bad("no discriminators", "the scores of 0 discriminators", func(q *conclavev1.ScoreSum) { q.Discriminators = nil })
	bad("too many", "the scores of 8192 discriminators; ask for 1 to 4096", func(q *conclavev1.ScoreSum) {
		q.Discriminators = slices.Repeat(q.Discriminators, maxScored)
	})
	good := discriminatortest.Question(1, 0.5, nil)
	for name, spoiled := range discriminatortest.Spoiled() {
		q := discriminatortest.Question(1, 0.5, spoiled.Change)
		if q.Clip != good.Clip || q.Bound != good.Bound || q.Rate != good.Rate || q.Loss != good.Loss {
			continue // of what scores do not have
		}
		bad("second: "+name, spoiled.Want, func(s *conclavev1.ScoreSum) { s.Discriminators[1] = scoredOf(q) })
	}
	for _, spread := range []float64{0, 1e-20, 0.5, 30, 1e6, 1e19, 3e37} {
		for _, bound := range []uint64{1 << 8, 1 << 16, 1 << 20} {
			c.Bounds = append(c.Bounds, scores(bound, spread, scorable()...),
				together(scores(bound, spread, scorable()...)))
		}
	}
	return c
}

// A unit's records change each sum by at most the bound, for any number and values of records and any weights.
// With extreme scores, and one record per unit, the change is the whole bound.
func TestScoreSumIsAKind(t *testing.T) {
	c, farthest := cases(), 0.0
	if len(c.Bad) < 30 {
		t.Fatalf("only %d questions are refused", len(c.Bad))
	}
	c.Moved = func(_ testing.TB, a questiontest.Adversary, params proto.Message, distance float64) {
		if q := params.(*conclavev1.ScoreSum); a.Records == 1 && q.Bound == 1<<8 && !q.Together {
			farthest = max(farthest, distance)
		}
	}
	questiontest.Run(t, ScoreSum, c)
	if farthest != 1<<8 {
		t.Errorf("one record moved a sum by %v of 256 at most; the test sees no large scores", farthest)
	}
}

func FuzzScoreSum(f *testing.F) { questiontest.Fuzz(f, ScoreSum, cases()) }

// A refusal names the discriminator.
func TestRefusalsNameTheDiscriminator(t *testing.T) {
	p := question.NewPublic(questiontest.Schema(t, questiontest.SmallSchema, partition.UnitRecord), 2, 1)
	for name, bad := range cases().Bad {
		_, err := ScoreSum.Read(p, question.Marshal(bad.Params))
		if err == nil || strings.HasPrefix(name, "second") && !strings.HasPrefix(err.Error(), "discriminator 2: ") {
			t.Errorf("%s: refused with %q", name, err)
		}
	}
}

// A score is 2 p - 1 of the discriminator's own probability, the mean over a unit's records, up to rounding:
// half a step for each record, and the rounding of bound/k.
func TestScoreSumsAreThoseOfOneMachine(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		for _, bound := range []float64{1 << 8, 1 << 20} {
			s := questiontest.Site(t, questiontest.SmallUnits(t, unit, 60, func(int) bool { return true }), 2)
			q := scores(uint64(bound), 0.7, scorable()...)
			got := questiontest.Sum(t, s, ScoreSum, q)
			if len(got) != len(scorable()) || slices.Contains(got, 0) {
				t.Fatalf("unit %s: sums %v", unit, got)
			}
			for j, d := range q.Discriminators {
				want, off := scoresByHand(t, s, d, bound)
				if math.Abs(float64(got[j])-want) > off {
					t.Errorf("unit %s, discriminator %d: %d, want %v within %v", unit, j+1, got[j], want, off)
				}
			}
		}
	}
}

// scoresByHand returns the sum of the scores of one discriminator, and the allowed error of a sum of whole
// numbers.
func scoresByHand(t *testing.T, s *question.Site, d *conclavev1.ScoreSum_Scored, bound float64) (sum, off float64) {
	t.Helper()
	net, err := scored(s.Public, d)
	testkit.Must(t, err)
	for _, records := range s.Units {
		for _, r := range records {
			score := float64(net.Scores(slices.Clone(s.Record(r)), []int{r.Class})[0])
			sum += bound * (2/(1+math.Exp(-score)) - 1) / float64(len(records))
		}
		off += 1.5 * float64(len(records))
	}
	return sum, off + 1e-5*bound // float32 in batches of other sizes
}

// A score that is NaN adds nothing; infinite scores are the ends of the range.
func TestStepsOfAScore(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		score float32
		most  int64
		want  int64
	}{
		{nan, 1000, 0}, {inf, 1000, 1000}, {-inf, 1000, -1000}, {0, 1000, 0}, {100, 1000, 1000}, {-100, 7, -7},
		{1, 1000, 462}, {-1, 1000, -462}, {inf, 0, 0}, {1, 0, 0},
	} {
		if got := scoreSteps(c.score, c.most); got != c.want {
			t.Errorf("scoreSteps(%v, %d) = %d, want %d", c.score, c.most, got, c.want)
		}
	}
}

// Aggregators accept the common bound for any number of scores.
func TestTogetherBound(t *testing.T) {
	for n := 1; n <= maxScored; n++ {
		bound := togetherBound(n)
		if got := scoreShape(n, int64(bound), true).Sum.Bound; bound < question.MinBound || got > question.MaxBound {
			t.Fatalf("%d scores: %d steps each, %d together", n, bound, got)
		}
	}
}
