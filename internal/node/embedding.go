package node

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// embeddingAsked is a question for the sum of an embedding that was checked.
type embeddingAsked struct {
	features *embedding.Features
	bound    int64
	nothing  bool
}

// embedded is the embedding that was asked about last.
type embedded struct {
	spec     *conclavev1.Embedding
	features *embedding.Features
}

// embeddingKinds are those of parts on the wire.
var embeddingKinds = map[conclavev1.Embedding_Part_Kind]embedding.Kind{
	conclavev1.Embedding_Part_KIND_ONES:    embedding.Ones,
	conclavev1.Embedding_Part_KIND_COLUMNS: embedding.Columns,
	conclavev1.Embedding_Part_KIND_PAIRS:   embedding.Pairs,
	conclavev1.Embedding_Part_KIND_FOURIER: embedding.Fourier,
}

func (n *Node) checkEmbeddingSum(q *conclavev1.EmbeddingSum) (*embeddingAsked, error) {
	if q.Bound < minBound || q.Bound > maxBound {
		return nil, fmt.Errorf("the fixed-point bound of an embedding is %d; use %d to %d", q.Bound, minBound, maxBound)
	}
	features, err := n.embedding(q.Embedding)
	if err != nil {
		return nil, err
	}
	if want := n.classes * features.Count(); int64(q.Entries) != int64(want) {
		return nil, fmt.Errorf("an embedding of %d entries where the schema's has %d; use the same schema and version at both sides", q.Entries, want)
	}
	return &embeddingAsked{features: features, bound: int64(q.Bound), nothing: q.Nothing}, nil
}

// embedding makes the features that a description names, or finds the last ones.
func (n *Node) embedding(d *conclavev1.Embedding) (*embedding.Features, error) {
	if d == nil {
		return nil, errors.New("the question does not describe its embedding")
	}
	if n.embedded != nil && proto.Equal(n.embedded.spec, d) {
		return n.embedded.features, nil
	}
	if int64(d.Classes) != int64(n.classes) {
		return nil, fmt.Errorf("an embedding of %d classes; the schema has %d, so use the same schema at both sides", d.Classes, n.classes)
	}
	var parts []embedding.Part
	for i, p := range d.Parts {
		kind, known := embeddingKinds[p.GetKind()]
		if !known {
			return nil, fmt.Errorf("part %d of the embedding is of kind %v, which this node does not know; update it", i+1, p.GetKind())
		}
		parts = append(parts, embedding.Part{
			Kind: kind, Weight: p.GetWeight(), Bins: int(p.GetBins()), Count: int(p.GetCount()), Spread: p.GetSpread(), Seed: p.GetSeed(),
		})
	}
	features, err := embedding.New(partition.NewEncoder(n.schema), n.classes, parts)
	if err != nil {
		return nil, err
	}
	n.embedded = &embedded{spec: proto.Clone(d).(*conclavev1.Embedding), features: features}
	return features, nil
}

// embeddingSum returns the sum of the features of all records, in whole steps, class by
// class.
//
// A unit of k records adds for each of them whole numbers with an L2 norm of at most
// bound/k, so at most bound in all; [gnmax.Encode] checks that on the whole numbers
// themselves. They do not depend on other units. A record without usable features adds
// nothing, and no error says so.
func (n *Node) embeddingSum(a *embeddingAsked) ([]int64, error) {
	count := a.features.Count()
	sum := make([]int64, n.classes*count)
	if a.nothing {
		return sum, nil
	}
	var x []float32
	var of []member
	flush := func() {
		a.features.Each(x, len(of), func(i int, at []int32, values []float32) {
			steps, err := gnmax.Encode(of[i].fixed, values)
			if err != nil {
				return // of one record
			}
			block := sum[of[i].class*count : (of[i].class+1)*count]
			for j, v := range steps {
				block[at[j]] += v
			}
		})
		x, of = x[:0], of[:0]
	}
	scales := map[int]gnmax.FixedPoint{}
	for _, unit := range n.units {
		fixed, known := scales[len(unit)]
		if !known && a.bound/int64(len(unit)) > 0 {
			var err error
			if fixed, err = gnmax.NewFixedPoint(a.features.Norm(), a.bound/int64(len(unit))); err != nil {
				return nil, err
			}
		}
		scales[len(unit)] = fixed // of more records than steps none, which encodes nothing
		for _, r := range unit {
			x = append(x, n.examples[r.teacher].ByClass[r.class][r.at*n.features:(r.at+1)*n.features]...)
			if of = append(of, member{r.class, fixed}); len(of) == sampleChunk {
				flush()
			}
		}
	}
	flush()
	return sum, nil
}

// member is a record of a unit, with the steps of a unit of so many.
type member struct {
	class int
	fixed gnmax.FixedPoint
}
