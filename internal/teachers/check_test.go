package teachers

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type (
	votes = *conclavev1.VoteQuestion
	spec  = *conclavev1.TeacherSpec
)

// spoil is a change to a good question and a word of the refusal it must get.
type spoil struct {
	want   string
	change func(q votes)
}

func setFloat(t *conclavev1.Tensor, i int, v float32) {
	binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(v))
}

func ofTeacher(change func(spec)) func(votes) {
	return func(q votes) { change(q.Teacher) }
}

func spoils() map[string]spoil {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	return map[string]spoil{
		"no teacher":       {"set teacher", func(q votes) { q.Teacher = nil }},
		"no model":         {"teacher model", ofTeacher(func(t spec) { t.Model = 0 })},
		"unknown model":    {"teacher model", ofTeacher(func(t spec) { t.Model = 77 })},
		"no vote rule":     {"vote rule", ofTeacher(func(t spec) { t.Vote = 0 })},
		"unknown rule":     {"vote rule", ofTeacher(func(t spec) { t.Vote = 77 })},
		"no features":      {"teacher features", ofTeacher(func(t spec) { t.Features = 0 })},
		"unknown features": {"teacher features", ofTeacher(func(t spec) { t.Features = 77 })},
		"no hidden units": {"hidden layer",
			ofTeacher(func(t spec) { t.Model = conclavev1.TeacherSpec_MODEL_HIDDEN })},
		"many hidden": {"hidden layer",
			ofTeacher(func(t spec) { t.Model, t.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, 4097 })},
		"other classes":     {"3 classes, the schema 2", ofTeacher(func(t spec) { t.Classes = 3 })},
		"huge classes":      {"classes, the schema 2", ofTeacher(func(t spec) { t.Classes = math.MaxUint32 })},
		"no steps":          {"0 steps", ofTeacher(func(t spec) { t.Steps = 0 })},
		"many steps":        {"4294967295 steps", ofTeacher(func(t spec) { t.Steps = math.MaxUint32 })},
		"no batch":          {"batches of 0", ofTeacher(func(t spec) { t.Batch = 0 })},
		"large batch":       {"batches of", ofTeacher(func(t spec) { t.Batch = 1<<12 + 1 })},
		"no rate":           {"learning rate is", ofTeacher(func(t spec) { t.LearningRate = 0 })},
		"negative rate":     {"learning rate is", ofTeacher(func(t spec) { t.LearningRate = -1 })},
		"rate not a number": {"learning rate is", ofTeacher(func(t spec) { t.LearningRate = nan })},
		"infinite rate":     {"learning rate is", ofTeacher(func(t spec) { t.LearningRate = inf })},
		"negative decay":    {"weight decay is", ofTeacher(func(t spec) { t.WeightDecay = -0.1 })},
		"decay not finite":  {"weight decay is", ofTeacher(func(t spec) { t.WeightDecay = nan })},
		"decay over 1/rate": {"weight decay is", ofTeacher(func(t spec) { t.LearningRate, t.WeightDecay = 0.5, 2.1 })},

		"query not a number": {"queries: a generated record is not finite",
			func(q votes) { setFloat(q.Queries, 3, nan) }},
		"query infinite": {"queries: a generated record is not finite",
			func(q votes) { setFloat(q.Queries, 3, -inf) }},
		"query below 0": {"feature 3 of record 1 is outside [0, 1]",
			func(q votes) { setFloat(q.Queries, 8, -1e-30) }},
		"query above 1": {"feature 0 of record 11 is outside [0, 1]",
			func(q votes) { setFloat(q.Queries, 55, 1.0000001) }},
		"training infinite": {"training records: a generated record is not finite",
			func(q votes) { setFloat(q.Training, 0, inf) }},
		"training above 1": {"training records: feature 4", func(q votes) { setFloat(q.Training, 4, 2) }},
		"query class":      {"queries: record 5 is of class 2", func(q votes) { q.QueryClasses[5] = 2 }},
		"query class huge": {"queries: record 5 is of class", func(q votes) { q.QueryClasses[5] = math.MaxUint32 }},
		"training class": {"training records: record 0 is of class 2",
			func(q votes) { q.TrainingClasses[0] = 2 }},
		"too few classes": {"12 records of 5 features come with 11 classes",
			func(q votes) { q.QueryClasses = q.QueryClasses[1:] }},
		"too many classes": {"16 records of 5 features come with 17 classes",
			func(q votes) { q.TrainingClasses = append(q.TrainingClasses, 0) }},
		"short data": {"and 239 bytes", func(q votes) { q.Queries.Data = q.Queries.Data[1:] }},
		"more rows than data": {"13 records of 5 features",
			func(q votes) { q.Queries.Shape[0], q.QueryClasses = 13, append(q.QueryClasses, 0) }},
		"huge shape":           {"4294967295 records", func(q votes) { q.Queries.Shape[0] = math.MaxUint32 }},
		"other features":       {"they have 4 features, the schema 5", func(q votes) { q.Queries.Shape[1] = 4 }},
		"one dimension":        {"1 dimensions", func(q votes) { q.Queries.Shape = q.Queries.Shape[:1] }},
		"three dimensions":     {"3 dimensions", func(q votes) { q.Training.Shape = append(q.Training.Shape, 1) }},
		"no queries":           {"without queries", func(q votes) { q.Queries, q.QueryClasses = nil, nil }},
		"classes without data": {"0 records of 5 features come with 12 classes", func(q votes) { q.Queries = nil }},
		"fresh":                {"fresh teachers are for gradients", ofTeacher(func(t spec) { t.Fresh = true })},
		"fresh by coin": {"fresh teachers are for gradients",
			ofTeacher(func(t spec) { t.Fresh, t.Vote = true, coinVote })},
		"three answer classes": {"between 3 classes", func(q votes) { q.AnswerClasses = 3 }},
		"no answer classes":    {"between 0 classes", func(q votes) { q.AnswerClasses = 0 }},
	}
}

