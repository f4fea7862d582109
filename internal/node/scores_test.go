package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// scoreRound asks for the scores of discriminators of smallSchema as they are asked for
// their gradients.
func scoreRound(number, bound uint64, spread float64, changes ...func(q *conclavev1.DiscriminatorSum)) *conclavev1.Round {
	s := &conclavev1.ScoreSum{Bound: bound}
	for i, change := range changes {
		q := discriminatorRound("r", uint64(i)+1, spread, change).GetSum().GetDiscriminator()
		s.Discriminators = append(s.Discriminators, &conclavev1.ScoreSum_Scored{
			Discriminator: q.Discriminator, Weights: q.Weights, Mean: q.Mean, Scale: q.Scale,
		})
	}
	return scoresAsked(number, s)
}

func scoresAsked(number uint64, s *conclavev1.ScoreSum) *conclavev1.Round {
	return &conclavev1.Round{Run: "r", Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Scores{Scores: s},
	}}}
}

// scorable are the discriminators that are asked for scores, in an order that stays.
func scorable() (changes []func(q *conclavev1.DiscriminatorSum)) {
	all := discriminators()
	for _, name := range []string{"each", "told", "linear", "two layers", "standard", "standard told", "pieces", "fourier"} {
		changes = append(changes, all[name])
	}
	return changes
}

// The sums do not depend on how many nodes the units are divided among, not in their last
// step: a unit's score is rounded by itself.
func TestScoreSumsDoNotDependOnTheNumberOfNodes(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, "who"} {
		one, two, seven := sites(t, unit, 1), sites(t, unit, 2), sites(t, unit, 7)
		for _, bound := range []uint64{1 << 8, 1 << 20} {
			r := scoreRound(0, bound, 0.7, scorable()...)
			want := addedUp(t, one, r)
			if len(want) != len(scorable()) || slices.Contains(want, 0) {
				t.Fatalf("unit %s: sums %v", unit, want)
			}
			for _, nodes := range [][]*Node{two, seven} {
				if got := addedUp(t, nodes, r); !slices.Equal(got, want) {
					t.Errorf("unit %s: %d nodes add up to %v, one to %v", unit, len(nodes), got, want)
				}
			}
		}
	}
}

// A score is 2 p - 1 of the discriminator's own probability, the mean over a unit's records,
// to within the steps that rounding takes: half a step of each record, and what bound/k
// falls short of.
func TestScoreSumsAreThoseOfOneMachine(t *testing.T) {
	const bound = 1 << 20
	for _, unit := range []string{partition.UnitRecord, "who"} {
		n := sites(t, unit, 1)[0]
		r := scoreRound(0, bound, 0.7, scorable()...)
		got := discriminatorSumOf(t, n, r)
		for j, d := range r.GetSum().GetScores().Discriminators {
			testkit.Must(t, n.scoreWith(d))
			var want, off float64
			for u := range n.units {
				records := recordsOf(n, u)
				for _, rec := range records {
					score := float64(n.scored.net.Scores(slices.Clone(rec.x), []int{rec.class})[0])
					want += bound * (2/(1+math.Exp(-score)) - 1) / float64(len(records))
				}
				off += 1.5 * float64(len(records))
			}
			if off += 1e-5 * bound; math.Abs(float64(got[j])-want) > off { // float32 in batches of other sizes
				t.Errorf("unit %s, discriminator %d: %d, want %v within %v", unit, j+1, got[j], want, off)
			}
		}
	}
}

// A unit's records move each sum by no more than the bound, whatever and however many they
// are and whatever the weights. Where scores are beyond all measure and one record is all,
// they move it by the whole bound.
func TestAUnitMovesAScoreSumByAtMostTheBound(t *testing.T) {
	c := smallConfig(t, 2)
	c.Unit = "who"
	others := rowsOf(t, "who", everyUnit)
	rng := rand.New(rand.NewPCG(3, 4))
	for name, unit := range map[string]func(i int) []float64{
		"one record": func(int) []float64 { return []float64{1, 1, 2, 1} },
		"700 alike":  func(int) []float64 { return []float64{1, 1, 2, 1} },
		"300 of corners": func(i int) []float64 {
			return []float64{float64(i & 1), float64(i >> 1 & 1), float64(i % 3), float64(i >> 2 & 1)}
		},
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
		moved := int64(0)
		for _, spread := range []float64{0, 1e-20, 0.5, 30, 1e6, 1e19, 3e37} {
			for _, bound := range []uint64{1 << 8, 1 << 16, 1 << 20} {
				r := scoreRound(0, bound, spread, scorable()...)
				a, b := discriminatorSumOf(t, without, r), discriminatorSumOf(t, with, r)
				for j := range a {
					d := max(a[j]-b[j], b[j]-a[j])
					if d > int64(bound) {
						t.Fatalf("%s, spread %v: sum %d moved by %d of %d", name, spread, j, d, bound)
					}
					if bound == 1<<8 {
						moved = max(moved, d)
					}
				}
			}
		}
		if records == 1 && moved != 1<<8 {
			t.Errorf("%s: moved by %d of 256 at most; the test sees no large scores", name, moved)
		}
	}
}

