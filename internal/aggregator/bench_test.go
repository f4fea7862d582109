package aggregator

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// BenchmarkRound measures a whole round through TLS and etcd: 1,000 teachers on one node, 64 queries. The node
// answers with prepared votes, so the benchmark covers the aggregator and the wire, but no teachers.
func BenchmarkRound(b *testing.B) {
	c := newCluster(b, Options{})
	student := c.student(b)
	d := c.dataset()
	packed := roundtest.PackVotes(1000, 64, 2, roundtest.Alternating)
	c.node(b, hello(d, "north", "a", 1000), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
			Run: r.GetRun(), Round: r.GetNumber(), Teachers: 1000, Queries: 64, Packed: packed,
		}}}}
	})
	spec, _ := student.open(b, d, func(s *conclavev1.RunSpec) {
		s.Teachers, s.Plan[0].Mechanism.Sigma, s.Epsilon = 1000, 1000, 100
	})
	number := uint64(0)
	for b.Loop() {
		student.mustAsk(b, roundtest.VoteRound(spec.Name, number, 64))
		number++
	}
}
