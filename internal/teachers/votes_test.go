package teachers

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	relativeVote   = conclavev1.TeacherSpec_VOTE_RELATIVE
	calibratedVote = conclavev1.TeacherSpec_VOTE_CALIBRATED
	plainVote      = conclavev1.TeacherSpec_VOTE_PLAIN
	coinVote       = conclavev1.TeacherSpec_VOTE_COIN
)

// repeatScores gives each of many teachers the same scores.
func repeatScores(scores []float32, teachers int) []float32 {
	var all []float32
	for range teachers {
		all = append(all, scores...)
	}
	return all
}

// shares returns the share of teachers that called each query real.
func shares(votes []uint8, queries int) []float64 {
	out := make([]float64, queries)
	for i, v := range votes {
		out[i%queries] += float64(v)
	}
	for q := range out {
		out[q] /= float64(len(votes) / queries)
	}
	return out
}

// drawScores makes scores with ties and queries of up to three classes, some of
// which may have none.
func drawScores(t *rapid.T) (scores []float32, classes []int, teachers int) {
	teachers = rapid.IntRange(1, 5).Draw(t, "teachers")
	classes = rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 2}), 1, 20).Draw(t, "classes")
	value := rapid.SampledFrom([]float32{-2, -0.5, 0, 0.25, 1, 30, float32(math.Inf(1)), float32(math.NaN())})
	scores = rapid.SliceOfN(value, teachers*len(classes), teachers*len(classes)).Draw(t, "scores")
	return scores, classes, teachers
}

// Whatever the scores, a rule casts one vote of 0 or 1 per teacher and query, the same when it is
// asked again, and leaves the scores alone. A teacher's votes do not depend on the scores of
// another one: its records move one vote of each histogram.
func TestEveryRuleCastsOneVoteOfItsOwnScores(t *testing.T) {
	for _, vote := range []conclavev1.TeacherSpec_Vote{relativeVote, calibratedVote, plainVote, coinVote} {
		t.Run(vote.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				scores, classes, teachers := drawScores(t)
				seed, round := rapid.Uint64().Draw(t, "seed"), rapid.Uint64Range(0, 1<<31).Draw(t, "round")
				before, q := fmt.Sprint(scores), len(classes)
				votes := castVotes(vote, seed, round, scores, classes)
				if len(votes) != teachers*q {
					t.Fatalf("%d votes of %d teachers on %d queries", len(votes), teachers, q)
				}
				for i, v := range votes {
					if v != voteFake && v != voteReal {
						t.Fatalf("vote %d is %d", i, v)
					}
				}
				if again := castVotes(vote, seed, round, scores, classes); !slices.Equal(votes, again) {
					t.Fatalf("asked again: %v, before: %v", again, votes)
				}
				if fmt.Sprint(scores) != before {
					t.Fatal("the scores were changed")
				}
				changed := rapid.IntRange(0, teachers-1).Draw(t, "changed")
				for i := range q {
					scores[changed*q+i] = float32(rapid.IntRange(-3, 3).Draw(t, "score"))
				}
				after := castVotes(vote, seed, round, scores, classes)
				for i := range teachers {
					if i != changed && rowText(votes, i, q) != rowText(after, i, q) {
						t.Fatalf("teacher %d changed its votes with the scores of teacher %d", i, changed)
					}
				}
			})
		})
	}
}

// Relative votes are balanced in each class whatever the level of the scores,
// and no query voted fake has a higher score than one of its class voted real.
func TestRelativeVotesAreBalancedAroundTheTeachersMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores, classes, teachers := drawScores(t)
		q := len(classes)
		votes := castVotes(relativeVote, rapid.Uint64().Draw(t, "seed"), 1, scores, classes)
		for i := range teachers {
			row, s := votes[i*q:(i+1)*q], scores[i*q:(i+1)*q]
			for class := range 3 {
				n, real, lowest, highest := 0, 0, math.Inf(1), math.Inf(-1)
				for j, c := range classes {
					if c != class {
						continue
					}
					n++
					score := float64(s[j])
					if math.IsNaN(score) {
						score = math.Inf(-1) // never better than another
					}
					if row[j] == voteReal {
						real++
						lowest = min(lowest, score)
					} else {
						highest = max(highest, score)
					}
				}
				if real != n/2 && real != (n+1)/2 {
					t.Fatalf("teacher %d, class %d: %d of %d queries voted real", i, class, real, n)
				}
				if highest > lowest {
					t.Fatalf("teacher %d, class %d: a query of score %v is fake, one of %v real",
						i, class, highest, lowest)
				}
			}
		}
	})
}

// With all scores alike chance decides, evenly for every query, also on the
// middle one of an odd number. Falsely fails with a chance below 1e-6: a share
// of 20,000 votes is 5.5 standard deviations from one half, at 9 + 4 places.
func TestRelativeVotesBreakTiesByChance(t *testing.T) {
	const teachers, tolerance = 20_000, 5.5 * 0.5 / 141.42 // root of teachers
	classes := []int{0, 1, 0, 1, 0, 1, 0, 1, 0}            // an odd number of class 0
	votes := castVotes(relativeVote, 3, 4, make([]float32, teachers*len(classes)), classes)
	for q, share := range shares(votes, len(classes)) {
		if math.Abs(share-0.5) > tolerance {
			t.Errorf("query %d is real for a share of %.4f of the teachers, want 0.5 +- %.4f", q, share, tolerance)
		}
	}
	// A tie at the edge of the better half: 2 above, 4 alike, 2 below.
	edge := castVotes(relativeVote, 3, 5, repeatScores([]float32{9, 8, 1, 1, 1, 1, 0, -1}, teachers), make([]int, 8))
	for q, share := range shares(edge, 8) {
		want := []float64{1, 1, 0.5, 0.5, 0.5, 0.5, 0, 0}[q]
		if math.Abs(share-want) > tolerance || (want != 0.5 && share != want) {
			t.Errorf("query %d is real for a share of %.4f of the teachers, want %v", q, share, want)
		}
	}
}

