package gpate

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestTeachersOfGPATEAreToldHowToLearn(t *testing.T) {
	images := strings.Replace(partitiontest.Bars, "height: 4, width: 4", "height: 8, width: 2", 1)
	for name, c := range map[string]struct {
		schema string
		change func(*Options)
		coin   bool
		want   func(*conclavev1.TeacherSpec)
	}{
		"logistic": {partitiontest.Wide, func(*Options) {}, false, func(*conclavev1.TeacherSpec) {}},
		"by coins": {partitiontest.Wide, func(*Options) {}, true, func(s *conclavev1.TeacherSpec) {
			s.Vote = conclavev1.TeacherSpec_VOTE_COIN
		}},
		"of pixels": {images, func(o *Options) {
			o.Teacher.Features = "plain"
		}, false, func(s *conclavev1.TeacherSpec) { s.Features = conclavev1.TeacherSpec_FEATURES_PLAIN }},
		"of coefficients": {images, func(o *Options) {
			o.Teacher.Features, o.Teacher.Memory = "cosines", "round"
		}, false, func(s *conclavev1.TeacherSpec) {
			s.Features, s.Cosines, s.Fresh = conclavev1.TeacherSpec_FEATURES_COSINES, 4, true
		}},
		"hidden, one for all": {partitiontest.Wide, func(o *Options) {
			o.Teacher.Model, o.Teacher.Networks = "hidden", "one"
		}, false, func(s *conclavev1.TeacherSpec) {
			s.Model, s.Hidden, s.Shared = conclavev1.TeacherSpec_MODEL_HIDDEN, 9, true
		}},
		"convolution": {images, func(o *Options) {
			o.Teacher.Model, o.Teacher.Features = "convolution", "plain"
		}, false, func(s *conclavev1.TeacherSpec) {
			s.Model, s.Hidden, s.Features = conclavev1.TeacherSpec_MODEL_CONVOLUTION, 9,
				conclavev1.TeacherSpec_FEATURES_PLAIN
		}},
	} {
		o := DefaultOptions()
		o.Teacher = Teacher{
			Model: "logistic", Hidden: 9, Networks: "each", Features: "standard", Cosines: 2, Memory: "run", Steps: 3,
			Batch:    5,
			Training: 8, Rate: 0.25, Decay: 0.5,
		}
		c.change(&o)
		want := &conclavev1.TeacherSpec{
			Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_GRADIENT, Classes: 2,
			Steps: 3, Batch: 5,
			LearningRate: 0.25, WeightDecay: 0.5, Seed: 11, Features: conclavev1.TeacherSpec_FEATURES_STANDARD,
		}
		c.want(want)
		if got := (&training{o, pipeline.Problem{Encoder: studenttest.Encoder(t, c.schema), Classes: 2,
			Seed: 11}}).teacherSpec(c.coin); !proto.Equal(got, want) {
			t.Errorf("%s: got %v\nwant %v", name, got, want)
		}
	}
}

// The rounds as they are sent to nodes.
func TestGradientRounds(t *testing.T) {
	q := &pipeline.TeacherQuestion{
		Width: 2, Training: []float32{1, 2, 3, 4, 5, 6}, TrainingClasses: []int{0, 1, 0},
		Records: []float32{7, 8, 9, 10}, Classes: []int{1, 0}, Seed: 99,
	}
	teacher := &conclavev1.TeacherSpec{Steps: 3}
	votes := gradients{seen: 2, directions: 2, bins: 10, clip: 0.5}
	r := votes.round(4, teacher, q)
	want := &conclavev1.VoteQuestion{
		Teacher: teacher, Training: pipeline.Tensor(q.Training, 2), TrainingClasses: []uint32{0, 1, 0},
		Queries: pipeline.Tensor(q.Records, 2), QueryClasses: []uint32{1, 0},
		AnswerClasses: 10, Gradient: &conclavev1.Projection{Directions: 2, Seed: 99, Clip: 0.5},
	}
	if r.Number != 4 || !questiontest.ParamsEqual(t, r, want) ||
		!proto.Equal(r.GetVotes(), &conclavev1.Histogram{Queries: 4, Classes: 10}) {
		t.Errorf("votes: %v", r)
	}
	sums := gradients{sums: true, seen: 2, directions: 2, bins: 10, clip: 0.5, norm: 0.25}
	sum := &conclavev1.GradientSum{
		Teacher: teacher, Training: want.Training, TrainingClasses: want.TrainingClasses, Queries: want.Queries,
		QueryClasses: want.QueryClasses,
		Clip:         0.25, Bound: Bound,
	}
	if r := sums.round(4, teacher, q); !questiontest.ParamsEqual(t, r, sum) {
		t.Errorf("sums: %v", r)
	}
	sums.directions = 1
	sum.Projection = &conclavev1.Projection{Directions: 1, Seed: 99}
	if r := sums.round(4, teacher, q); !questiontest.ParamsEqual(t, r, sum) {
		t.Errorf("projected sums: %v", r)
	}
}

