package embed

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Oracle answers with private releases. Asking a round again gives the same answer.
type Oracle interface {
	Embedding(ctx context.Context, round uint64, q *Question) (*Answer, error)
}

// Question asks for the sum of the features of all records.
type Question struct {
	Classes int
	Parts   []embedding.Part
	// Entries is the length of the sum, a block of features for each class.
	Entries int
	// Norm is the L2 norm of what a privacy unit adds, at most.
	Norm float64
}

// Answer holds the release.
type Answer struct {
	// Sum is the noisy sum, shape [classes, features].
	Sum []float32
	// Noise is the standard deviation of the noise of each number.
	Noise float64
	pipeline.Paid
}

// partKinds are the kinds of parts on the wire.
var partKinds = map[embedding.Kind]conclavev1.Embedding_Part_Kind{
	embedding.Ones:    conclavev1.Embedding_Part_KIND_ONES,
	embedding.Columns: conclavev1.Embedding_Part_KIND_COLUMNS,
	embedding.Pairs:   conclavev1.Embedding_Part_KIND_PAIRS,
	embedding.Fourier: conclavev1.Embedding_Part_KIND_FOURIER,
	embedding.Patches: conclavev1.Embedding_Part_KIND_PATCHES,
}

// roundOf is a round that asks for an embedding, as it is sent to nodes.
func roundOf(number uint64, q *Question, bound int64, nothing bool) *conclavev1.Round {
	d := &conclavev1.Embedding{Classes: uint32(q.Classes)}
	for _, p := range q.Parts {
		d.Parts = append(d.Parts, &conclavev1.Embedding_Part{
			Kind: partKinds[p.Kind], Weight: p.Weight, Bins: uint32(p.Bins), Count: uint32(p.Count), Spread: p.Spread,
			Seed: p.Seed,
		})
	}
	r := question.Ask(runspec.Embedding, &conclavev1.EmbeddingSum{
		Embedding: d, Entries: uint32(q.Entries), Bound: uint64(bound), Nothing: nothing,
	}, question.Shape{Sum: &question.Vector{Entries: q.Entries, Bound: bound, Rate: 1}})
	r.Number = number
	return r
}

// largest returns the messages of an embedding.
func largest(o pipeline.Options, p pipeline.Problem, s *plan.Start) pipeline.Largest {
	sigma := s.Planned.Mechanism.Sigma
	q, err := o.(*Options).ChosenFor(p.Encoder, p.Classes, sigma).Question(p.Encoder, p.Classes)
	if err != nil {
		q = &Question{} // planning has built the same question
	}
	round := roundOf(0, q, Bound(sigma), false)
	round.Run = p.Run
	return pipeline.Largest{
		Round: round, RoundContent: "the names of public features; no records",
		Answer:     pipeline.LargestSum(p.Run, 0, s.Entries, partition.MostStreamed*Bound(sigma)),
		AnswerName: "embedding sum",
		AnswerContent: fmt.Sprintf("%d numbers: the sum of public features over the site's privacy units; the "+
			"aggregator sees it, and releases only the noisy sum over all nodes", s.Entries),
	}
}

// asker carries the question over the wire.
type asker struct {
	pipeline.Asker
	sigma, released float64 // the noise that is paid for, and that of the release
}

// Embedding asks for a round.
func (a *asker) Embedding(ctx context.Context, round uint64, q *Question) (*Answer, error) {
	bound := Bound(a.sigma)
	release, err := a.Ask(ctx, "", roundOf(round, q, bound, a.Baseline()))
	if err != nil {
		return nil, err
	}
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != q.Entries || sum.Scale != uint64(bound) || release.GetTeachers() == 0 {
		return nil, fmt.Errorf("the release of round %d does not match its %d entries", release.GetRound(), q.Entries)
	}
	answer := &Answer{Sum: make([]float32, q.Entries), Noise: a.released * q.Norm, Paid: pipeline.PaidBy(release)}
	for i, v := range sum.Values {
		answer.Sum[i] = float32(float64(v) * q.Norm / float64(bound))
	}
	return answer, nil
}
