package shape

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Numbers of a gradient are those of what teachers see, or the directions.
func TestGradientSumsHaveTheirLength(t *testing.T) {
	spec := mustSpec(t, roundtest.SumsOf(1))
	for name, c := range map[string]struct {
		change func(*conclavev1.GradientSum)
		want   int
	}{
		"as they are": {func(*conclavev1.GradientSum) {}, 15},
		"standard":    {func(q *conclavev1.GradientSum) { q.Teacher.Features = conclavev1.TeacherSpec_FEATURES_STANDARD }, 15},
		"cosines": {func(q *conclavev1.GradientSum) {
			q.Teacher.Features, q.Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 2
		}, 10},
		"no direction":  {func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Seed: 4} }, 15},
		"one direction": {func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 1} }, 5},
		"all directions": {func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 3} },
			15},
		"of cosines": {func(q *conclavev1.GradientSum) {
			q.Teacher.Features, q.Teacher.Cosines, q.Projection = conclavev1.TeacherSpec_FEATURES_COSINES, 2,
				&conclavev1.Projection{Directions: 1}
		}, 5},
		"nothing to train on": {func(q *conclavev1.GradientSum) { q.Training, q.TrainingClasses = nil, nil }, 15},
	} {
		q := roundtest.Gradients(5)
		c.change(q)
		got, err := parse(roundtest.GradientRound("r", 1, q), spec, false)
		if err != nil || got.Length() != c.want || got.Queries() != 1 || got.Fits(1<<20) != nil {
			t.Errorf("%s: %+v, %v; want %d numbers", name, got, err, c.want)
		}
	}
}

// What every honest node can send is taken: sums of vectors of whole numbers that are no
// longer than the bound.
func TestHonestSumsAreTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		teachers := rapid.IntRange(1, 30).Draw(t, "teachers")
		bound := rapid.Int64Range(spec.MinBound, spec.MaxBound).Draw(t, "bound")
		q := &gradientSum{entries: rapid.IntRange(1, 20).Draw(t, "entries"), bound: bound}
		sum := make([]int64, q.entries)
		alike := rapid.Bool().Draw(t, "alike")
		var vector []float64
		for i := range teachers {
			if i == 0 || !alike {
				vector = rapid.SliceOfN(rapid.Float64Range(-1, 1), q.entries, q.entries).Draw(t, "vector")
			}
			var norm float64
			for _, v := range vector {
				norm = math.Hypot(norm, v) // a sum of squares underflows for 1e-161
			}
			for j, v := range vector {
				if norm > 0 {
					sum[j] += int64(v / norm * float64(bound)) // towards zero
				}
			}
		}
		answer := &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: sum}}}
		if got, err := q.Read(answer, uint32(teachers)); err != nil || !slices.Equal(got, sum) {
			t.Errorf("%d teachers, bound %d: %v, %v", teachers, bound, got, err)
		}
	})
}

