package aggregator

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// packVotes writes votes bit by bit, as teacher.proto describes them and
// without any of the code under test.
func packVotes(teachers, queries, classes int, vote func(teacher, query int) int) []byte {
	bits := 1
	for 1<<bits < classes {
		bits *= 2
	}
	row := (queries*bits + 7) / 8
	packed := make([]byte, teachers*row)
	for t := range teachers {
		for q := range queries {
			for b := range bits {
				at := q*bits + b
				packed[t*row+at/8] |= byte(vote(t, q)>>b&1) << (at % 8)
			}
		}
	}
	return packed
}

func TestTallyVotesCountsEveryVote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		teachers := rapid.IntRange(1, 600).Draw(t, "teachers")
		queries := rapid.IntRange(1, 140).Draw(t, "queries") // of one bit up to two words
		classes := rapid.SampledFrom([]int{2, 2, 2, 3, 4, 5, 10, 16, 17, 200, 256}).Draw(t, "classes")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		agree := rapid.Bool().Draw(t, "agree")
		votes := make([]int, teachers*queries)
		want := make([]int64, queries*classes)
		for i := range votes {
			if votes[i] = random.IntN(classes); agree {
				votes[i] = classes - 1 // so that counts are as large as they get
			}
			want[i%queries*classes+votes[i]]++
		}
		packed := packVotes(teachers, queries, classes, func(t, q int) int { return votes[t*queries+q] })
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
			if _, err := tallyVotes(c.packed, c.teachers, c.queries, c.classes); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// FuzzVotes decodes a node's votes from the wire: no input may panic, and
// whatever is accepted adds up to one vote per teacher and query.
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
		q := &voteQuestion{asked: int(queries), classes: int(classes)}
		counts, err := q.read(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &votes}}, uint32(teachers))
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
		again := packVotes(int(teachers), q.asked, q.classes, unpackVotes(votes.GetPacked(), q.asked, q.classes))
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

// BenchmarkTally is the unpacking of 1,000 teachers' votes on 64 queries.
func BenchmarkTally(b *testing.B) {
	for _, classes := range []int{2, 10} {
		packed := packVotes(1000, 64, classes, func(t, q int) int { return (t*7 + q) % classes })
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
