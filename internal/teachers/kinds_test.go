package teachers

import (
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// kindsOfTeachers are those that the suite asks, by their names.
func kindsOfTeachers() map[string]func(t *conclavev1.TeacherSpec) {
	const hidden = conclavev1.TeacherSpec_MODEL_HIDDEN
	return map[string]func(t *conclavev1.TeacherSpec){
		"logistic": func(*conclavev1.TeacherSpec) {},
		"standard": func(t *conclavev1.TeacherSpec) { t.Features = standard },
		"hidden":   func(t *conclavev1.TeacherSpec) { t.Model, t.Hidden = hidden, 3 },
		"shared":   func(t *conclavev1.TeacherSpec) { t.Model, t.Hidden, t.Shared = hidden, 4, true },
	}
}

// slow says that teachers learn too long to be asked many times.
func slow(t *conclavev1.TeacherSpec) bool { return t.GetSteps() > 100 && t.GetSteps() <= maxSteps }

// newCases asks for the given questions with all kinds of teachers, and by coin.
func newCases(ask func(seed uint64, change func(t *conclavev1.TeacherSpec)) proto.Message) questiontest.Cases {
	c := questiontest.Cases{
		Good: map[string]proto.Message{}, Coins: map[string]proto.Message{}, Bad: map[string]questiontest.Bad{},
		Adversaries: questiontest.Adversaries(),
	}
	c.Coins["coin"] = ask(1, func(t *conclavev1.TeacherSpec) { t.Vote = coinVote })
	for name, change := range kindsOfTeachers() {
		c.Good[name] = ask(1, change)
		for seed := range uint64(4) {
			c.Bounds = append(c.Bounds, ask(seed, change))
		}
	}
	return c
}

func voteCases() questiontest.Cases {
	ask := func(seed uint64, change func(t *conclavev1.TeacherSpec)) proto.Message {
		q := voteRound("", seed).vote
		change(q.Teacher)
		return q
	}
	c := newCases(ask)
	for name, rule := range map[string]conclavev1.TeacherSpec_Vote{"calibrated": calibratedVote, "plain": plainVote} {
		c.Good[name] = ask(2, func(t *conclavev1.TeacherSpec) { t.Vote = rule })
		c.Bounds = append(c.Bounds, c.Good[name])
	}
	for name, s := range spoils() {
		q := voteRound("", 1).vote
		s.change(q)
		c.Bad[name] = questiontest.Bad{Params: q, Want: s.want}
	}
	c.Slow = func(params proto.Message) bool { return slow(params.(*conclavev1.VoteQuestion).GetTeacher()) }
	return c
}

func gradientVoteCases() questiontest.Cases {
	c := newCases(func(seed uint64, change func(t *conclavev1.TeacherSpec)) proto.Message {
		q := gradientRound("", seed).vote
		change(q.Teacher)
		return q
	})
	fresh := gradientRound("", 1).vote
	fresh.Teacher = freshRound("", 1).sum.Teacher
	c.Good["fresh"], c.Bounds = fresh, append(c.Bounds, fresh)
	bad := func(name, want string, change func(q *conclavev1.VoteQuestion)) {
		q := gradientRound("", 1).vote
		change(q)
		c.Bad[name] = questiontest.Bad{Params: q, Want: want}
	}
	bad("many directions", "1 to 5", func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 6 })
	bad("no direction", "in no direction", func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 0 })
	bad("no projection", "in no direction", func(q *conclavev1.VoteQuestion) { q.Gradient = nil })
	bad("one bin", "1 bins", func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 1 })
	bad("many bins", "257 bins", func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 257 })
	bad("no clip", "clip of projected", func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = 0 })
	bad("negative clip", "at -1", func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = -1 })
	bad("another rule", "use gradient", func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = relativeVote })
	c.Slow = func(params proto.Message) bool { return slow(params.(*conclavev1.VoteQuestion).GetTeacher()) }
	return c
}