func votes(teachers uint32, labels []int32, histogram ...int64) *conclavev1.Release {
	return &conclavev1.Release{Round: 3, Teachers: teachers, EpsilonSpent: 0.5, Answer: &conclavev1.Release_Votes{
		Votes: &conclavev1.NoisyVotes{Classes: 2, Labels: labels, Histogram: histogram},
	}}
}

// A release is converted to the units of pipelines, and one that does not fit is refused.
func TestGradientReleases(t *testing.T) {
	sums, bins := gradients{sums: true, seen: 2, directions: 2, bins: 3}, gradients{seen: 2, directions: 2, bins: 3}
	sumOf := func(teachers uint32, scale uint64, values ...int64) *conclavev1.Release {
		return &conclavev1.Release{
			Round: 3, Teachers: teachers, EpsilonSpent: 0.5, LedgerHash: "abc",
			Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: values, Scale: scale}},
		}
	}
	got, err := sums.read(sumOf(4, Bound, Bound, -2*Bound, 0, 6*Bound), 4, 1.5)
	testkit.Must(t, err)
	want := &pipeline.GradientAnswer{Sum: []float32{0.25, -0.5, 0, 1.5}, Noise: 0.75,
		Paid: pipeline.Paid{Receipt: "abc", Teachers: 4, EpsilonSpent: 0.5}}
	testkit.Same(t, "", want, got)
	if got, err = bins.read(votes(40, []int32{2, -1, 0, -7}), 4, 9); err != nil {
		t.Fatal(err)
	}
	want = &pipeline.GradientAnswer{Winners: []int{2, -1, 0, -1}, Noise: 9, Paid: pipeline.Paid{Teachers: 40,
		EpsilonSpent: 0.5}}
	testkit.Same(t, "", want, got)
	if got, err = bins.read(votes(40, []int32{2, -1}, 1, 2, 37, 0, 0, -4), 2, 9); err != nil {
		t.Fatal(err)
	}
	want = &pipeline.GradientAnswer{Winners: []int{2, -1}, Histogram: []float64{1, 2, 37, 0, 0, -4}, Noise: 9,
		Paid: pipeline.Paid{Teachers: 40, EpsilonSpent: 0.5}}
	testkit.Same(t, "", want, got)
	for name, c := range map[string]struct {
		asker   gradients
		release *conclavev1.Release
	}{
		"nothing of sums":     {sums, &conclavev1.Release{Teachers: 3}},
		"no release of sums":  {sums, nil},
		"votes for sums":      {sums, votes(3, []int32{1, 1, 1, 1})},
		"a number less":       {sums, sumOf(3, Bound, 1, 2, 3)},
		"a number more":       {sums, sumOf(3, Bound, 1, 2, 3, 4, 5)},
		"another scale":       {sums, sumOf(3, Bound-1, 1, 2, 3, 4)},
		"no teachers of sums": {sums, sumOf(0, Bound, 1, 2, 3, 4)},
		"nothing":             {bins, &conclavev1.Release{Teachers: 3}},
		"no release":          {bins, nil},
		"a sum":               {bins, sumOf(3, Bound, 1, 2, 3, 4)},
		"a label less":        {bins, votes(3, []int32{1, 1, 1})},
		"a label more":        {bins, votes(3, []int32{1, 1, 1, 1, 1})},
		"a bin too many":      {bins, votes(3, []int32{1, 1, 3, 1})},
		"half a histogram":    {bins, votes(3, []int32{1, 1, 1, 1}, 1, 2, 3, 4, 5, 6)},
		"no teachers":         {bins, votes(0, []int32{1, 1, 1, 1})},
	} {
		if a, err := c.asker.read(c.release, 4, 1); err == nil ||
			!strings.Contains(err.Error(), "does not match its 4 gradients") {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// The fixed-point unit costs little of a gradient: rounding changes each number by less than a step.
func TestRoundingIsSmallBesideTheBound(t *testing.T) {
	if share := math.Sqrt(1<<17) / Bound; share > 0.01 {
		t.Errorf("rounding takes up to %v of a vector", share)
	}
}
