package shape

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/votebits"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// sizes are the sizes of a question to a node.
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
	return roundtest.PackVotes(s.teachers, s.queries, s.classes, func(t, q int) int { return votes[t*s.queries+q] })
}

// Whatever bytes replace one teacher's packed votes, either the node's whole answer is refused, or each query's vote
// moves to another class or stays. So no count moves by more than one.
func TestOneTeacherMovesAHistogramByAtMostOne(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawSizes(t)
		packed := s.honest(t, "votes")
		before, err := tallyVotes(packed, s.teachers, s.queries, s.classes)
		if err != nil {
			t.Fatal(err)
		}
		row := votebits.Row(s.queries, s.classes)
		at := rapid.IntRange(0, s.teachers-1).Draw(t, "the teacher") * row
		// Random bytes, which are mostly refused, and honest bytes with some changes.
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

func TestTallyVotesCountsEveryVote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		teachers := rapid.IntRange(1, 600).Draw(t, "teachers")
		queries := rapid.IntRange(1, 140).Draw(t, "queries") // from one bit up to two words
		classes := rapid.SampledFrom([]int{2, 2, 2, 3, 4, 5, 10, 16, 17, 200, 256}).Draw(t, "classes")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		agree := rapid.Bool().Draw(t, "agree")
		votes := make([]int, teachers*queries)
		want := make([]int64, queries*classes)
		for i := range votes {
			if votes[i] = random.IntN(classes); agree {
				votes[i] = classes - 1 // makes counts as large as possible
			}
			want[i%queries*classes+votes[i]]++
		}
		packed := roundtest.PackVotes(teachers, queries, classes, func(t, q int) int { return votes[t*queries+q] })
		got, err := tallyVotes(packed, teachers, queries, classes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestTallyVotesRefusesWhatIsNotPacked(t *testing.T) {
	for name, c := range map[string]struct {
		packed                     []byte
		teachers, queries, classes int
		want                       string
	}{
		"too short":                {make([]byte, 3), 2, 16, 2, "3 bytes"},
		"too long":                 {make([]byte, 5), 2, 16, 2, "5 bytes"},
		"empty":                    {nil, 1, 1, 2, "0 bytes"},
		"padding of the first row": {[]byte{0x08, 0}, 2, 3, 2, "padding"},
		"padding of the last row":  {[]byte{0, 0x80}, 2, 3, 2, "padding"},
		"padding of wide votes":    {[]byte{0x40}, 1, 3, 4, "padding"},
		"class 3 of 3":             {[]byte{0x03}, 1, 1, 3, "out of range"},
		"class 15 of 10":           {[]byte{0xf0}, 1, 2, 10, "out of range"},
		"class 255 of 200":         {[]byte{0xff}, 1, 1, 200, "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tallyVotes(c.packed, c.teachers, c.queries, c.classes); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// An answer is refused if it does not match the number of teachers and queries.
func TestVotesOfOthersAreRejected(t *testing.T) {
	q := &Votes{asked: 3, classes: 2}
	for want, v := range map[string]*conclavev1.Votes{
		"":                            {Teachers: 5, Queries: 3, Packed: []byte{1, 2, 3, 4, 5}},
		"votes of 6 teachers":         {Teachers: 6, Queries: 3, Packed: make([]byte, 6)},
		"votes of 4 teachers":         {Teachers: 4, Queries: 3, Packed: make([]byte, 4)},
		"votes of 0 teachers":         {Queries: 3},
		"votes on 4 queries":          {Teachers: 5, Queries: 4, Packed: make([]byte, 5)},
		"votes on 2 queries":          {Teachers: 5, Queries: 2, Packed: make([]byte, 5)},
		"1048576 bytes of votes":      {Teachers: 5, Queries: 3, Packed: make([]byte, 1<<20)},
		"padding bits after the last": {Teachers: 5, Queries: 3, Packed: []byte{0, 0, 0, 0, 0x80}},
	} {
		_, err := q.Read(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: v}}, 5)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzVotes decodes a node's votes from the wire: no input may panic, and accepted votes add up to one vote per
// teacher and query.
func FuzzVotes(f *testing.F) {
	seed := func(v *conclavev1.Votes) []byte {
		raw, err := proto.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	f.Add(seed(&conclavev1.Votes{Teachers: 2, Queries: 3, Packed: []byte{5, 2}}), uint8(2), uint8(2), uint8(3))
	f.Add(seed(&conclavev1.Votes{Teachers: 1, Queries: 3, Packed: []byte{0xff}}), uint8(2), uint8(1), uint8(3))
	f.Add(seed(&conclavev1.Votes{Teachers: 1, Queries: 2, Packed: []byte{0x21}}), uint8(10), uint8(1), uint8(2))
	f.Add([]byte{0xff, 0x01}, uint8(2), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, classes, teachers, queries uint8) {
		var votes conclavev1.Votes
		if proto.Unmarshal(raw, &votes) != nil || classes < 2 || teachers == 0 || queries == 0 {
			return
		}
		q := &Votes{asked: int(queries), classes: int(classes)}
		counts, err := q.Read(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &votes}},
			uint32(teachers))
		if err != nil {
			return
		}
		for i := range q.asked {
			total := int64(0)
			for _, c := range counts[i*q.classes : (i+1)*q.classes] {
				if c < 0 {
					t.Fatalf("query %d has a negative count", i)
				}
				total += c
			}
			if total != int64(teachers) {
				t.Fatalf("query %d has %d votes of %d teachers", i, total, teachers)
			}
		}
		again := roundtest.PackVotes(int(teachers), q.asked, q.classes,
			unpackVotes(votes.GetPacked(), q.asked, q.classes))
		if diff := cmp.Diff(again, votes.GetPacked()); diff != "" {
			t.Fatalf("accepted votes have a second packed form: %s", diff)
		}
	})
}

func unpackVotes(packed []byte, queries, classes int) func(t, q int) int {
	bits := 1
	for 1<<bits < classes {
		bits *= 2
	}
	row := (queries*bits + 7) / 8
	return func(t, q int) int {
		v := 0
		for b := range bits {
			at := q*bits + b
			v |= int(packed[t*row+at/8]>>(at%8)&1) << b
		}
		return v
	}
}

// BenchmarkTally measures the unpacking of 1,000 teachers' votes on 64 queries.
func BenchmarkTally(b *testing.B) {
	for _, classes := range []int{2, 10} {
		packed := roundtest.PackVotes(1000, 64, classes, func(t, q int) int { return (t*7 + q) % classes })
		name := map[int]string{2: "bits", 10: "ten-classes"}[classes]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tallyVotes(packed, 1000, 64, classes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
