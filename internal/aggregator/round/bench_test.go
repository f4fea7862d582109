package round_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/shape"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// taking is a stream that takes every message.
type taking struct{}

func (taking) SendMsg(any) error { return nil }

// BenchmarkNodes measures a round without wire and etcd: it asks nodes with one teacher and adds up their answers to
// 64 queries. The time per node must not depend on their number.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{250, 1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := round.NewDataset(coordinator.Dataset{Name: "d"}, 1)
			var streams sync.WaitGroup
			for i := range n {
				node := peer.NewNode(nil)
				node.ID, node.Teachers = peer.ID{Site: fmt.Sprintf("s%d", i), Name: "a"}, 1
				node.Inquire("r", 1)
				node.Decide("r", 1, peer.Permitted, "", nil)
				node.Attach(taking{}, &streams, func(err error) { b.Error(err) })
				d.Join(node)
			}
			pb := roundtest.Spec()
			pb.Teachers = uint32(n)
			run, err := spec.New(pb)
			testkit.Must(b, err)
			question := roundtest.VoteRound("r", 0, 64)
			q, err := shape.Parser(nil)(question, run, nil)
			testkit.Must(b, err)
			answer := roundtest.Votes(1, roundtest.Alternating)(question)[0]
			for b.Loop() {
				e := round.NewTrial(0, run, q)
				finished, err := e.Step(d.Live())
				testkit.Must(b, err)
				for _, node := range d.Live() {
					testkit.Must(b, e.Take(node, answer))
					if e.Due() { // as collect does
						finished, err = e.Step(d.Live())
						testkit.Must(b, err)
					}
				}
				if !finished {
					b.Fatal("not finished")
				}
				streams.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}
