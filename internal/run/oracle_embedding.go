package run

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// embeddingKinds are those of parts on the wire.
var embeddingKinds = map[embedding.Kind]conclavev1.Embedding_Part_Kind{
	embedding.Ones:    conclavev1.Embedding_Part_KIND_ONES,
	embedding.Columns: conclavev1.Embedding_Part_KIND_COLUMNS,
	embedding.Pairs:   conclavev1.Embedding_Part_KIND_PAIRS,
	embedding.Fourier: conclavev1.Embedding_Part_KIND_FOURIER,
}

// embeddingRound is a round that asks for an embedding, as nodes are sent it.
func embeddingRound(run string, number uint64, q *embed.Question, bound int64, nothing bool) *conclavev1.Round {
	d := &conclavev1.Embedding{Classes: uint32(q.Classes)}
	for _, p := range q.Parts {
		d.Parts = append(d.Parts, &conclavev1.Embedding_Part{
			Kind: embeddingKinds[p.Kind], Weight: p.Weight, Bins: uint32(p.Bins), Count: uint32(p.Count), Spread: p.Spread, Seed: p.Seed,
		})
	}
	return roundOf(run, number, runspec.Embedding, &conclavev1.EmbeddingSum{
		Embedding: d, Entries: uint32(q.Entries), Bound: uint64(bound), Nothing: nothing,
	}, question.Shape{Sum: &question.Vector{Entries: q.Entries, Bound: bound, Rate: 1}})
}

// The fixed-point units of an embedding that aggregators take.
const (
	leastBound = 1 << 9
	mostBound  = 1 << 20
)

// bound is the fixed-point unit of a unit's features: the finest for which the noise can be
// drawn.
func (e *Embedding) bound() int64 {
	bound := int64(mostBound)
	for bound > 1 && e.Sigma*float64(bound) > mostSigma {
		bound /= 2
	}
	return bound
}

// embeddingOracle carries the question of an embedding over the wire.
type embeddingOracle struct{ *oracle }

// Embedding asks a round.
func (o *embeddingOracle) Embedding(ctx context.Context, round uint64, q *embed.Question) (*embed.Answer, error) {
	planned := o.plan.Embedding
	bound := planned.bound()
	release, err := o.ask(ctx, "", embeddingRound(o.run, round, q, bound, o.coin))
	if err != nil {
		return nil, err
	}
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != q.Entries || sum.Scale != uint64(bound) || release.GetTeachers() == 0 {
		return nil, fmt.Errorf("the release of round %d does not fit its %d entries", release.GetRound(), q.Entries)
	}
	a := &embed.Answer{
		Sum: make([]float32, q.Entries), Noise: planned.Sigma * q.Norm,
		Receipt: release.GetLedgerHash(), Teachers: int(release.GetTeachers()), EpsilonSpent: release.GetEpsilonSpent(),
	}
	for i, v := range sum.Values {
		a.Sum[i] = float32(float64(v) * q.Norm / float64(bound))
	}
	return a, nil
}
