package node

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/classcounts"
	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/discriminator/discriminatortest"
	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/labels"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/teachers"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// asked is a round that asks a question of a kind about questiontest.SmallSchema.
func asked(run string, number uint64, k question.Kind, params proto.Message) *conclavev1.Round {
	r := questiontest.Round(k, params)
	r.Run, r.Number = run, number
	return r
}

// askedOf asks for another schema.
func askedOf(p *question.Public, run string, number uint64, k question.Kind, params proto.Message) *conclavev1.Round {
	r := questiontest.RoundOf(p, k, params)
	r.Run, r.Number = run, number
	return r
}

func voteRound(run string, number uint64) *conclavev1.Round {
	return asked(run, number, teachers.Votes, teacherstest.Votes(number))
}

func gradientRound(run string, number uint64) *conclavev1.Round {
	return asked(run, number, teachers.GradientVotes, teacherstest.GradientVotes(number))
}

func sumRound(run string, number uint64, clip float64) *conclavev1.Round {
	return asked(run, number, teachers.GradientSum, teacherstest.GradientSum(number, clip))
}

func countRound(run string, number uint64, classes uint32, scale uint64) *conclavev1.Round {
	return asked(run, number, classcounts.Kind, &conclavev1.ClassCounts{Classes: classes, Scale: scale})
}

func discriminatorRound(run string, number uint64, change discriminatortest.Change) *conclavev1.Round {
	return asked(run, number, discriminator.GradientSum, discriminatortest.Question(number, 0.5, change))
}

func scoreRound(run string, number uint64) *conclavev1.Round {
	q := discriminatortest.Question(number, 0.5, nil)
	return asked(run, number, pgb.ScoreSum,
		&conclavev1.ScoreSum{Bound: 1 << 16, Discriminators: []*conclavev1.ScoreSum_Scored{
			{Discriminator: q.Discriminator, Weights: q.Weights},
		}})
}

// embeddingRound asks for the number of records of each class, and the mean of each column.
func embeddingRound(run string, number uint64) *conclavev1.Round {
	q := &conclavev1.EmbeddingSum{Bound: 1 << 16, Entries: 2 * (1 + 3 + 1 + 3), Embedding: &conclavev1.Embedding{
		Classes: 2, Parts: []*conclavev1.Embedding_Part{
			{Kind: conclavev1.Embedding_Part_KIND_ONES, Weight: 1},
			{Kind: conclavev1.Embedding_Part_KIND_COLUMNS, Weight: 1, Bins: 3},
		},
	}}
	return asked(run, number, embedding.Sum, q)
}

// labelRound asks for the first step of a rule for labels.
func labelRound(run string, number uint64) *conclavev1.Round {
	entry, pair := safetensors.Bytes(make([]float32, 1)), safetensors.Bytes(make([]float32, 2))
	const width = 5 + 1 // questiontest.SmallSchema has five features, and a number among them
	return asked(run, number, labels.Sum, &conclavev1.LabelSum{
		Mean: bytes.Repeat(entry, width), Scale: bytes.Repeat(safetensors.Bytes([]float32{1}), width),
		Weights: bytes.Repeat(pair, width), Offsets: pair, Clip: 1, Bound: 1 << 16,
	})
}

// ratioOf are features of questiontest.SmallSchema.
func ratioOf() *conclavev1.RatioFeatures {
	f := &conclavev1.RatioFeatures{Clip: 2.5}
	for range questiontest.SmallFeatures + 2 {
		f.Mean, f.Scale = append(f.Mean, 0.5), append(f.Scale, 1)
	}
	return f
}

// logisticRound asks for a pass of a fit at coefficients that differ in the first one.
func logisticRound(run string, number uint64, first float64) *conclavev1.Round {
	q := &conclavev1.LogisticSum{
		Features: ratioOf(), Bound: 1 << 16, Coefficients: make([]float64, 1+questiontest.SmallFeatures+2),
	}
	q.Coefficients[0] = first
	return asked(run, number, logistic.Sum, q)
}

// roundsOfAllKinds has a round of each kind of question that rows of a table can answer.
func roundsOfAllKinds() []*conclavev1.Round {
	return []*conclavev1.Round{
		voteRound("votes", 1), gradientRound("gradient-votes", 1), sumRound("gradient-sum", 1, 0),
		countRound("r", 1, 2, 1<<16), discriminatorRound("r", 1, nil), scoreRound("r", 1), embeddingRound("r", 1),
		logisticRound("r", 1, 1), labelRound("r", 1), marginalsRound("marginals-columns", 0),
		marginalsRound("marginals", 1),
	}
}

// marginalsRound asks for counts of cells of a column, or of a pair of columns.
func marginalsRound(kind string, second uint32) *conclavev1.Round {
	r := questiontest.Round(kinds.All()[kind], &conclavev1.MarginalsQuestion{
		Columns: []*conclavev1.CellColumn{{Column: 0, From: []float64{0, 0.5}}, {Column: 1}},
		First:   []uint32{0}, Second: []uint32{second}, Weights: []uint32{1000},
	})
	r.Run, r.Number = "r", 1
	return r
}

// A question pays for so many different passes, and for passes with the same features.
func TestPassesOfAQuestionAreBounded(t *testing.T) {
	n := smallNode(t, 2)
	k := n.kinds[logistic.Sum.Name]
	k.Passes = 3
	n.kinds[k.Name] = k
	ask := func(first float64, change func(*conclavev1.LogisticSum)) *conclavev1.WorkRequest {
		return askUnder(t, n, questiontest.Change(logisticRound("r", 1, first), change), nil)
	}
	same := func(*conclavev1.LogisticSum) {}
	for _, first := range []float64{0, 1, 2, 1, 0} {
		if m := ask(first, same); m.GetSum() == nil {
			t.Fatalf("the pass at %v: %v", first, m)
		}
	}
	for want, m := range map[string]*conclavev1.WorkRequest{
		"3 different passes": ask(3, same),
		"other features":     ask(1, func(q *conclavev1.LogisticSum) { q.Features.Mean[0] = 0.7 }),
	} {
		if !strings.Contains(m.GetRefusal().GetReason(), want) {
			t.Errorf("%v, want a refusal that says %q", m, want)
		}
	}
}
