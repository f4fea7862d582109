package round_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/shape"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A node may say anything on any number of streams in any order, between honest nodes. The histogram still has the
// honest votes plus, for each query, nothing from the node or one vote of each of its teachers.
func TestOneNodeMovesAHistogramByAtMostItsTeachers(t *testing.T) {
	counted := 0
	rapid.Check(t, func(t *rapid.T) {
		teachers := rapid.IntRange(1, 20).Draw(t, "teachers")
		queries := rapid.IntRange(1, 20).Draw(t, "queries")
		classes := rapid.SampledFrom([]int{2, 3, 4, 5, 10, 16, 17, 200, 256}).Draw(t, "classes")
		run := &spec.Spec{PB: &conclavev1.RunSpec{Name: "r", Teachers: 1000}, Quorum: 1000}
		question := roundtest.VoteRound("r", 3, queries)
		question.GetVotes().Classes = uint32(classes)
		q := testkit.Value(shape.Parser(nil)(question, testkit.Value(spec.New(roundtest.Spec())), nil))
		e := round.NewTrial(3, run, q)
		join := func(site string) *peer.Node {
			n := peer.NewNode(nil)
			n.ID, n.Teachers = peer.ID{Site: site, Name: "a"}, uint32(teachers)
			e.Ask(n)
			return n
		}
		answer := func(name string) *conclavev1.WorkRequest {
			votes := rapid.SliceOfN(rapid.IntRange(0, classes-1), teachers*queries, teachers*queries).Draw(t, name)
			packed := roundtest.PackVotes(teachers, queries, classes, func(t, q int) int { return votes[t*queries+q] })
			return &conclavev1.WorkRequest{Attempt: 1, Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
				Run: "r", Round: 3, Teachers: uint32(teachers), Queries: uint32(queries), Packed: packed,
			}}}
		}
		honest := make([]int64, queries*classes)
		streams := []*peer.Node{join("mallory")}
		for i := range rapid.IntRange(1, 12).Draw(t, "messages") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0: // an honest node answers
				m := answer("honest")
				counts, err := q.Read(m, uint32(teachers))
				if err != nil {
					t.Fatal(err)
				}
				if err := e.Take(join(fmt.Sprint("site", i)), m); err != nil {
					t.Fatalf("an honest answer was rejected: %v", err)
				}
				for j, c := range counts {
					honest[j] += c
				}
			case 1: // it returns on a new stream, or on a stream that was not asked
				n := join("mallory")
				if rapid.Bool().Draw(t, "not asked") {
					e.Forget(n)
				}
				streams = append(streams, n)
			default:
				m := answer("votes")
				v := m.GetVotes()
				switch rapid.IntRange(0, 5).Draw(t, "forgery") {
				case 0:
					v.Packed = rapid.SliceOfN(rapid.Byte(), 0, 2*len(v.Packed)).Draw(t, "bytes")
				case 1:
					v.Teachers = rapid.Uint32().Draw(t, "teachers")
				case 2:
					v.Queries = rapid.Uint32().Draw(t, "queries")
				case 3:
					m.Message = &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: "r", Round: 3,
						Values: rapid.SliceOfN(rapid.Int64(), len(honest), len(honest)).Draw(t, "sum")}}
				}
				_ = e.Take(rapid.SampledFrom(streams).Draw(t, "stream"), m)
			}
		}
		theirs := int64(-1) // the node's votes on the first query; the same on all
		for i := range queries {
			total := int64(0)
			for c := range classes {
				moved := e.Counts()[i*classes+c] - honest[i*classes+c]
				if moved < 0 || moved > int64(teachers) {
					t.Fatalf("query %d: a node of %d teachers moves count %d by %d", i, teachers, c, moved)
				}
				total += moved
			}
			if theirs < 0 {
				theirs = total
			}
			if total != theirs || total != 0 && total != int64(teachers) {
				t.Fatalf("query %d: %d votes of a node of %d teachers", i, total, teachers)
			}
		}
		if theirs > 0 {
			counted++
		}
	})
	if counted == 0 {
		t.Error("no node was counted at all")
	}
}
