package aggregator

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// sizes are those of a question to a node.
type sizes struct{ teachers, queries, classes int }

func drawSizes(t *rapid.T) sizes {
	return sizes{
		teachers: rapid.IntRange(1, 20).Draw(t, "teachers"),
		queries:  rapid.IntRange(1, 20).Draw(t, "queries"),
		classes:  rapid.SampledFrom([]int{2, 3, 4, 5, 10, 16, 17, 200, 256}).Draw(t, "classes"),
	}
}

func (s sizes) honest(t *rapid.T, name string) []byte {
	votes := rapid.SliceOfN(rapid.IntRange(0, s.classes-1), s.teachers*s.queries, s.teachers*s.queries).Draw(t, name)
	return packVotes(s.teachers, s.queries, s.classes, func(t, q int) int { return votes[t*s.queries+q] })
}

// Whatever one teacher puts in the place of its packed votes: either the node's whole answer
// is turned down, or for each query one vote went from one class to another, or stayed. So
// no count moves by more than one.
func TestOneTeacherMovesAHistogramByAtMostOne(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawSizes(t)
		packed := s.honest(t, "votes")
		before, err := tallyVotes(packed, s.teachers, s.queries, s.classes)
		if err != nil {
			t.Fatal(err)
		}
		row := voteRowBytes(s.queries, s.classes)
		at := rapid.IntRange(0, s.teachers-1).Draw(t, "the teacher") * row
		// Any bytes, which are mostly refused, and honest bytes with some changed.
		forged := append([]byte(nil), packed[at:at+row]...)
		if rapid.Bool().Draw(t, "any bytes") {
			forged = rapid.SliceOfN(rapid.Byte(), row, row).Draw(t, "bytes")
		} else {
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				forged[rapid.IntRange(0, row-1).Draw(t, "place")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			}
		}
		copy(packed[at:], forged)
		after, err := tallyVotes(packed, s.teachers, s.queries, s.classes)
		if err != nil {
			refused++
			return
		}
		accepted++
		for q := range s.queries {
			gone, come := 0, 0
			for c := range s.classes {
				switch d := after[q*s.classes+c] - before[q*s.classes+c]; d {
				case 0:
				case 1:
					come++
				case -1:
					gone++
				default:
					t.Fatalf("query %d: count %d moves by %d", q, c, d)
				}
			}
			if gone != come || come > 1 {
				t.Fatalf("query %d: %d votes come and %d go", q, come, gone)
			}
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("%d forged votes were accepted and %d refused; both should happen", accepted, refused)
	}
}

// Whatever a node says on however many streams, in whatever order, with honest nodes between:
// the histogram is that of honest nodes and, for each query, either nothing of it or one
// vote of each of its teachers.
func TestOneNodeMovesAHistogramByAtMostItsTeachers(t *testing.T) {
	counted := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawSizes(t)
		q := &voteQuestion{asked: s.queries, classes: s.classes}
		spec := &runSpec{pb: &conclavev1.RunSpec{Name: "r", Teachers: 1000}, quorum: 1000}
		e := newExecution(&payload{key: roundKey{"r", 3}}, 7, spec, nil, q, nil)
		join := func(site string) *peer.Node {
			n := peer.NewNode(nil)
			n.ID, n.Teachers = peer.ID{Site: site, Name: "a"}, uint32(s.teachers)
			e.mu.Lock()
			e.participants.ask(e.participants.of(n.ID).on(n))
			e.mu.Unlock()
			return n
		}
		answer := func(packed []byte) *conclavev1.WorkRequest {
			return &conclavev1.WorkRequest{Attempt: 7, Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
				Run: "r", Round: 3, Teachers: uint32(s.teachers), Queries: uint32(s.queries), Packed: packed,
			}}}
		}
		honest := make([]int64, s.queries*s.classes)
		streams := []*peer.Node{join("mallory")}
		for i := range rapid.IntRange(1, 12).Draw(t, "messages") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0: // an honest node answers
				packed := s.honest(t, "honest")
				counts, err := tallyVotes(packed, s.teachers, s.queries, s.classes)
				if err != nil {
					t.Fatal(err)
				}
				if err := e.take(join(fmt.Sprint("site", i)), answer(packed)); err != nil {
					t.Fatalf("an honest answer was turned down: %v", err)
				}
				for j, c := range counts {
					honest[j] += c
				}
			case 1: // it comes back on a new stream, or on a stream that was not asked
				n := join("mallory")
				if rapid.Bool().Draw(t, "not asked") {
					e.participants.of(n.ID).on(n).state = unsent
				}
				streams = append(streams, n)
			default:
				m := answer(s.honest(t, "votes"))
				v := m.GetVotes()
				switch rapid.IntRange(0, 5).Draw(t, "forgery") {
				case 0:
					v.Packed = rapid.SliceOfN(rapid.Byte(), 0, 2*len(v.Packed)).Draw(t, "bytes")
				case 1:
					v.Teachers = rapid.Uint32().Draw(t, "teachers")
				case 2:
					v.Queries = rapid.Uint32().Draw(t, "queries")
				case 3:
					m.Message = &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: "r", Round: 3, Values: rapid.SliceOfN(rapid.Int64(), len(honest), len(honest)).Draw(t, "sum")}}
				}
				_ = e.take(rapid.SampledFrom(streams).Draw(t, "stream"), m)
			}
		}
		theirs := int64(-1) // votes of the node on the first query; the same on all
		for i := range s.queries {
			total := int64(0)
			for c := range s.classes {
				moved := e.counts[i*s.classes+c] - honest[i*s.classes+c]
				if moved < 0 || moved > int64(s.teachers) {
					t.Fatalf("query %d: a node of %d teachers moves count %d by %d", i, s.teachers, c, moved)
				}
				total += moved
			}
			if theirs < 0 {
				theirs = total
			}
			if total != theirs || total != 0 && total != int64(s.teachers) {
				t.Fatalf("query %d: %d votes of a node of %d teachers", i, total, s.teachers)
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
