package aggregator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// sumsOf opens a run for sums of gradients with a noise multiplier.
func sumsOf(multiplier float64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Pipeline = "gpate"
		trains(planned(runspec.GradientSums, gaussian(multiplier), 0))(s)
	}
}

// binsBy opens a run for votes on gradients that a mechanism answers.
func binsBy(mechanism privacy.Event) func(*conclavev1.RunSpec) {
	return trains(histograms(planned(runspec.GradientVotes, mechanism, 0)))
}

// goodGradients asks for the sum of gradients of three numbers at some records.
func goodGradients(records int) *conclavev1.GradientSum {
	v := goodVote(records)
	v.Teacher.Vote = conclavev1.TeacherSpec_VOTE_GRADIENT
	return &conclavev1.GradientSum{
		Teacher: v.Teacher, Training: v.Training, TrainingClasses: v.TrainingClasses, Queries: v.Queries, QueryClasses: v.QueryClasses,
		Bound: 1 << 16,
	}
}

// goodBins asks for votes on gradients in two directions, in ten bins.
func goodBins(records int) *conclavev1.VoteQuestion {
	v := goodVote(records)
	v.Teacher.Vote, v.AnswerClasses = conclavev1.TeacherSpec_VOTE_GRADIENT, 10
	v.Gradient = &conclavev1.Projection{Directions: 2, Seed: 3, Clip: 1e-4}
	return v
}

func gradientRound(run string, number uint64, q *conclavev1.GradientSum) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Gradients{Gradients: q}}}}
}

func binRound(run string, number uint64, q *conclavev1.VoteQuestion) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Vote{Vote: q}}
}

// sums answers every round with the same values.
func sums(values []int64) answerFunc {
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{addressed(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: values}}}, r)}
	}
}

// A release is the sum of what the nodes sent with Gaussian noise of 2 x bound x
// multiplier on every number, for one Gaussian event a round.
func TestGradientSums(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	const records, multiplier, bound = 1500, 2.5, 1 << 16
	spec, _ := student.open(t, d, sumsOf(multiplier))
	north, south := make([]int64, 3*records), make([]int64, 3*records)
	for i := range north {
		north[i], south[i] = int64(i%7-3)*100, int64(i%1000)*4
	}
	c.node(t, hello(d, "north", "a", 5), sums(north))
	c.node(t, hello(d, "south", "a", 3), sums(south))
	testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
	var noise []float64
	for number := range uint64(3) {
		r := student.mustAsk(t, gradientRound(spec.Name, number, goodGradients(records)))
		if r.GetSum().GetScale() != bound || r.GetTeachers() != 8 || len(r.GetSum().GetValues()) != 3*records {
			t.Fatalf("a release of %d numbers at scale %d by %d teachers", len(r.GetSum().GetValues()), r.GetSum().GetScale(), r.GetTeachers())
		}
		for i, v := range r.GetSum().GetValues() {
			noise = append(noise, float64(v-north[i]-south[i])/(2*bound*multiplier))
		}
		if want := gaussianEpsilon(math.Sqrt(float64(number+1))/multiplier, 1e-5); math.Abs(r.GetEpsilonSpent()-want) > 1e-9*want {
			t.Errorf("epsilon %v after %d rounds, want %v", r.GetEpsilonSpent(), number+1, want)
		}
	}
	// Mean and mean square of n standard normal numbers are 0 and 1, with standard
	// deviations of 1 and sqrt(2) over sqrt(n); so is the mean product of neighbours. Six of
	// them are passed in each with a chance of 2e-9.
	var mean, square, product float64
	n := float64(len(noise))
	for i, v := range noise {
		mean, square, product = mean+v/n, square+v*v/n, product+v*noise[(i+1)%len(noise)]/n
	}
	if limit := 6 / math.Sqrt(n); math.Abs(mean) > limit || math.Abs(square-1) > math.Sqrt2*limit || math.Abs(product) > limit {
		t.Errorf("%v numbers: mean %v, mean square %v, mean product %v; want 0, 1, 0 +- %v", n, mean, square, product, limit)
	}
	entries := student.ledger(t, spec.Name)
	if len(entries) != 3 {
		t.Fatalf("%d releases in the ledger", len(entries))
	}
	for _, e := range entries {
		if diff := cmp.Diff(times(1, gaussian(multiplier)), e.Events); diff != "" || e.Kind != runspec.GradientSums ||
			e.Queries != 1 || e.Answered != 1 || e.Entries != 3*records {
			t.Errorf("kind %q, %d of %d queries, %d entries %s", e.Kind, e.Answered, e.Queries, e.Entries, diff)
		}
	}
}