func TestGradientQuestionsAreRefused(t *testing.T) {
	votes := mustSpec(t, roundtest.Both(roundtest.BinsBy(roundtest.GNMax(20)),
		roundtest.Also(roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 0)))))
	sums := mustSpec(t, roundtest.SumsOf(1.5))
	nan, inf := math.NaN(), math.Inf(1)
	cosines := func(t *conclavev1.TeacherSpec, n uint32) {
		t.Features, t.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, n
	}
	sum := func(change func(*conclavev1.GradientSum)) *conclavev1.Round {
		q := roundtest.Gradients(5)
		change(q)
		return roundtest.GradientRound("r", 1, q)
	}
	bins := func(change func(*conclavev1.VoteQuestion)) *conclavev1.Round {
		q := roundtest.Bins(5)
		change(q)
		return roundtest.BinRound("r", 1, q)
	}
	wide := func(records int) (*conclavev1.Tensor, []uint32) {
		return roundtest.Tensor(records, 3), make([]uint32, records)
	}
	for name, c := range map[string]struct {
		round *conclavev1.Round
		spec  *spec.Spec
		want  string
		code  codes.Code
	}{
		// Sums.
		"a sum in a run of votes": {sum(func(*conclavev1.GradientSum) {}), votes,
			`entry 0 of the plan of run "r" pays for gradient-votes, and the round asks for gradient-sums`,
			codes.FailedPrecondition},
		"no teacher": {sum(func(q *conclavev1.GradientSum) { q.Teacher = nil }), sums, "teacher.model",
			codes.InvalidArgument},
		"another vote": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_RELATIVE }),
			sums,
			"asks for gradients and teacher.vote is VOTE_RELATIVE", codes.InvalidArgument},
		"coin flips": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }), sums,
			"coin votes are the baseline", codes.FailedPrecondition},
		"no records": {sum(func(q *conclavev1.GradientSum) { q.Queries, q.QueryClasses = nil, nil }), sums,
			"about 0 records", codes.InvalidArgument},
		"infinite records": {sum(func(q *conclavev1.GradientSum) { q.Queries = roundtest.Tensor(5, 3, float32(inf)) }),
			sums, "queries holds a value", codes.InvalidArgument},
		"NaN to train on": {sum(func(q *conclavev1.GradientSum) { q.Training = roundtest.Tensor(4, 3, float32(nan)) }),
			sums, "training holds a value", codes.InvalidArgument},
		"other features": {sum(func(q *conclavev1.GradientSum) { q.Training = roundtest.Tensor(4, 2) }), sums,
			"must be equal", codes.InvalidArgument},
		"a class too many": {sum(func(q *conclavev1.GradientSum) { q.QueryClasses[4] = 2 }), sums, "class 2 of row 4",
			codes.InvalidArgument},
		"no cosines": {sum(func(q *conclavev1.GradientSum) { cosines(q.Teacher, 0) }), sums,
			"teacher.cosines is 0", codes.InvalidArgument},
		"four cosines": {sum(func(q *conclavev1.GradientSum) { cosines(q.Teacher, 4) }), sums,
			"teacher.cosines is 4, more than the 3", codes.InvalidArgument},
		"absurd cosines": {sum(func(q *conclavev1.GradientSum) { cosines(q.Teacher, math.MaxUint32) }), sums,
			"teacher.cosines is 4294967295", codes.InvalidArgument},
		"no channels": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Model = conclavev1.TeacherSpec_MODEL_CONVOLUTION }), sums,
			"at least one channel", codes.InvalidArgument},
		"one logistic network": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Shared = true }), sums,
			"teacher.shared is set", codes.InvalidArgument},
		"fresh votes": {bins(func(q *conclavev1.VoteQuestion) {
			q.Gradient, q.Teacher.Vote, q.AnswerClasses, q.Teacher.Fresh = nil, conclavev1.TeacherSpec_VOTE_RELATIVE, 2,
				true
		}), votes, "teacher.fresh is set", codes.InvalidArgument},
		"unknown features": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Features = 9 }), sums,
			"use standard, plain or cosines", codes.InvalidArgument},
		"four directions": {sum(func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 4} }), sums,
			"projected to 4 directions; use 0 to 3", codes.InvalidArgument},
		"absurd directions": {sum(func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: math.MaxUint32} }), sums,
			"projected to 4294967295 directions", codes.InvalidArgument},
		"three directions of two cosines": {sum(func(q *conclavev1.GradientSum) {
			cosines(q.Teacher, 2)
			q.Projection = &conclavev1.Projection{Directions: 3}
		}), sums, "projected to 3 directions; use 0 to 2", codes.InvalidArgument},
		"too many numbers": {sum(func(q *conclavev1.GradientSum) { q.Queries, q.QueryClasses = wide(43_691) }), sums,
			"more than 131072", codes.InvalidArgument},
		"no bound": {sum(func(q *conclavev1.GradientSum) { q.Bound = 0 }), sums,
			"bound of gradients is 0; use 256 to 1048576", codes.InvalidArgument},
		"a small bound": {sum(func(q *conclavev1.GradientSum) { q.Bound = spec.MinBound - 1 }), sums, "is 255",
			codes.InvalidArgument},
		"a large bound": {sum(func(q *conclavev1.GradientSum) { q.Bound = spec.MaxBound + 1 }), sums, "is 1048577",
			codes.InvalidArgument},
		"the largest bound": {sum(func(q *conclavev1.GradientSum) { q.Bound = math.MaxUint64 }), sums,
			"is 18446744073709551615", codes.InvalidArgument},
		"a clip below 0": {sum(func(q *conclavev1.GradientSum) { q.Clip = -1e-9 }), sums, "clipped at -1e-09",
			codes.InvalidArgument},
		"a clip of NaN": {sum(func(q *conclavev1.GradientSum) { q.Clip = nan }), sums, "clipped at NaN",
			codes.InvalidArgument},
		"an infinite clip": {sum(func(q *conclavev1.GradientSum) { q.Clip = inf }), sums, "clipped at +Inf",
			codes.InvalidArgument},
		"too wide a noise": {sum(func(q *conclavev1.GradientSum) { q.Bound = spec.MaxBound }),
			mustSpec(t, roundtest.SumsOf(1<<10)), `run "r": gaussian sum`, codes.InvalidArgument},
		"votes in such a run": {&conclavev1.Round{Run: "r", Number: 1,
			Question: &conclavev1.Round_Vote{Vote: roundtest.Vote(5)}}, sums,
			`run "r" pays for gradient-sums, and the round asks for votes`, codes.FailedPrecondition},
		"sums by samples": {sum(func(*conclavev1.GradientSum) {}),
			mustSpec(t, roundtest.Trains(roundtest.Planned(runspec.GradientSums, roundtest.Subsampled(2, 0.5), 3))),
			"the plan answers gradient-sums by subsampled-gaussian; use one of [gaussian]", codes.InvalidArgument},

		// Votes.
		"bins in a run of sums": {bins(func(*conclavev1.VoteQuestion) {}), sums,
			`run "r" pays for gradient-sums, and the round asks for gradient-votes`, codes.FailedPrecondition},
		"votes without bins": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient, q.AnswerClasses = nil, 2 }), votes,
			"teacher.vote is gradient and the round names no projection", codes.InvalidArgument},
		"real or fake on gradients": {bins(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_PLAIN }), votes,
			"asks for votes on gradients and teacher.vote is VOTE_PLAIN", codes.InvalidArgument},
		"coin bins": {bins(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }),
			votes, "coin votes", codes.FailedPrecondition},
		"no direction": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 0 }), votes,
			"voted on in 0 directions; use 1 to 3", codes.InvalidArgument},
		"more than features": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 4 }), votes,
			"voted on in 4 directions; use 1 to 3", codes.InvalidArgument},
		"more than cosines": {bins(func(q *conclavev1.VoteQuestion) { cosines(q.Teacher, 1) }), votes,
			"gradients of 1 features are voted on in 2 directions", codes.InvalidArgument},
		"bins of no cosines": {bins(func(q *conclavev1.VoteQuestion) { cosines(q.Teacher, 0) }), votes,
			"teacher.cosines is 0", codes.InvalidArgument},
		"bins of four cosines": {bins(func(q *conclavev1.VoteQuestion) { cosines(q.Teacher, 4) }), votes,
			"teacher.cosines is 4", codes.InvalidArgument},
		"no clip": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = 0 }), votes,
			"clipped at 0; use a number above 0", codes.InvalidArgument},
		"a negative clip": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = -1 }), votes,
			"clipped at -1", codes.InvalidArgument},
		"bins within NaN": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = float32(nan) }), votes,
			"clipped at NaN", codes.InvalidArgument},
		"bins within infinity": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = float32(inf) }), votes,
			"clipped at +Inf", codes.InvalidArgument},
		"no bins": {bins(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 0 }), votes,
			"answer_classes is 0; it must be 2 to 256", codes.InvalidArgument},
		"one bin": {bins(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 1 }), votes,
			"answer_classes is 1", codes.InvalidArgument},
		"257 bins": {bins(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 257 }), votes,
			"answer_classes is 257", codes.InvalidArgument},
		"too many votes": {bins(func(q *conclavev1.VoteQuestion) {
			q.AnswerClasses = 2
			q.Queries, q.QueryClasses = wide(maxQueries/2 + 1)
		}), votes, "asks 65538 queries", codes.InvalidArgument},
		"too many counts": {bins(func(q *conclavev1.VoteQuestion) { q.Queries, q.QueryClasses = wide(6554) }), votes,
			"13108 queries x 10 classes are more than 131072 counts", codes.InvalidArgument},
		"three classes of real and fake": {bins(func(q *conclavev1.VoteQuestion) {
			q.Gradient, q.Teacher.Vote, q.AnswerClasses = nil, conclavev1.TeacherSpec_VOTE_RELATIVE, 3
		}), votes, "choose between 2", codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(roundtest.Paid(c.spec.PB, "", c.round), c.spec, false)
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.Code(err) != c.code {
				t.Errorf("got %v (%v), want %v with %q", err, fault.Code(err), c.code, c.want)
			}
		})
	}
	for name, r := range map[string]*conclavev1.Round{
		"a sum": sum(func(q *conclavev1.GradientSum) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }),
		"bins":  bins(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }),
	} {
		of := func(s *conclavev1.RunSpec) { roundtest.BinsBy(roundtest.GNMax(20))(s); s.CoinVotes = true }
		if name == "a sum" {
			of = func(s *conclavev1.RunSpec) { roundtest.SumsOf(1)(s); s.CoinVotes = true }
		}
		if _, err := parse(r, mustSpec(t, of), true); err != nil {
			t.Errorf("%s by coins, in a local run that was opened for them: %v", name, err)
		}
		if _, err := parse(r, mustSpec(t, of), false); fault.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s by coins outside of local runs: %v", name, err)
		}
	}
}

