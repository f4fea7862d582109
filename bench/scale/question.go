package main

import (
	"encoding/binary"
	"math"

	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// What a round asks: the numbers of training and of queried records are the defaults of
// PATE-GAN; features are those of a table of 16 encoded columns.
const (
	queries  = 64
	training = 64
	features = 16
	classes  = 2
	kind     = "votes"
	dataset  = "bench"
	schema   = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

// voteRound is a round of votes. Records differ by round, as a student's do.
func voteRound(run string, number uint64) *conclavev1.Round {
	r := question.Ask(kind, &conclavev1.VoteQuestion{
		Teacher: &conclavev1.TeacherSpec{
			Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE,
			Features: conclavev1.TeacherSpec_FEATURES_STANDARD, Classes: classes, Steps: 10, Batch: 32,
			LearningRate: 0.1, WeightDecay: 0.1, Seed: 1,
		},
		Training: records(number, training), TrainingClasses: make([]uint32, training),
		Queries: records(number+1, queries), QueryClasses: make([]uint32, queries),
		AnswerClasses: 2,
	}, question.Shape{Votes: &question.Histogram{Queries: queries, Classes: classes}})
	r.Run, r.Number = run, number
	return r
}

// records are numbers in [0, 1), cheaper than random ones.
func records(seed uint64, rows int) *conclavev1.Tensor {
	data := make([]byte, 4*rows*features)
	for i := range rows * features {
		x := float32((uint64(i)*2654435761+seed*40503)%10007) / 10007
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(x))
	}
	return &conclavev1.Tensor{Shape: []uint32{uint32(rows), features}, Data: data}
}

// voteBytes is the length of a node's packed votes: a bit for each teacher and query.
func voteBytes(teachers int) int { return teachers * ((queries + 7) / 8) }

// packedVotes are the votes of a node, the same in every round: the measured work does not depend on the votes.
func packedVotes(node, teachers int) []byte {
	packed := make([]byte, voteBytes(teachers))
	for i := range packed {
		packed[i] = byte(uint32(node*31+i+1) * 2654435761 >> 24)
	}
	return packed
}

// spec is a run whose noise is so large that its budget lasts for hundreds of thousands
// of rounds: the measurement ends before it.
func spec(run string, teachers int) *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: run, Dataset: dataset, Pipeline: "pategan", SchemaSha256: schema, Epsilon: 50, Delta: 1e-5,
		Unit: "record", Guarantee: "data-independent", Teachers: uint32(teachers), Quorum: 0.9, DeadlineSeconds: 60,
		Plan: []*conclavev1.Planned{{Kind: kind, Mechanism: &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: 4000},
			Variant: "histogram"}},
	}
}

// hello is the first message of node i, which has its own site.
func hello(i, teachers int) *conclavev1.Hello {
	return &conclavev1.Hello{
		Protocol: 5, Dataset: dataset, Site: siteName(i), Node: "0", Teachers: uint32(teachers),
		SchemaSha256: schema, Unit: "record", Manifest: "fingerprint-" + siteName(i),
	}
}