func gradientSumCases() questiontest.Cases {
	ask := func(change func(q *conclavev1.GradientSum)) *conclavev1.GradientSum {
		q := sumRound("", 1, 0).sum
		change(q)
		return q
	}
	c := newCases(func(seed uint64, change func(t *conclavev1.TeacherSpec)) proto.Message {
		q := sumRound("", seed, 0).sum
		change(q.Teacher)
		return q
	})
	projected := func(q *conclavev1.GradientSum) {
		q.Clip, q.Projection = 0.5, &conclavev1.Projection{Directions: 2, Seed: 1}
	}
	c.Good["clipped"] = ask(func(q *conclavev1.GradientSum) { q.Clip = 3 })
	c.Good["coarse"] = ask(func(q *conclavev1.GradientSum) { q.Bound = 1 << 8 })
	c.Good["projected"] = ask(projected)
	c.Good["fresh"] = freshRound("", 1).sum
	c.Good["energy"] = energyRound("", 1).sum
	c.Coins["fresh"] = freshRound("", 1).sum
	c.Coins["fresh"].(*conclavev1.GradientSum).Teacher.Vote = coinVote
	c.Coins["projected"] = ask(func(q *conclavev1.GradientSum) { projected(q); q.Teacher.Vote = coinVote })
	for _, name := range []string{"clipped", "coarse", "projected", "fresh", "energy"} {
		c.Bounds = append(c.Bounds, c.Good[name])
	}
	bad := func(name, want string, change func(q *conclavev1.GradientSum)) {
		c.Bad[name] = questiontest.Bad{Params: ask(change), Want: want}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	bad("many directions", "6 directions",
		func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 6} })
	bad("no bound", "bound is 0", func(q *conclavev1.GradientSum) { q.Bound = 0 })
	bad("negative clip", "clip norm is -1", func(q *conclavev1.GradientSum) { q.Clip = -1 })
	bad("clip NaN", "clip norm is NaN", func(q *conclavev1.GradientSum) { q.Clip = math.NaN() })
	bad("a convolution", "need records that", func(q *conclavev1.GradientSum) {
		q.Teacher.Model, q.Teacher.Hidden = conclavev1.TeacherSpec_MODEL_CONVOLUTION, 4
	})
	bad("shared without a layer", "cannot see differences", func(q *conclavev1.GradientSum) { q.Teacher.Shared = true })
	bad("many queries", "more than 131072", func(q *conclavev1.GradientSum) {
		q.Queries, q.QueryClasses = teacherstest.Generated(30_000, 5, rng)
	})
	bad("another rule", "vote rule", func(q *conclavev1.GradientSum) { q.Teacher.Vote = plainVote })
	bad("no queries", "without queries", func(q *conclavev1.GradientSum) { q.Queries, q.QueryClasses = nil, nil })
	bad("no teacher", "set teacher", func(q *conclavev1.GradientSum) { q.Teacher = nil })
	bad("other features", "they have 4 features", func(q *conclavev1.GradientSum) {
		q.Queries, q.QueryClasses = teacherstest.Generated(3, 4, rng)
	})
	c.Slow = func(params proto.Message) bool { return slow(params.(*conclavev1.GradientSum).GetTeacher()) }
	return c
}

func TestVotesAreAKind(t *testing.T)         { questiontest.Run(t, Votes, voteCases()) }
func TestGradientVotesAreAKind(t *testing.T) { questiontest.Run(t, GradientVotes, gradientVoteCases()) }
func TestGradientSumIsAKind(t *testing.T)    { questiontest.Run(t, GradientSum, gradientSumCases()) }

func FuzzVotes(f *testing.F)         { questiontest.Fuzz(f, Votes, voteCases()) }
func FuzzGradientVotes(f *testing.F) { questiontest.Fuzz(f, GradientVotes, gradientVoteCases()) }
func FuzzGradientSum(f *testing.F)   { questiontest.Fuzz(f, GradientSum, gradientSumCases()) }