// The bound on the size of a release holds for the largest numbers.
func TestNoSumIsLargerThanItsBound(t *testing.T) {
	for _, shape := range []struct {
		entries    int
		teachers   uint32
		bound      uint64
		multiplier float64
	}{
		{maxHistogram, 1 << 20, spec.MaxBound, 256}, {maxHistogram, 1 << 20, spec.MaxBound, 0.01},
		{maxHistogram, 1, spec.MinBound, 1}, {1, 4000, 1 << 16, 3},
		{1000, 2048, 1 << 16, 0.01}, // just above the numbers of four bytes
	} {
		spec := mustSpec(t, func(s *conclavev1.RunSpec) { roundtest.SumsOf(shape.multiplier)(s); s.Teachers = shape.teachers })
		q := roundtest.Gradients(1)
		q.Bound = shape.bound
		g, err := newGradientSum(q, spec.Plan[0], spec, false)
		testkit.Must(t, err)
		g.entries = shape.entries
		for _, v := range []int64{g.limit(), -g.limit()} {
			r := largestRelease()
			r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Scale: shape.bound,
				Values: slices.Repeat([]int64{v}, shape.entries)}}
			raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
			testkit.Must(t, err)
			if bound := g.Largest(); len(raw) > bound {
				t.Errorf("%+v: %d bytes, bound %d", shape, len(raw), bound)
			}
			if v < 0 {
				checkSize(t, g, r) // the bound is reached
			}
		}
	}
}

