package embedding

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Sum asks for the sum of the vectors of all records, by class.
var Sum = question.Kind{Name: "embedding", Read: question.Typed(readSum), Streams: true}

// last is the embedding that a node was asked about last.
type last struct {
	spec     *conclavev1.Embedding
	features *Features
}

var kinds = map[conclavev1.Embedding_Part_Kind]Kind{
	conclavev1.Embedding_Part_KIND_ONES:    Ones,
	conclavev1.Embedding_Part_KIND_COLUMNS: Columns,
	conclavev1.Embedding_Part_KIND_PAIRS:   Pairs,
	conclavev1.Embedding_Part_KIND_FOURIER: Fourier,
	conclavev1.Embedding_Part_KIND_PATCHES: Patches,
}

func readSum(p *question.Public, q *conclavev1.EmbeddingSum) (*question.Checked, error) {
	if err := question.CheckBound("an embedding", q.Bound); err != nil {
		return nil, err
	}
	features, err := described(p, q.Embedding)
	if err != nil {
		return nil, err
	}
	entries := p.Classes * features.Count()
	if int64(q.Entries) != int64(entries) {
		return nil, fmt.Errorf("an embedding of %d entries, want %d by the schema; use the same schema and version "+
			"on both sides", q.Entries, entries)
	}
	return &question.Checked{
		Shape:    question.Shape{Sum: &question.Vector{Entries: entries, Bound: int64(q.Bound), Rate: 1}},
		Baseline: q.Nothing,
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			if q.Nothing {
				return make([]int64, entries), nil
			}
			return features.sum(s, int64(q.Bound))
		},
	}, nil
}

// described makes the features for a description, or returns the last ones.
func described(p *question.Public, d *conclavev1.Embedding) (*Features, error) {
	if d == nil {
		return nil, errors.New("the question does not describe its embedding")
	}
	l := question.Memory[last](p)
	if l.features != nil && proto.Equal(l.spec, d) {
		return l.features, nil
	}
	if int64(d.Classes) != int64(p.Classes) {
		return nil, fmt.Errorf("an embedding of %d classes; the schema has %d, use the same schema on both sides",
			d.Classes, p.Classes)
	}
	var parts []Part
	for i, part := range d.Parts {
		kind, known := kinds[part.GetKind()]
		if !known {
			return nil, fmt.Errorf("part %d of the embedding has the kind %v, which is unknown to this node; update "+
				"the node",
				i+1, part.GetKind())
		}
		parts = append(parts, Part{
			Kind: kind, Weight: part.GetWeight(), Bins: int(part.GetBins()), Count: int(part.GetCount()),
			Spread: part.GetSpread(), Seed: part.GetSeed(),
		})
	}
	features, err := New(encode.New(p.Schema), p.Classes, parts)
	if err != nil {
		return nil, err
	}
	*l = last{proto.Clone(d).(*conclavev1.Embedding), features}
	return features, nil
}

// sum returns the sum of the features of all records, in whole steps, class by class.
//
// For each of its k records a unit adds integers with an L2 norm of at most bound/k, so at most bound in total;
// [gnmax.Encode] checks that on the integers themselves. They depend neither on other records nor on the division
// into blocks: a product's row depends only on its own row (package gemm). A record without usable features adds
// nothing, without an error.
func (f *Features) sum(s *question.Site, bound int64) ([]int64, error) {
	if _, err := gnmax.NewFixedPoint(f.Norm(), bound); err != nil {
		return nil, err
	}
	return s.Add(s.Classes*f.count, func() question.Adder {
		e := f.newEach()
		scales, steps := map[int]gnmax.FixedPoint{}, []int64(nil)
		return func(b *question.Block, sum []int64) {
			e.visit(b.Records, len(b.Classes), func(i int, at []int32, values []float32) {
				_, of := b.Place(i)
				fixed, known := scales[of]
				if !known {
					fixed = f.scale(bound / int64(of))
					scales[of] = fixed
				}
				var err error
				if steps, err = gnmax.AppendEncoded(steps[:0], fixed, values); err != nil {
					return // of one record
				}
				block := sum[b.Classes[i]*f.count : (b.Classes[i]+1)*f.count]
				for j, v := range steps {
					block[at[j]] += v
				}
			})
		}
	})
}

// scale is the factor that encodes a record with the given steps; with none it encodes nothing.
func (f *Features) scale(steps int64) gnmax.FixedPoint {
	fixed, err := gnmax.NewFixedPoint(f.Norm(), max(1, steps))
	if err != nil || steps < 1 {
		return gnmax.FixedPoint{}
	}
	return fixed
}
