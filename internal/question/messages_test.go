package question

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
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
	if n := messagesIn(raw, of, maxMessages); n != 1+4*4096 {
		t.Errorf("%d messages in the largest question there is, want %d", n, 1+4*4096)
	}
	// 64 MiB of empty messages would take gigabytes.
	bomb := make([]byte, 0, 4*maxMessages)
	for range 2 * maxMessages {
		bomb = append(bomb, 1<<3|2, 0)
	}
	if err := Unmarshal(
		bomb,
		new(conclavev1.ScoreSum),
	); err == nil ||
		!strings.Contains(err.Error(), "32768 messages") {
		t.Errorf("a bomb was read: %v", err)
	}
}

// What cannot be read is for the decoder: nothing panics, and counting ends.
func TestMessagesInAnything(t *testing.T) {
	of := new(conclavev1.ScoreSum).ProtoReflect().Descriptor()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		if n := messagesIn(raw, of, 20); n < 1 || n > 41 {
			t.Fatalf("%d messages in %d bytes", n, len(raw))
		}
	})
}
