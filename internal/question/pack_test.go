package question_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
)

func TestPackedVotesComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, classes := range []int{2, 3, 4, 5, 16, 17, 256} {
		for _, queries := range []int{1, 2, 3, 7, 8, 9, 64, 65} {
			const teachers = 5
			votes := make([]uint8, teachers*queries)
			for i := range votes {
				votes[i] = uint8(rng.IntN(classes))
			}
			packed := (&question.Histogram{Queries: queries, Classes: classes}).Pack(votes)
			if got := questiontest.Unpack(t, packed, teachers, queries, classes); !slices.Equal(got, votes) {
				t.Errorf("%d classes, %d queries: %v came back as %v", classes, queries, votes, got)
			}
		}
	}
	// Written by hand from the contract: low bits first, rows of whole bytes.
	nine := question.Histogram{Queries: 9, Classes: 2}
	got := nine.Pack([]uint8{1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	if !slices.Equal(got, []byte{0x0d, 0x01, 0x00, 0x00}) {
		t.Errorf("packed %x", got)
	}
	got = (&question.Histogram{Queries: 5, Classes: 4}).Pack([]uint8{3, 0, 2, 1, 1})
	if !slices.Equal(got, []byte{0x63, 0x01}) {
		t.Errorf("packed %x", got)
	}
}
