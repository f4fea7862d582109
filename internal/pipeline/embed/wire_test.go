package embed

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The round that is sent to nodes agrees with the options.
func TestEmbeddingRounds(t *testing.T) {
	schema := partitiontest.Schema(t, partitiontest.Wide)
	e, o := encode.New(schema), DefaultOptions()
	o.Features = Features{
		Count: 0.5, Columns: 1, Pairs: 2, Bins: 9, PairBins: 6, MostPairs: 3, Fourier: 3, Waves: 30,
		Scales: []float64{2},
	}
	o = o.ChosenFor(e, 2, 0)
	q, err := o.Question(e, 2)
	testkit.Must(t, err)
	r := roundOf(0, q, 1<<12, true)
	got := new(conclavev1.EmbeddingSum)
	testkit.Must(t, proto.Unmarshal(r.GetParams(), got))
	var kinds []conclavev1.Embedding_Part_Kind
	var weights []float64
	for _, p := range got.GetEmbedding().GetParts() {
		kinds, weights = append(kinds, p.Kind), append(weights, p.Weight)
	}
	wantKinds := []conclavev1.Embedding_Part_Kind{
		conclavev1.Embedding_Part_KIND_ONES, conclavev1.Embedding_Part_KIND_COLUMNS,
		conclavev1.Embedding_Part_KIND_PAIRS, conclavev1.Embedding_Part_KIND_FOURIER,
	}
	if !slices.Equal(kinds, wantKinds) || !slices.Equal(weights, []float64{0.5, 1, 2, 3}) ||
		q.Norm != math.Sqrt(0.25+1+4+9) {
		t.Errorf("parts %v of weights %v, norm %v", kinds, weights, q.Norm)
	}
	if got.Entries != uint32(q.Entries) || got.Bound != 1<<12 || !got.Nothing || got.Embedding.Classes != 2 ||
		r.Number != 0 {
		t.Errorf("round %v", r)
	}
	if p := got.Embedding.Parts[2]; p.Bins != 6 || p.Count != 3 {
		t.Errorf("pairs %v", p)
	}
	if p := got.Embedding.Parts[3]; p.Count != 30 || p.Spread != 0.5 {
		t.Errorf("waves %v", p)
	}
}

// The fixed-point unit is the finest for which noise can be drawn, and one that aggregators accept.
func TestBoundsOfEmbeddings(t *testing.T) {
	for _, c := range []struct {
		sigma float64
		want  int64
	}{{0.5, 1 << 20}, {512, 1 << 20}, {512.5, 1 << 19}, {1024, 1 << 19}, {1 << 20, 1 << 9}, {1 << 21, 1 << 8},
		{1<<21 + 1, 1 << 7}} {
		if got := Bound(c.sigma); got != c.want {
			t.Errorf("sigma %v: bound %d, want %d", c.sigma, got, c.want)
		}
	}
	testkit.Same(t, "", []int64{1 << 9, 1 << 20}, []int64{leastBound, mostBound})
}
