package attacks

import (
	"cmp"
	"slices"

	asking "github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio"
	fits "github.com/conclave-dp/conclave/internal/ratio/logistic"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// question is the question of a scene's rounds, and the answer of honest teachers.
type question struct {
	planned bool
	open    func(*conclavev1.RunSpec)
	round   func(run string, number uint64) *conclavev1.Round
	honest  func(asked) *conclavev1.WorkRequest
	// counts are the honest node's counts, nil if no hook shows them.
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

// What pays for a question in a run's plan.
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

// voteRound asks for votes; an aggregator does not read the parameters of questions.
func voteRound(run string, number uint64, planned uint32, kind string, queries, classes uint32) *conclavev1.Round {
	return &conclavev1.Round{
		Run: run, Number: number, Planned: planned, Kind: kind, Params: []byte("records"),
		Shape: &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{Queries: queries, Classes: classes}},
	}
}

// sumRound asks for a sum over privacy units.
func sumRound(run string, number uint64, planned uint32, kind string, v *conclavev1.Vector) *conclavev1.Round {
	v.Per = cmp.Or(v.Per, conclavev1.Vector_PER_UNIT)
	v.Norm, v.Rate = cmp.Or(v.Norm, conclavev1.Vector_NORM_L2), cmp.Or(v.Rate, 1)
	return &conclavev1.Round{
		Run: run, Number: number, Planned: planned, Kind: kind, Shape: &conclavev1.Round_Sum{Sum: v},
	}
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
			return voteRound(run, number, paysVotes, "votes", 5, 2)
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
			return voteRound(run, number, paysGradientVotes, "gradient-votes", 6, 3)
		},
		honest: func(a asked) *conclavev1.WorkRequest { return votesOf(a, honestTeachers, 6, 3, bin) },
		counts: histogram(6, 3, honestTeachers, bin),
	}
}

const fixed = 1 << 16 // the fixed-point bound of sums

func classCounts() question {
	return question{
		round: func(run string, number uint64) *conclavev1.Round {
			return sumRound(run, number, paysCounts, "class-counts",
				&conclavev1.Vector{Entries: 2, Bound: 10, Norm: conclavev1.Vector_NORM_L1, Counts: true})
		},
		honest: same(300, 200), counts: []int64{300, 200},
	}
}

func gradients() question {
	return question{
		open: func(s *conclavev1.RunSpec) { s.Pipeline = "gpate" },
		round: func(run string, number uint64) *conclavev1.Round {
			return sumRound(run, number, paysGradients, "gradient-sums",
				&conclavev1.Vector{Entries: 3, Bound: fixed, Per: conclavev1.Vector_PER_TEACHER})
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
			return sumRound(run, number, 0, "discriminator", &conclavev1.Vector{Entries: 3, Bound: fixed, Rate: 0.25})
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
			return sumRound(run, number, paysEmbedding, "embedding", &conclavev1.Vector{Entries: 3, Bound: fixed})
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
			r := sumRound(run, number, paysScores, "scores",
				&conclavev1.Vector{Entries: 2, Bound: 1 << 10, Norm: conclavev1.Vector_NORM_EACH})
			r.Selection = &conclavev1.Selection{Round: number, Records: 80, Expected: []int64{0, 0}}
			return r
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
			q := &conclavev1.Fit{
				Features:  &conclavev1.RatioFeatures{Mean: make([]float32, 1), Scale: []float32{1}, Clip: 2},
				Synthetic: synthetic, Lambda: 0.1, Records: 40,
			}
			want, err := ratio.NewWanted(ratio.Problem{
				Synthetic: slices.Repeat([]float64{1}, 8), Width: 2, Clip: 2, Lambda: 0.1, Records: 40,
			})
			if err != nil {
				panic(err)
			}
			r := asking.Ask("fit", q, fits.Shape(want, asking.L2))
			r.Run, r.Number = run, number
			return r
		},
		honest: same(make([]int64, 2+1+3)...), // without any record
	}
}