// The edges that are still allowed.
func TestQuestionsAtTheEdgeAreAnswered(t *testing.T) {
	for name, change := range map[string]func(q votes){
		"edges of the range": func(q votes) { setFloat(q.Queries, 0, 1); setFloat(q.Queries, 1, 0) },
		"minus zero":         func(q votes) { setFloat(q.Queries, 0, float32(math.Copysign(0, -1))) },
		"one query": func(q votes) {
			rng := rand.New(rand.NewPCG(1, 1))
			q.Queries, q.QueryClasses = teacherstest.Generated(1, questiontest.SmallFeatures, rng)
		},
		"no training": func(q votes) { q.Training, q.TrainingClasses = nil, nil },
		"empty training": func(q votes) {
			q.Training, q.TrainingClasses = teacherstest.Generated(0, questiontest.SmallFeatures, nil)
		},
		"no decay":     ofTeacher(func(t spec) { t.WeightDecay = 0 }),
		"decay 1/rate": ofTeacher(func(t spec) { t.LearningRate, t.WeightDecay = 0.1, 10 }),
		"largest rate": ofTeacher(func(t spec) { t.LearningRate, t.WeightDecay = maxRate, 0 }),
		"hidden layer": ofTeacher(func(t spec) { t.Model, t.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, 3 }),
	} {
		t.Run(name, func(t *testing.T) {
			site := smallSite(t, 3)
			r := voteRound("r", 1)
			change(r.vote)
			queries := len(r.vote.QueryClasses)
			questiontest.Unpack(t, votesOf(t, site, r), 3, queries, 2)
		})
	}
}

// The operator of a node limits the work of a round.
func TestANodesStepsAreBounded(t *testing.T) {
	site := smallSite(t, 3)
	site.MaxSteps = 7
	r := voteRound("r", 1)
	r.vote.Teacher.Steps = 8
	if got := reason(site, r); !strings.Contains(got, "8 steps in each round; use 1 to 7") {
		t.Errorf("8 steps where 7 are the most: refused with %q", got)
	}
	r.vote.Teacher.Steps = 7
	if got := reason(site, r); got != "" {
		t.Errorf("7 steps where 7 are the most: refused with %q", got)
	}
}