// Numbers of a gradient are those of what teachers see, or the directions.
func TestGradientSumsHaveTheirLength(t *testing.T) {
	spec := mustSpec(t, sumsOf(1))
	for name, c := range map[string]struct {
		change func(*conclavev1.GradientSum)
		want   int
	}{
		"as they are": {func(*conclavev1.GradientSum) {}, 15},
		"standard":    {func(q *conclavev1.GradientSum) { q.Teacher.Features = conclavev1.TeacherSpec_FEATURES_STANDARD }, 15},
		"cosines": {func(q *conclavev1.GradientSum) {
			q.Teacher.Features, q.Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 2
		}, 10},
		"no direction":   {func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Seed: 4} }, 15},
		"one direction":  {func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 1} }, 5},
		"all directions": {func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 3} }, 15},
		"of cosines": {func(q *conclavev1.GradientSum) {
			q.Teacher.Features, q.Teacher.Cosines, q.Projection = conclavev1.TeacherSpec_FEATURES_COSINES, 2, &conclavev1.Projection{Directions: 1}
		}, 5},
		"nothing to train on": {func(q *conclavev1.GradientSum) { q.Training, q.TrainingClasses = nil, nil }, 15},
	} {
		q := goodGradients(5)
		c.change(q)
		got, err := parse(t, roundKey{"r", 1}, gradientRound("r", 1, q), spec, false)
		if err != nil || got.length() != c.want || got.queries() != 1 || got.fits(1<<20) != nil {
			t.Errorf("%s: %+v, %v; want %d numbers", name, got, err, c.want)
		}
	}
}

func mustSpec(t testing.TB, change func(*conclavev1.RunSpec)) *runSpec {
	t.Helper()
	pb := goodSpec()
	change(pb)
	spec, err := newRunSpec(pb)
	testkit.Must(t, err)
	return spec
}