// FuzzGradients decodes a question for gradients and a node's answer from the wire: no
// input may panic, a question that is taken has bounds that can be kept, and an answer
// that is taken is one that so many teachers can make.
func FuzzGradients(f *testing.F) {
	votes, sums := mustSpec(f, roundtest.BinsBy(roundtest.GNMax(20))), mustSpec(f, roundtest.SumsOf(1.5))
	raw := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		testkit.Must(f, err)
		return b
	}
	longest := raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: []int64{3 << 16, 0, 0, 0, 0, 0}}}})
	bins := raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{Teachers: 3,
		Queries: 4, Packed: make([]byte, 6)}}})
	projected := roundtest.Gradients(2)
	projected.Projection = &conclavev1.Projection{Directions: 2, Seed: 1}
	cosines := roundtest.Gradients(2)
	cosines.Teacher.Features, cosines.Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 2
	f.Add(raw(roundtest.GradientRound("r", 1, roundtest.Gradients(2))), longest, uint8(3))
	f.Add(raw(roundtest.GradientRound("r", 1, roundtest.Gradients(2))), longest, uint8(2))
	f.Add(raw(roundtest.GradientRound("r", 1, projected)), longest, uint8(3))
	f.Add(raw(roundtest.GradientRound("r", 1, cosines)), bins, uint8(3))
	f.Add(raw(roundtest.BinRound("r", 1, roundtest.Bins(2))), bins, uint8(3))
	f.Add(raw(roundtest.BinRound("r", 1, roundtest.Bins(2))), longest, uint8(3))
	f.Add(raw(roundtest.EmbeddingRound("r", 1, 6, nil)), longest, uint8(3))
	f.Fuzz(func(t *testing.T, question, answer []byte, teachers uint8) {
		round, reply := new(conclavev1.Round), new(conclavev1.WorkRequest)
		if proto.Unmarshal(question, round) != nil || proto.Unmarshal(answer, reply) != nil || teachers == 0 {
			return
		}
		spec := sums
		if round.GetVote() != nil {
			spec = votes
		}
		q, err := parse(round, spec, true)
		if err != nil {
			return
		}
		if q.Length() < 1 || q.Length() > maxHistogram || q.Largest() > coordinator.MaxRelease {
			t.Fatalf("a question for %d numbers, %d bytes", q.Length(), q.Largest())
		}
		counts, err := q.Read(reply, uint32(teachers))
		if err != nil {
			return
		}
		if len(counts) != q.Length() {
			t.Fatalf("%d counts of %d", len(counts), q.Length())
		}
		if g, ok := q.(*gradientSum); ok {
			var squares float64
			for _, v := range counts {
				squares += float64(v) * float64(v)
			}
			if most := float64(teachers) * float64(g.bound); math.Sqrt(squares) > most*(1+1e-9) {
				t.Fatalf("%d teachers sent a sum of length %v, bound %d", teachers, math.Sqrt(squares), g.bound)
			}
		}
	})
}
