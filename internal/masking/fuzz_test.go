package masking

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// FuzzParse reads groups as they might stand in a spec. One that is taken can hide sums, and is written as it was read.
func FuzzParse(f *testing.F) {
	key := func(b byte) []byte { return slices.Repeat([]byte{b}, 32) }
	two := []*conclavev1.Member{{Site: "a", Key: key(1)}, {Site: "b", Key: key(2)}}
	for _, m := range []*conclavev1.Masked{
		{}, {Members: two, Quorum: 2, Colluding: 1}, {Members: two, Quorum: 2}, {Members: two[:1], Quorum: 1},
		{Members: two, Quorum: math.MaxUint32, Colluding: math.MaxUint32}, {Members: two, Quorum: 1},
		{Members: []*conclavev1.Member{two[1], two[0], nil}, Quorum: 2},
		{Members: []*conclavev1.Member{{Site: "a", Key: key(1)[:31]}, two[1]}, Quorum: 2},
	} {
		f.Add(testkit.Value(proto.Marshal(m)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(conclavev1.Masked)
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		g, err := Parse(m)
		if err != nil {
			return
		}
		n := len(g.Members)
		if n < 2 || n > MaxMembers || 2*g.Quorum <= n+g.Colluding || g.Quorum > n || g.Honest() < 1 ||
			g.Honest() > n || !(g.Surplus(n) >= 1) {
			t.Fatalf("taken is %+v", g)
		}
		again, err := Parse(g.Wire())
		if err != nil || !slices.Equal(again.Members, g.Members) || again.Quorum != g.Quorum ||
			again.Colluding != g.Colluding {
			t.Fatalf("%+v is written as %+v, %v", g, again, err)
		}
	})
}