// What a node sends that its teachers cannot have made is rejected by its name, and
// nothing is charged.
func TestSumsThatCannotBeAreRejected(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	const teachers, bound = 4, 1 << 16
	longest := make([]int64, 6)
	longest[2] = teachers * bound
	entry, long := slices.Clone(longest), slices.Clone(longest)
	entry[2]++
	long[2], long[3] = 3*bound, 3*bound
	negative := make([]int64, 6)
	negative[5] = math.MinInt64
	for name, bad := range map[string]struct {
		values []int64
		want   string // nothing: it counts
	}{
		"as long as can be": {longest, ""},
		"a large entry":     {entry, "entry 2 of the sum is larger than 4 teachers can make it"},
		"the least integer": {negative, "entry 5 of the sum is larger"},
		"too long a vector": {long, "the sum is longer than 4 teachers can make it"},
		"one number less":   {longest[1:], "5 entries where 6 were asked"},
		"one number more":   {append(slices.Clone(longest), 0), "7 entries where 6 were asked"},
		"no number":         {nil, "0 entries where 6 were asked"},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.dataset()
			spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { sumsOf(2)(s); s.Teachers = teachers })
			c.node(t, hello(d, "north", "bad", teachers), sums(bad.values))
			_, err := student.ask(testkit.Within(t), gradientRound(spec.Name, 0, goodGradients(2)), nil)
			if bad.want == "" {
				testkit.Must(t, err)
				return
			}
			wantStatus(t, err, codes.FailedPrecondition, "north/bad", bad.want)
			if strings.Contains(err.Error(), fmt.Sprint(3*bound)) {
				t.Errorf("%q tells of the sum", err)
			}
			if entries := student.ledger(t, spec.Name); len(entries) != 0 {
				t.Errorf("charged %v", entries)
			}
		})
	}
	t.Run("votes where a sum was asked, and the reverse", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, sumsOf(2))
		c.node(t, hello(d, "north", "bad", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
			return []*conclavev1.WorkRequest{addressed(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{
				Votes: &conclavev1.Votes{Teachers: 8, Queries: 6, Packed: make([]byte, 8)}}}, r)}
		})
		_, err := student.ask(testkit.Within(t), gradientRound(spec.Name, 0, goodGradients(2)), nil)
		wantStatus(t, err, codes.FailedPrecondition, "north/bad", "votes where a sum was asked")

		d = c.dataset()
		spec, _ = student.open(t, d, binsBy(gnMax(20)))
		c.node(t, hello(d, "south", "bad", 8), sums(make([]int64, 4)))
		_, err = student.ask(testkit.Within(t), binRound(spec.Name, 0, goodBins(2)), nil)
		wantStatus(t, err, codes.FailedPrecondition, "south/bad", "a sum where votes were asked")
	})
	t.Run("a bad node does not spoil the others", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { sumsOf(2)(s); s.DeadlineSeconds = 0.3 })
		c.node(t, hello(d, "north", "good", 6), sums(longest))
		c.node(t, hello(d, "south", "bad", 2), sums(longest)) // what four teachers can make
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
		r := student.mustAsk(t, gradientRound(spec.Name, 0, goodGradients(2)))
		// Noise of 2 x 2 bounds: ten of its standard deviations are passed with a chance
		// below 1e-21.
		if v := float64(r.GetSum().GetValues()[2]); r.GetTeachers() != 6 || math.Abs(v-teachers*bound) > 40*bound {
			t.Errorf("%d teachers took part, entry 2 is %v", r.GetTeachers(), v)
		}
	})
}

// What every honest node can send is taken: sums of vectors of whole numbers that are no
// longer than the bound.
func TestHonestSumsAreTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		teachers := rapid.IntRange(1, 30).Draw(t, "teachers")
		bound := rapid.Int64Range(minBound, maxBound).Draw(t, "bound")
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
		if got, err := q.read(answer, uint32(teachers)); err != nil || !slices.Equal(got, sum) {
			t.Errorf("%d teachers, bound %d: %v, %v", teachers, bound, got, err)
		}
	})
}

