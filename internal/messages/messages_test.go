package messages

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestMessagesInAQuestionAreCounted(t *testing.T) {
	scores := &conclavev1.ScoreSum{Bound: 256}
	for range 4096 {
		scores.Discriminators = append(scores.Discriminators, &conclavev1.ScoreSum_Scored{
			Discriminator: &conclavev1.Discriminator{Hidden: 3}, Weights: make([]byte, 8), Mean: &conclavev1.Tensor{},
			Scale: &conclavev1.Tensor{},
		})
	}
	raw, err := proto.Marshal(scores)
	testkit.Must(t, err)
	of := scores.ProtoReflect().Descriptor()
	if n := Count(raw, of, 1<<15); n != 1+4*4096 {
		t.Errorf("%d messages in the largest question there is, want %d", n, 1+4*4096)
	}
}

// A text of a list takes 16 bytes in memory and 2 on the wire.
func TestTextsOfListsAreCounted(t *testing.T) {
	worker := &conclavev1.ClaimRunRequest{Message: &conclavev1.ClaimRunRequest_Worker{
		Worker: &conclavev1.Worker{Name: "w", Folders: make([]string, 50)}}}
	raw, err := proto.Marshal(worker)
	testkit.Must(t, err)
	if n := Count(raw, worker.ProtoReflect().Descriptor(), 1000); n != 52 {
		t.Errorf("%d messages and texts, want 52", n)
	}
}

// What cannot be read is for the decoder: nothing panics, and counting ends.
func TestMessagesInAnything(t *testing.T) {
	of := new(conclavev1.ScoreSum).ProtoReflect().Descriptor()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		if n := Count(raw, of, 20); n < 1 || n > 41 {
			t.Fatalf("%d messages in %d bytes", n, len(raw))
		}
	})
}