// Falsely fails with a chance below 1e-6: a share of 40,000 votes is 5.5
// standard deviations from its probability at one of 8 queries.
func TestCalibratedVotesFollowTheScores(t *testing.T) {
	const teachers = 40_000
	scores := []float32{-3, -1, 0, 1, 5, 2.5, 2, -0.5} // class 0: the first five, class 1: the rest
	classes := []int{0, 0, 0, 0, 0, 1, 1, 1}
	median := []float64{0, 2}
	for _, level := range []float32{0, 40} { // a teacher's own level must not matter
		all := repeatScores(scores, teachers)
		for i := range all {
			all[i] += level
		}
		got := shares(castVotes(calibratedVote, 11, 2, all, classes), len(scores))
		for q, share := range got {
			p := 1 / (1 + math.Exp(median[classes[q]]-float64(scores[q])))
			if tolerance := 5.5 * math.Sqrt(p*(1-p)/teachers); math.Abs(share-p) > tolerance {
				t.Errorf("level %v, query %d: real for a share of %.4f, want sigmoid(score - median) = %.4f +- %.4f",
					level, q, share, p, tolerance)
			}
		}
	}
	// For an even number the median lies between the middle two.
	got := shares(castVotes(calibratedVote, 11, 2, repeatScores([]float32{-1, 1}, teachers), []int{0, 0}), 2)
	if p := 1 / (1 + math.E); math.Abs(got[0]-p) > 0.0135 || math.Abs(got[1]-(1-p)) > 0.0135 {
		t.Errorf("two queries: shares %v, want %v and %v", got, p, 1-p)
	}
}

func TestPlainVotesAreRealAboveZero(t *testing.T) {
	got := castVotes(plainVote, 1, 1, []float32{-1, 0, 1e-30, 5, float32(math.NaN()), -0.5, 2, 0}, []int{0, 1, 0, 1})
	if want := []uint8{0, 0, 1, 1, 0, 0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("votes %v, want %v", got, want)
	}
}

// Falsely fails with a chance below 1e-6: over 400,000 votes the share of a
// query, and of equal votes on two queries or of two teachers, is 5.5 standard
// deviations from one half, at 8 places.
func TestCoinVotesAreFairAndIndependent(t *testing.T) {
	const teachers, tolerance = 400_000, 5.5 * 0.5 / 632.5 // root of teachers
	votes := castVotes(coinVote, 12, 3, repeatScores([]float32{-30, 30, 0, 1}, teachers), []int{0, 0, 1, 1})
	for q, share := range shares(votes, 4) {
		if math.Abs(share-0.5) > tolerance {
			t.Errorf("query %d: real for a share of %.4f, want one half", q, share)
		}
	}
	// Over the four queries together half the tolerance is left.
	if all := shares(votes, 1)[0]; math.Abs(all-0.5) > tolerance/2 {
		t.Errorf("real for a share of %.4f of all votes, want one half", all)
	}
	same := func(what string, a, b func(i int) uint8) {
		equal := 0.0
		for i := range teachers - 1 {
			if a(i) == b(i) {
				equal += 1.0 / (teachers - 1)
			}
		}
		if math.Abs(equal-0.5) > tolerance {
			t.Errorf("%s agree in a share of %.4f, want one half", what, equal)
		}
	}
	same("two queries", func(i int) uint8 { return votes[4*i] }, func(i int) uint8 { return votes[4*i+1] })
	same("neighbouring teachers", func(i int) uint8 { return votes[4*i] }, func(i int) uint8 { return votes[4*(i+1)] })
	next := castVotes(coinVote, 12, 4, make([]float32, 4*teachers), []int{0, 0, 1, 1})
	same("two rounds", func(i int) uint8 { return votes[4*i] }, func(i int) uint8 { return next[4*i] })
}

// Teachers with the same number on different nodes must not draw alike: the
// noise of their draws would add up over the nodes instead of averaging out.
// Of 400 nodes with one teacher each, whose draws were fair coins, a query has
// 200 +- 10 votes; it falsely fails 5.5 standard deviations off, at 16 places,
// with a chance below 1e-6.
func TestTeachersOfDifferentNodesDrawDifferently(t *testing.T) {
	const nodes, queries = 400, 16
	for _, vote := range []conclavev1.TeacherSpec_Vote{coinVote, calibratedVote, relativeVote} {
		counts := make([]int, queries)
		for i := range nodes {
			seed := teacherstest.Teacher().Seed ^ question.Seed(fmt.Sprintf("site-%d", i/4), fmt.Sprint(i%4))
			for q, v := range castVotes(vote, seed, 9, make([]float32, queries), make([]int, queries)) {
				counts[q] += int(v)
			}
		}
		for q, c := range counts {
			if math.Abs(float64(c)-nodes/2) > 55 {
				t.Errorf("%v: %d of %d nodes with equal scores called query %d real, want about half",
					vote, c, nodes, q)
			}
		}
	}
	// And teachers do use these seeds.
	seeds := map[uint64]bool{}
	for seed := range uint64(3) {
		spec, err := specOf(question.NewPublic(smallSite(t, 2).Schema, 2, seed), teacherstest.Teacher())
		testkit.Must(t, err)
		seeds[spec.Seed] = true
	}
	if len(seeds) != 3 {
		t.Errorf("the teachers of three nodes draw from %d seeds", len(seeds))
	}
}