func TestGradientQuestionsAreRefused(t *testing.T) {
	votes := mustSpec(t, both(binsBy(gnMax(20)), also(histograms(planned(runspec.Votes, gnMax(20), 0)))))
	sums := mustSpec(t, sumsOf(1.5))
	nan, inf := math.NaN(), math.Inf(1)
	cosines := func(t *conclavev1.TeacherSpec, n uint32) {
		t.Features, t.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, n
	}
	sum := func(change func(*conclavev1.GradientSum)) *conclavev1.Round {
		q := goodGradients(5)
		change(q)
		return gradientRound("r", 1, q)
	}
	bins := func(change func(*conclavev1.VoteQuestion)) *conclavev1.Round {
		q := goodBins(5)
		change(q)
		return binRound("r", 1, q)
	}
	wide := func(records int) (*conclavev1.Tensor, []uint32) { return tensor(records, 3), make([]uint32, records) }
	for name, c := range map[string]struct {
		round *conclavev1.Round
		spec  *runSpec
		want  string
		code  codes.Code
	}{
		// Sums.
		"a sum in a run of votes": {sum(func(*conclavev1.GradientSum) {}), votes, `entry 0 of the plan of run "r" pays for gradient-votes, and the round asks for gradient-sums`, codes.FailedPrecondition},
		"no teacher":              {sum(func(q *conclavev1.GradientSum) { q.Teacher = nil }), sums, "teacher.model", codes.InvalidArgument},
		"another vote": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_RELATIVE }), sums,
			"asks for gradients and teacher.vote is VOTE_RELATIVE", codes.InvalidArgument},
		"coin flips": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }), sums,
			"coin votes are the baseline", codes.FailedPrecondition},
		"no records":       {sum(func(q *conclavev1.GradientSum) { q.Queries, q.QueryClasses = nil, nil }), sums, "about 0 records", codes.InvalidArgument},
		"infinite records": {sum(func(q *conclavev1.GradientSum) { q.Queries = tensor(5, 3, float32(inf)) }), sums, "queries holds a value", codes.InvalidArgument},
		"NaN to train on":  {sum(func(q *conclavev1.GradientSum) { q.Training = tensor(4, 3, float32(nan)) }), sums, "training holds a value", codes.InvalidArgument},
		"other features":   {sum(func(q *conclavev1.GradientSum) { q.Training = tensor(4, 2) }), sums, "must be equal", codes.InvalidArgument},
		"a class too many": {sum(func(q *conclavev1.GradientSum) { q.QueryClasses[4] = 2 }), sums, "class 2 of row 4", codes.InvalidArgument},
		"no cosines":       {sum(func(q *conclavev1.GradientSum) { cosines(q.Teacher, 0) }), sums, "teacher.cosines is 0", codes.InvalidArgument},
		"four cosines":     {sum(func(q *conclavev1.GradientSum) { cosines(q.Teacher, 4) }), sums, "teacher.cosines is 4, more than the 3", codes.InvalidArgument},
		"absurd cosines":   {sum(func(q *conclavev1.GradientSum) { cosines(q.Teacher, math.MaxUint32) }), sums, "teacher.cosines is 4294967295", codes.InvalidArgument},
		"no channels": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Model = conclavev1.TeacherSpec_MODEL_CONVOLUTION }), sums,
			"at least one channel", codes.InvalidArgument},
		"one logistic network": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Shared = true }), sums, "teacher.shared is set", codes.InvalidArgument},
		"fresh votes": {bins(func(q *conclavev1.VoteQuestion) {
			q.Gradient, q.Teacher.Vote, q.AnswerClasses, q.Teacher.Fresh = nil, conclavev1.TeacherSpec_VOTE_RELATIVE, 2, true
		}), votes, "teacher.fresh is set", codes.InvalidArgument},
		"unknown features": {sum(func(q *conclavev1.GradientSum) { q.Teacher.Features = 9 }), sums, "use standard, plain or cosines", codes.InvalidArgument},
		"four directions": {sum(func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 4} }), sums,
			"projected to 4 directions; use 0 to 3", codes.InvalidArgument},
		"absurd directions": {sum(func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: math.MaxUint32} }), sums,
			"projected to 4294967295 directions", codes.InvalidArgument},
		"three directions of two cosines": {sum(func(q *conclavev1.GradientSum) {
			cosines(q.Teacher, 2)
			q.Projection = &conclavev1.Projection{Directions: 3}
		}), sums, "projected to 3 directions; use 0 to 2", codes.InvalidArgument},
		"too many numbers":  {sum(func(q *conclavev1.GradientSum) { q.Queries, q.QueryClasses = wide(43_691) }), sums, "more than 131072", codes.InvalidArgument},
		"no bound":          {sum(func(q *conclavev1.GradientSum) { q.Bound = 0 }), sums, "bound of gradients is 0; use 256 to 1048576", codes.InvalidArgument},
		"a small bound":     {sum(func(q *conclavev1.GradientSum) { q.Bound = minBound - 1 }), sums, "is 255", codes.InvalidArgument},
		"a large bound":     {sum(func(q *conclavev1.GradientSum) { q.Bound = maxBound + 1 }), sums, "is 1048577", codes.InvalidArgument},
		"the largest bound": {sum(func(q *conclavev1.GradientSum) { q.Bound = math.MaxUint64 }), sums, "is 18446744073709551615", codes.InvalidArgument},
		"a clip below 0":    {sum(func(q *conclavev1.GradientSum) { q.Clip = -1e-9 }), sums, "clipped at -1e-09", codes.InvalidArgument},
		"a clip of NaN":     {sum(func(q *conclavev1.GradientSum) { q.Clip = nan }), sums, "clipped at NaN", codes.InvalidArgument},
		"an infinite clip":  {sum(func(q *conclavev1.GradientSum) { q.Clip = inf }), sums, "clipped at +Inf", codes.InvalidArgument},
		"too wide a noise":  {sum(func(q *conclavev1.GradientSum) { q.Bound = maxBound }), mustSpec(t, sumsOf(1<<10)), `run "r": gaussian sum`, codes.InvalidArgument},
		"votes in such a run": {&conclavev1.Round{Run: "r", Number: 1, Question: &conclavev1.Round_Vote{Vote: goodVote(5)}}, sums,
			`run "r" pays for gradient-sums, and the round asks for votes`, codes.FailedPrecondition},
		"sums by samples": {sum(func(*conclavev1.GradientSum) {}), mustSpec(t, trains(planned(runspec.GradientSums, subsampled(2, 0.5), 3))),
			"the plan answers gradient-sums by subsampled-gaussian; use one of [gaussian]", codes.InvalidArgument},

		// Votes.
		"bins in a run of sums": {bins(func(*conclavev1.VoteQuestion) {}), sums, `run "r" pays for gradient-sums, and the round asks for gradient-votes`, codes.FailedPrecondition},
		"votes without bins": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient, q.AnswerClasses = nil, 2 }), votes,
			"teacher.vote is gradient and the round names no projection", codes.InvalidArgument},
		"real or fake on gradients": {bins(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_PLAIN }), votes,
			"asks for votes on gradients and teacher.vote is VOTE_PLAIN", codes.InvalidArgument},
		"coin bins":          {bins(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }), votes, "coin votes", codes.FailedPrecondition},
		"no direction":       {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 0 }), votes, "voted on in 0 directions; use 1 to 3", codes.InvalidArgument},
		"more than features": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 4 }), votes, "voted on in 4 directions; use 1 to 3", codes.InvalidArgument},
		"more than cosines": {bins(func(q *conclavev1.VoteQuestion) { cosines(q.Teacher, 1) }), votes,
			"gradients of 1 features are voted on in 2 directions", codes.InvalidArgument},
		"bins of no cosines":   {bins(func(q *conclavev1.VoteQuestion) { cosines(q.Teacher, 0) }), votes, "teacher.cosines is 0", codes.InvalidArgument},
		"bins of four cosines": {bins(func(q *conclavev1.VoteQuestion) { cosines(q.Teacher, 4) }), votes, "teacher.cosines is 4", codes.InvalidArgument},
		"no clip":              {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = 0 }), votes, "clipped at 0; use a number above 0", codes.InvalidArgument},
		"a negative clip":      {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = -1 }), votes, "clipped at -1", codes.InvalidArgument},
		"bins within NaN":      {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = float32(nan) }), votes, "clipped at NaN", codes.InvalidArgument},
		"bins within infinity": {bins(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = float32(inf) }), votes, "clipped at +Inf", codes.InvalidArgument},
		"no bins":              {bins(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 0 }), votes, "answer_classes is 0; it must be 2 to 256", codes.InvalidArgument},
		"one bin":              {bins(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 1 }), votes, "answer_classes is 1", codes.InvalidArgument},
		"257 bins":             {bins(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 257 }), votes, "answer_classes is 257", codes.InvalidArgument},
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
			_, err := parse(t, roundKey{"r", 1}, paid(c.spec.pb, "", c.round), c.spec, false)
			if err == nil || !strings.Contains(err.Error(), c.want) || codeOf(err) != c.code {
				t.Errorf("got %v (%v), want %v with %q", err, codeOf(err), c.code, c.want)
			}
		})
	}
	for name, r := range map[string]*conclavev1.Round{
		"a sum": sum(func(q *conclavev1.GradientSum) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }),
		"bins":  bins(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }),
	} {
		of := func(s *conclavev1.RunSpec) { binsBy(gnMax(20))(s); s.CoinVotes = true }
		if name == "a sum" {
			of = func(s *conclavev1.RunSpec) { sumsOf(1)(s); s.CoinVotes = true }
		}
		if _, err := parse(t, roundKey{"r", 1}, r, mustSpec(t, of), true); err != nil {
			t.Errorf("%s by coins, in a local run that was opened for them: %v", name, err)
		}
		if _, err := parse(t, roundKey{"r", 1}, r, mustSpec(t, of), false); codeOf(err) != codes.FailedPrecondition {
			t.Errorf("%s by coins outside of local runs: %v", name, err)
		}
	}
}