// A score that is no number adds nothing, infinite ones are the ends of the range.
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
		if got := steps(c.score, c.most); got != c.want {
			t.Errorf("steps(%v, %d) = %d, want %d", c.score, c.most, got, c.want)
		}
	}
}

// The baseline takes part without its records.
func TestScoresOfNothing(t *testing.T) {
	n := sites(t, partition.UnitRecord, 1)[0]
	r := scoreRound(0, 1<<16, 0.7, scorable()...)
	r.GetSum().GetScores().Nothing = true
	if got := discriminatorSumOf(t, n, r); !slices.Equal(got, make([]int64, len(scorable()))) {
		t.Errorf("sums %v", got)
	}
}

// badScores are questions that no node answers.
func badScores() map[string]struct {
	change func(q *conclavev1.ScoreSum)
	want   string
} {
	type bad = struct {
		change func(q *conclavev1.ScoreSum)
		want   string
	}
	all := map[string]bad{
		"no bound":          {func(q *conclavev1.ScoreSum) { q.Bound = 0 }, "bound of scores is 0; use 256 to 1048576"},
		"small bound":       {func(q *conclavev1.ScoreSum) { q.Bound = 1<<8 - 1 }, "bound of scores is 255"},
		"large bound":       {func(q *conclavev1.ScoreSum) { q.Bound = 1<<20 + 1 }, "bound of scores is 1048577"},
		"absurd bound":      {func(q *conclavev1.ScoreSum) { q.Bound = math.MaxUint64 }, "bound of scores is 18446744073709551615"},
		"no discriminators": {func(q *conclavev1.ScoreSum) { q.Discriminators = nil }, "the scores of 0 discriminators"},
		"too many": {func(q *conclavev1.ScoreSum) { q.Discriminators = slices.Repeat(q.Discriminators, maxScored) },
			"the scores of 8192 discriminators; ask for 1 to 4096"},
	}
	for name, b := range badDiscriminators() {
		q := discriminatorRound("r", 1, 0.5, b.change).GetSum().GetDiscriminator()
		good := discriminatorRound("r", 1, 0.5, nil).GetSum().GetDiscriminator()
		if q.Clip != good.Clip || q.Bound != good.Bound || q.Rate != good.Rate || q.Loss != good.Loss {
			continue // of what scores do not have
		}
		all["second: "+name] = bad{func(s *conclavev1.ScoreSum) {
			s.Discriminators[1] = &conclavev1.ScoreSum_Scored{Discriminator: q.Discriminator, Weights: q.Weights, Mean: q.Mean, Scale: q.Scale}
		}, b.want}
	}
	return all
}

// What cannot be answered is refused with a reason that names the discriminator, and found
// before a run is open.
func TestScoreQuestionsAreChecked(t *testing.T) {
	c := smallConfig(t, 3)
	table := smallTable(t, 60, 1)
	n := start(t, c, table)
	c.State = t.TempDir()
	site, err := NewSite(c, table)
	testkit.Must(t, err)
	two := scorable()[:2]
	if err := site.CheckRound(scoreRound(1, 1<<16, 0.5, two...)); err != nil {
		t.Errorf("a good question: %v", err)
	}
	bad := badScores()
	if len(bad) < 30 {
		t.Fatalf("only %d questions", len(bad))
	}
	for name, c := range bad {
		r := scoreRound(1, 1<<16, 0.5, two...)
		c.change(r.GetSum().GetScores())
		got := ask(t, n, r).GetRefusal().GetReason()
		if !strings.Contains(got, c.want) || strings.HasPrefix(name, "second") && !strings.Contains(got, "discriminator 2: ") {
			t.Errorf("%s: refused with %q, want %q", name, got, c.want)
		}
		if err := site.CheckRound(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: checked as %v, want %q", name, err, c.want)
		}
	}
	// After all of them, and after another network was asked for, scores are what they were.
	r := scoreRound(1, 1<<16, 0.5, two...)
	before := discriminatorSumOf(t, n, r)
	discriminatorSumOf(t, n, discriminatorRound("r", 2, 0.5, discriminators()["fourier"]))
	if again := discriminatorSumOf(t, n, r); !slices.Equal(again, before) {
		t.Errorf("asked again: %v, before %v", again, before)
	}
}

// checkScoreSum checks that there is a sum for each discriminator within its bound.
func checkScoreSum(t *testing.T, n *Node, todo task, asked *conclavev1.ScoreSum, s *conclavev1.Sum) {
	t.Helper()
	most := int64(len(n.units)) * int64(asked.GetBound())
	if asked.GetNothing() {
		most = 0
	}
	if s.Run != todo.run || s.Round != todo.round || len(s.Values) != len(asked.GetDiscriminators()) || len(s.Values) == 0 {
		t.Fatalf("%d sums of round %d of %q for %d discriminators", len(s.Values), s.Round, s.Run, len(asked.GetDiscriminators()))
	}
	for _, v := range s.Values {
		if v > most || v < -most {
			t.Fatalf("a sum of %d by %d units with bound %d", v, len(n.units), asked.GetBound())
		}
	}
}
