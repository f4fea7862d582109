package hostile

import (
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// question is what a round of a scene asks, and what honest teachers answer.
type question struct {
	planned bool
	open    func(*conclavev1.RunSpec)
	round   func(run string, number uint64) *conclavev1.Round
	honest  func(asked) *conclavev1.WorkRequest
	// counts are those of the honest node, nil where no hook shows them.
	counts []int64
}

func specOf(dataset string) *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: "run-" + dataset, Dataset: dataset, Pipeline: "pategan", SchemaSha256: schema, Epsilon: 10, Delta: 1e-5,
		Unit: "record", Guarantee: "data-independent", Teachers: honestTeachers + hostileTeachers, Quorum: 0.5,
		DeadlineSeconds: 0.05,
		Plan: []*conclavev1.Planned{
			paysCounts: {Kind: "class-counts", Mechanism: &conclavev1.PrivacyEvent{Kind: "laplace", Epsilon: 0.1}},
			paysVotes: {Kind: "votes", Mechanism: &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: 20},
				Variant: "histogram"},
			paysGradientVotes: {Kind: "gradient-votes", Mechanism: &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: 20},
				Variant: "histogram"},
			paysGradients: {Kind: "gradient-sums",
				Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 4, Sensitivity: 1}},
			paysEmbedding: {Kind: "embedding",
				Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 4, Sensitivity: 1}},
			paysScores: {Kind: "scores", Stage: "selections",
				Mechanism: &conclavev1.PrivacyEvent{Kind: "exponential", Epsilon: 0.5}, Count: 3},
		},
	}
}

// What pays for a question, in a run's plan.
const (
	paysCounts = iota
	paysVotes
	paysGradientVotes
	paysGradients
	paysEmbedding
	paysScores
)

// alone gives a run a plan of one entry, which is priced beforehand.
func alone(s *conclavev1.RunSpec, p *conclavev1.Planned) {
	s.Filter, s.Plan = "pld", []*conclavev1.Planned{p}
}

func tensor(rows, columns int) *conclavev1.Tensor {
	return &conclavev1.Tensor{Shape: []uint32{uint32(rows), uint32(columns)}, Data: make([]byte, 4*rows*columns)}
}

func voteOf(records int) *conclavev1.VoteQuestion {
	return &conclavev1.VoteQuestion{
		Teacher: &conclavev1.TeacherSpec{
			Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE, Classes: 2,
			Steps: 1, Batch: 4,
			LearningRate: 0.1, Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
		},
		Training: tensor(4, 3), TrainingClasses: []uint32{0, 1, 0, 1}, Queries: tensor(records, 3),
		QueryClasses: make([]uint32, records), AnswerClasses: 2,
	}
}

func sumRound(run string, number uint64, planned uint32, q *conclavev1.SumQuestion) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Planned: planned, Question: &conclavev1.Round_Sum{Sum: q}}
}

// same answers every round with the same values.
func same(values ...int64) func(asked) *conclavev1.WorkRequest {
	return func(a asked) *conclavev1.WorkRequest { return sumOf(a, values) }
}

func histogram(queries, classes, teachers int, vote func(teacher, query int) int) []int64 {
	counts := make([]int64, queries*classes)
	for t := range teachers {
		for q := range queries {
			counts[q*classes+vote(t, q)]++
		}
	}
	return counts
}

func alternating(_, query int) int { return query % 2 }

// votes are two-way votes on five records: three bits of every teacher's byte are padding.
func votes() question {
	return question{
		round: func(run string, number uint64) *conclavev1.Round {
			return &conclavev1.Round{Run: run, Number: number, Planned: paysVotes,
				Question: &conclavev1.Round_Vote{Vote: voteOf(5)}}
		},
		honest: func(a asked) *conclavev1.WorkRequest { return votesOf(a, honestTeachers, 5, 2, alternating) },
		counts: histogram(5, 2, honestTeachers, alternating),
	}
}

// bins are votes of two bits for one of three bins.
func bins() question {
	bin := func(_, query int) int { return query % 3 }
	return question{
		round: func(run string, number uint64) *conclavev1.Round {
			v := voteOf(3)
			v.Teacher.Vote, v.AnswerClasses = conclavev1.TeacherSpec_VOTE_GRADIENT, 3
			v.Gradient = &conclavev1.Projection{Directions: 2, Seed: 3, Clip: 1}
			return &conclavev1.Round{Run: run, Number: number, Planned: paysGradientVotes,
				Question: &conclavev1.Round_Vote{Vote: v}}
		},
		honest: func(a asked) *conclavev1.WorkRequest { return votesOf(a, honestTeachers, 6, 3, bin) },
		counts: histogram(6, 3, honestTeachers, bin),
	}
}