// A sum cannot have noise that is none, and no more than can be drawn.
func TestRunsOfSumsAreChecked(t *testing.T) {
	for _, multiplier := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-9, 1e9} {
		pb := goodSpec()
		sumsOf(multiplier)(pb)
		if _, err := newRunSpec(pb); err == nil || codeOf(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "plan, entry 0: gaussian") {
			t.Errorf("noise multiplier %v: %v", multiplier, err)
		}
	}
	pb := goodSpec()
	sumsOf(1.5)(pb)
	raw, err := proto.Marshal(pb)
	testkit.Must(t, err)
	if spec, err := parseRunSpec(raw); err != nil || spec.plan[0] != planned(runspec.GradientSums, gaussian(1.5), 0) {
		t.Errorf("a stored run of sums is read as %+v, %v", spec, err)
	}
}

// Every record and direction of votes on gradients is a query that is paid for.
func TestVotesOnGradientsAreChargedOneByOne(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	for _, m := range []struct {
		planned privacy.Planned
		cost    func(asked, answered int64) []privacy.Event
	}{
		{histograms(planned(runspec.GradientVotes, gnMax(30), 0)), func(asked, _ int64) []privacy.Event {
			return []privacy.Event{{Kind: privacy.GNMax, Sigma: 30, Count: asked}}
		}},
		{planned(runspec.GradientVotes, confidentMax(35, 40, 25), 0), func(asked, answered int64) []privacy.Event {
			return []privacy.Event{{Kind: privacy.ConfidentGNMax, Sigma1: 40, Sigma2: 25, Threshold: 35, Asked: asked, Answered: answered}}
		}},
	} {
		t.Run(string(m.planned.Mechanism.Kind), func(t *testing.T) {
			d := c.dataset()
			spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { trains(m.planned)(s); s.Teachers, s.Epsilon = 60, 50 })
			c.node(t, hello(d, "north", "a", 60), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
				queries := len(r.GetVote().GetQueryClasses()) * int(r.GetVote().GetGradient().GetDirections())
				return []*conclavev1.WorkRequest{addressed(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
					Teachers: 60, Queries: uint32(queries),
					Packed: packVotes(60, queries, 10, func(teacher, query int) int { return (query + teacher*(query%2)) % 10 }),
				}}}, r)}
			})
			for number, records := range []int{4, 11} {
				r := student.mustAsk(t, binRound(spec.Name, uint64(number), goodBins(records)))
				queries, answered := 2*records, int64(0)
				v := r.GetVotes()
				if len(v.GetLabels()) != queries || v.GetClasses() != 10 {
					t.Fatalf("%d labels of %d classes for %d queries", len(v.GetLabels()), v.GetClasses(), queries)
				}
				if want := map[bool]int{true: 10 * queries}[m.planned.Variant == privacy.Histogram]; len(v.GetHistogram()) != want {
					t.Errorf("a histogram of %d counts, want %d", len(v.GetHistogram()), want)
				}
				for _, label := range v.GetLabels() {
					if label >= 0 {
						answered++
					}
				}
				entry := student.ledger(t, spec.Name)[number]
				if diff := cmp.Diff(m.cost(int64(queries), answered), entry.Events); diff != "" {
					t.Error(diff)
				}
				if entry.Kind != runspec.GradientVotes || entry.Entries != 0 || entry.Queries != int64(queries) || entry.Answered != answered {
					t.Errorf("kind %q, %d of %d queries, want %d of %d", entry.Kind, entry.Answered, entry.Queries, answered, queries)
				}
			}
		})
	}
}

