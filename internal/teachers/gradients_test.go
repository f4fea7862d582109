package teachers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/projection"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const gradientVote = conclavev1.TeacherSpec_VOTE_GRADIENT

// The sum of a node is the sum of its teachers' vectors, each of the length of the bound, or shorter if it was shorter
// than the clip.
func TestGradientSumsByTeacher(t *testing.T) {
	for _, features := range []conclavev1.TeacherSpec_Features{plain, standard} {
		for _, directions := range []uint32{0, 2} {
			for _, clip := range []float64{0, 0.3, 1e3} {
				t.Run(fmt.Sprint(features, directions, clip), func(t *testing.T) {
					site := smallSite(t, 4)
					r := sumRound("r", 1, clip)
					q := r.sum
					q.Teacher.Features, q.Projection = features, &conclavev1.Projection{Directions: directions, Seed: 5}
					got := gradientSumOf(t, site, r)
					each := map[uint32]int{0: questiontest.SmallFeatures, 2: 2}[directions]
					want := make([]float64, 12*each)
					for _, v := range stepsByHand(t, site, q, each) {
						length := 0.0
						for _, x := range v {
							length += x * x
						}
						scale := 1 / math.Sqrt(length)
						if clip > 0 {
							scale = min(scale, 1/clip)
						}
						for i, x := range v {
							want[i] += x * scale
						}
					}
					for i, w := range want {
						if g := float64(got[i]) / (1 << 16); math.Abs(g-w) > 4*(1./(1<<16)+1e-5) {
							t.Fatalf("entry %d is %v, want %v", i, g, w)
						}
					}
				})
			}
		}
	}
}

// stepsByHand trains a node's teachers and takes the steps of all records by finite
// differences of the generator's loss, softplus(-score), in what the teachers see.
func stepsByHand(t *testing.T, site *question.Site, q *conclavev1.GradientSum, each int) [][]float64 {
	t.Helper()
	a, err := readBatch(site.Public, q)
	testkit.Must(t, err)
	e, err := a.spec.ensemble()
	testkit.Must(t, err)
	examples, training, queries, w := site.Examples, a.training.x, a.queries.x, questiontest.SmallFeatures
	standard := q.Teacher.Features == standard
	if standard {
		units, err := scaling.New(training, a.training.classes, questiontest.SmallFeatures, 2, []int{0})
		testkit.Must(t, err)
		examples = slices.Clone(standardize(site, units))
		training, queries = units.All(training, a.training.classes), units.All(queries, a.queries.classes)
		w = units.Width()
	}
	testkit.Must(t, e.Train(examples, training, a.training.classes, a.steps, a.batch))
	loss := func(x []float32) []float64 {
		scores := make([]float32, 4*12)
		testkit.Must(t, e.Score(scores, x, a.queries.classes))
		out := make([]float64, len(scores))
		for i, s := range scores {
			out[i] = math.Log1p(math.Exp(-float64(s)))
		}
		return out
	}
	steps := make([][]float32, 4)
	for i := range steps {
		steps[i] = make([]float32, 12*questiontest.SmallFeatures)
	}
	const h = 1.0 / 64
	for j := range questiontest.SmallFeatures {
		at := func(d float32) []float64 {
			x := slices.Clone(queries)
			for i := range 12 {
				x[i*w+j] += d
				if standard && j == 0 { // x is the one number: its square moves with it
					x[i*w+questiontest.SmallFeatures] = (x[i*w]*x[i*w] - 1) / math.Sqrt2
				}
			}
			return loss(x)
		}
		up, down := at(h), at(-h)
		for i := range up {
			steps[i/12][i%12*questiontest.SmallFeatures+j] = float32((down[i] - up[i]) / (2 * h))
		}
	}
	out := make([][]float64, 4)
	for i, s := range steps {
		if each != questiontest.SmallFeatures {
			p, err := projection.New(projection.Spec{
				Features: questiontest.SmallFeatures, Directions: each, Clip: 1, Bins: 2,
			}, q.Projection.Seed)
			testkit.Must(t, err)
			projected := make([]float32, 12*each)
			p.Project(projected, s, 12)
			s = projected
		}
		for _, v := range s {
			out[i] = append(out[i], float64(v))
		}
	}
	return out
}

// Coin flips learn nothing, are unlike between teachers, and alike when asked again.
func TestCoinGradients(t *testing.T) {
	site := smallSite(t, 300)
	r := gradientRound("votes", 1)
	r.vote.Teacher.Vote = coinVote
	votes := questiontest.Unpack(t, votesOf(t, site, r), 300, 36, 10)
	var counts [10]int
	for _, v := range votes {
		counts[v]++
	}
	for bin, c := range counts { // 1,080 expected; six standard deviations are 187
		if c < 1080-187 || c > 1080+187 {
			t.Errorf("bin %d has %d of %d votes", bin, c, len(votes))
		}
	}
	s := sumRound("sum", 1, 0.5)
	s.sum.Teacher.Vote = coinVote
	sum := gradientSumOf(t, site, s)
	if !slices.Equal(sum, gradientSumOf(t, site, s)) {
		t.Error("asked again, the sum is another")
	}
	length := 0.0
	for _, v := range sum {
		length += float64(v) * float64(v)
	}
	// 300 random vectors of length at most 1 add up to about the root of 300 times it.
	if got := math.Sqrt(length) / (1 << 16); got < 10 || got > 25 {
		t.Errorf("the sum has length %v, want about 17", got)
	}
}

// Networks that are told the class, and convolutions, vote and sum like others.
func TestOtherTeachersAnswer(t *testing.T) {
	site := smallSite(t, 3)
	r := sumRound("told", 1, 0)
	q := r.sum
	q.Teacher.Model, q.Teacher.Hidden, q.Teacher.Shared = conclavev1.TeacherSpec_MODEL_HIDDEN, 4, true
	if s := gradientSumOf(t, site, r); len(s) != 12*questiontest.SmallFeatures || slices.Max(s) == 0 {
		t.Errorf("told the class: %v", s)
	}
	votesOf(t, site, voteRound("plain", 1)) // other teachers of another run

	rng := rand.New(rand.NewPCG(1, 2))
	images := questiontest.Site(t, questiontest.Images(t, 8, 8, 1, 40), 3)
	for _, shared := range []bool{false, true} {
		training, trainingClasses := teacherstest.Generated(16, 64, rng)
		queries, queryClasses := teacherstest.Generated(6, 64, rng)
		s := gradientSumOf(t, images, &round{run: fmt.Sprint(shared), number: 1, sum: &conclavev1.GradientSum{
			Teacher: &conclavev1.TeacherSpec{
				Model: conclavev1.TeacherSpec_MODEL_CONVOLUTION, Hidden: 4, Shared: shared, Vote: gradientVote,
				Classes: 2, Steps: 3, Batch: 8, LearningRate: 0.01, Features: plain,
			},
			Training: training, TrainingClasses: trainingClasses,
			Queries: queries, QueryClasses: queryClasses, Bound: 1 << 12,
		}})
		if len(s) != 6*64 || slices.Max(s) == 0 {
			t.Errorf("convolutions, shared %v: %v", shared, s)
		}
	}
}