const fixed = 1 << 16 // the fixed-point bound of sums

func classCounts() question {
	return question{
		round: func(run string, number uint64) *conclavev1.Round {
			return sumRound(run, number, paysCounts,
				&conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_ClassCounts{
					ClassCounts: &conclavev1.ClassCounts{Classes: 2, Scale: 10}}})
		},
		honest: same(300, 200), counts: []int64{300, 200},
	}
}

func gradients() question {
	return question{
		open: func(s *conclavev1.RunSpec) { s.Pipeline = "gpate" },
		round: func(run string, number uint64) *conclavev1.Round {
			v := voteOf(1)
			v.Teacher.Vote = conclavev1.TeacherSpec_VOTE_GRADIENT
			return sumRound(run, number, paysGradients,
				&conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_Gradients{Gradients: &conclavev1.GradientSum{
					Teacher: v.Teacher, Training: v.Training, TrainingClasses: v.TrainingClasses, Queries: v.Queries,
					QueryClasses: v.QueryClasses, Bound: fixed,
				}}})
		},
		honest: same(1000, -2000, 3000), counts: []int64{1000, -2000, 3000},
	}
}

func discriminator() question {
	return question{
		planned: true,
		open: func(s *conclavev1.RunSpec) {
			s.Pipeline = "dpgan"
			alone(s, &conclavev1.Planned{Kind: "discriminator",
				Mechanism: &conclavev1.PrivacyEvent{Kind: "subsampled-gaussian", NoiseMultiplier: 4, Rate: 0.25},
				Count:     3})
		},
		round: func(run string, number uint64) *conclavev1.Round {
			q := &conclavev1.DiscriminatorSum{
				Discriminator: &conclavev1.Discriminator{Kind: conclavev1.Discriminator_KIND_DENSE, Classes: 2,
					ByClass: conclavev1.Discriminator_CLASSES_EACH},
				Weights: make([]byte, 12), Loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, Rate: 0.25, Clip: 1,
				Bound: fixed,
			}
			return sumRound(run, number, 0,
				&conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_Discriminator{Discriminator: q}})
		},
		honest: same(10, 20, -30), counts: []int64{10, 20, -30},
	}
}

func embedding() question {
	return question{
		open: func(s *conclavev1.RunSpec) {
			s.Pipeline = "embed"
		},
		round: func(run string, number uint64) *conclavev1.Round {
			q := &conclavev1.EmbeddingSum{Embedding: &conclavev1.Embedding{Classes: 2,
				Parts: []*conclavev1.Embedding_Part{{Kind: conclavev1.Embedding_Part_KIND_ONES, Weight: 1}},
			}, Entries: 3, Bound: fixed}
			return sumRound(run, number, paysEmbedding,
				&conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_Embedding{Embedding: q}})
		},
		honest: same(7, 8, 9), counts: []int64{7, 8, 9},
	}
}

func scores() question {
	return question{
		open: func(s *conclavev1.RunSpec) {
			s.Epsilon = 100
		},
		round: func(run string, number uint64) *conclavev1.Round {
			q := &conclavev1.ScoreSum{Bound: 1 << 10,
				Selection: &conclavev1.Selection{ScoresRound: number, Records: 80, Expected: []int64{0, 0}}}
			for range 2 {
				q.Discriminators = append(q.Discriminators, &conclavev1.ScoreSum_Scored{
					Discriminator: &conclavev1.Discriminator{Kind: conclavev1.Discriminator_KIND_DENSE, Classes: 2},
					Weights:       make([]byte, 12),
				})
			}
			return sumRound(run, number, paysScores,
				&conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_Scores{Scores: q}})
		},
		honest: same(5, -5),
	}
}

// logistic is a fit, whose passes ask for sums one after the other.
func logistic() question {
	return question{
		planned: true,
		open: func(s *conclavev1.RunSpec) {
			s.Epsilon = 20
			alone(s, &conclavev1.Planned{Kind: "fit", Stage: "fit",
				Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 8, Sensitivity: 1}, Count: 1})
		},
		round: func(run string, number uint64) *conclavev1.Round {
			synthetic := tensor(4, 2)
			for i := range 8 { // 1, little-endian
				synthetic.Data[4*i+2], synthetic.Data[4*i+3] = 0x80, 0x3f
			}
			return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Fit{Fit: &conclavev1.Fit{
				Features:  &conclavev1.RatioFeatures{Mean: make([]float32, 1), Scale: []float32{1}, Clip: 2},
				Synthetic: synthetic, Lambda: 0.1, Records: 40,
			}}}
		},
		honest: same(make([]int64, 2+3)...), // no record at all
	}
}