// The filter asks what all of a round's records and directions can cost.
func TestVotesOnGradientsBeyondTheBudgetAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	// A query costs 2/30²: 40 of them are 0.3-GDP, an epsilon of 1.2; 3 directions of as
	// many records are 0.52-GDP, an epsilon of 2.2.
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { binsBy(gnMax(30))(s); s.Epsilon = 1.5 })
	node := c.node(t, hello(d, "north", "a", 8), silent)
	q := goodBins(40)
	q.Gradient.Directions = 3
	_, err := student.ask(testkit.Within(t), binRound(spec.Name, 0, q), nil)
	wantStatus(t, err, codes.ResourceExhausted, "budget")

	d = c.dataset()
	spec, _ = student.open(t, d, func(s *conclavev1.RunSpec) { sumsOf(2)(s); s.Epsilon = 1.5 })
	sumNode := c.node(t, hello(d, "south", "a", 8), silent)
	_, err = student.ask(testkit.Within(t), gradientRound(spec.Name, 0, goodGradients(2)), nil)
	wantStatus(t, err, codes.ResourceExhausted, "budget")
	if len(node.rounds)+len(sumNode.rounds) != 0 {
		t.Error("nodes saw a round that nobody could pay for")
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
		{maxHistogram, maxTeachers, maxBound, 256}, {maxHistogram, maxTeachers, maxBound, 0.01},
		{maxHistogram, 1, minBound, 1}, {1, 4000, 1 << 16, 3},
		{1000, 2048, 1 << 16, 0.01}, // just above the numbers of four bytes
	} {
		spec := mustSpec(t, func(s *conclavev1.RunSpec) { sumsOf(shape.multiplier)(s); s.Teachers = shape.teachers })
		q := goodGradients(1)
		q.Bound = shape.bound
		g, err := newGradientSum(q, spec.plan[0], spec, false)
		testkit.Must(t, err)
		g.entries = shape.entries
		for _, v := range []int64{g.limit(), -g.limit()} {
			r := largestRelease()
			r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Scale: shape.bound, Values: slices.Repeat([]int64{v}, shape.entries)}}
			raw, err := marshalStable(r)
			testkit.Must(t, err)
			if bound := g.largest(); len(raw) > bound {
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
	votes, sums := mustSpec(f, binsBy(gnMax(20))), mustSpec(f, sumsOf(1.5))
	raw := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		testkit.Must(f, err)
		return b
	}
	longest := raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: []int64{3 << 16, 0, 0, 0, 0, 0}}}})
	bins := raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{Teachers: 3, Queries: 4, Packed: make([]byte, 6)}}})
	projected := goodGradients(2)
	projected.Projection = &conclavev1.Projection{Directions: 2, Seed: 1}
	cosines := goodGradients(2)
	cosines.Teacher.Features, cosines.Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 2
	f.Add(raw(gradientRound("r", 1, goodGradients(2))), longest, uint8(3))
	f.Add(raw(gradientRound("r", 1, goodGradients(2))), longest, uint8(2))
	f.Add(raw(gradientRound("r", 1, projected)), longest, uint8(3))
	f.Add(raw(gradientRound("r", 1, cosines)), bins, uint8(3))
	f.Add(raw(binRound("r", 1, goodBins(2))), bins, uint8(3))
	f.Add(raw(binRound("r", 1, goodBins(2))), longest, uint8(3))
	f.Add(raw(embeddingRound("r", 1, 6, nil)), longest, uint8(3))
	f.Fuzz(func(t *testing.T, question, answer []byte, teachers uint8) {
		round, reply := new(conclavev1.Round), new(conclavev1.WorkRequest)
		if proto.Unmarshal(question, round) != nil || proto.Unmarshal(answer, reply) != nil || teachers == 0 {
			return
		}
		spec := sums
		if round.GetVote() != nil {
			spec = votes
		}
		q, err := parseQuestion(&payload{key: roundKey{"r", 1}, round: round}, &run{spec: spec}, true)
		if err != nil {
			return
		}
		if q.length() < 1 || q.length() > maxHistogram || q.largest() > coordinator.MaxRelease {
			t.Fatalf("a question for %d numbers, %d bytes", q.length(), q.largest())
		}
		counts, err := q.read(reply, uint32(teachers))
		if err != nil {
			return
		}
		if len(counts) != q.length() {
			t.Fatalf("%d counts of %d", len(counts), q.length())
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
