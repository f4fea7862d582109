package aggregator

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// BenchmarkRound is a whole round through TLS and etcd: 1,000 teachers on one
// node, 64 queries. The node answers with votes packed before, so what is
// measured is the aggregator and the wire, not the teachers.
func BenchmarkRound(b *testing.B) {
	c := newCluster(b, Options{})
	student := c.student(b)
	d := c.dataset()
	packed := packVotes(1000, 64, 2, alternating)
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
		student.mustAsk(b, voteRound(spec.Name, number, 64))
		number++
	}
}

// taking is a stream that takes every message.
type taking struct{}

func (taking) SendMsg(any) error { return nil }

// BenchmarkNodes is a round without wire and etcd: nodes of one teacher are asked, and their
// answers to 64 queries added up. The time for each node must not depend on their number.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{250, 1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := newDataset(coordinator.Dataset{Name: "d"})
			var streams sync.WaitGroup
			for i := range n {
				node := liveNode(fmt.Sprintf("s%d", i), 1)
				node.Attach(taking{}, &streams, func(err error) { b.Error(err) })
				d.join(node)
			}
			pb := goodSpec()
			pb.Teachers = uint32(n)
			spec, err := newRunSpec(pb)
			testkit.Must(b, err)
			q := &voteQuestion{asked: 64, classes: 2}
			answer := votes(1, alternating)(voteRound("r", 0, 64))[0]
			for b.Loop() {
				e := newExecution(&payload{key: roundKey{"r", 0}}, 1, spec, d, q, []encoded{{1}})
				finished, err := e.step(d.Live(), time.Now())
				testkit.Must(b, err)
				for _, node := range d.Live() {
					testkit.Must(b, e.take(node, answer))
					select {
					case <-e.woken: // as collect does
						finished, err = e.step(d.Live(), time.Now())
						testkit.Must(b, err)
					default:
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

// BenchmarkAnswer is the noise of a round: 64 queries, two counts each.
func BenchmarkAnswer(b *testing.B) {
	for name, p := range map[string]privacy.Planned{
		"lnmax":     histograms(planned(runspec.Votes, lnMax(0.01), 0)),
		"gnmax":     histograms(planned(runspec.Votes, gnMax(40), 0)),
		"confident": planned(runspec.Votes, confidentMax(300, 50, 40), 0),
	} {
		b.Run(name, func(b *testing.B) {
			mechanism, err := voteMechanism(p)
			testkit.Must(b, err)
			q := &voteQuestion{asked: 64, classes: 2, mechanism: mechanism, whole: p.Variant == privacy.Histogram}
			counts, err := tallyVotes(packVotes(1000, 64, 2, alternating), 1000, 64, 2)
			testkit.Must(b, err)
			for b.Loop() {
				if _, err := q.answer(gnmax.NewSource(), counts, &conclavev1.Release{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
