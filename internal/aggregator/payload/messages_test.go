package payload

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestMessagesInARoundAreCounted(t *testing.T) {
	round := &conclavev1.Round{Run: "r", Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_Scores{
		Scores: &conclavev1.ScoreSum{Bound: 256, Selection: &conclavev1.Selection{Expected: []int64{1, 2}}},
	}}}}
	scores := round.GetSum().GetScores()
	for range 4096 {
		scores.Discriminators = append(scores.Discriminators, &conclavev1.ScoreSum_Scored{
			Discriminator: &conclavev1.Discriminator{Hidden: 3}, Weights: make([]byte, 8), Mean: &conclavev1.Tensor{},
			Scale: &conclavev1.Tensor{},
		})
	}
	raw, err := proto.Marshal(round)
	testkit.Must(t, err)
	of := round.ProtoReflect().Descriptor()
	if n := messagesIn(raw, of, maxMessages); n != 4+4*4096 {
		t.Errorf("%d messages in the largest round there is, want %d", n, 4+4*4096)
	}
	// 64 MiB of empty messages would take gigabytes.
	bomb := make([]byte, 0, 4*maxMessages)
	for range 2 * maxMessages {
		bomb = append(bomb, 1<<3|2, 0)
	}
	raw, err = proto.Marshal(&conclavev1.Round{Run: "r",
		Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{}}})
	testkit.Must(t, err)
	sum := append([]byte{5<<3 | 2}, varint(len(bomb))...)
	sum = append(sum, bomb...)
	raw = append(raw, 4<<3|2)
	raw = append(raw, varint(len(sum))...)
	raw = append(raw, sum...)
	a := Assembly{key: Key{Run: "r"}, total: 1, parts: []*conclavev1.RoundPart{{Run: "r", Parts: 1, Data: raw}}}
	_, err = a.Payload()
	roundtest.WantStatus(t, fault.Status(err), codes.InvalidArgument, "32768 messages")
}

func varint(n int) (raw []byte) {
	for ; n > 127; n >>= 7 {
		raw = append(raw, byte(n)|0x80)
	}
	return append(raw, byte(n))
}

// What cannot be read is for the decoder: nothing panics, and counting ends.
func TestMessagesInAnything(t *testing.T) {
	of := new(conclavev1.Round).ProtoReflect().Descriptor()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		if n := messagesIn(raw, of, 20); n < 1 || n > 41 {
			t.Fatalf("%d messages in %d bytes", n, len(raw))
		}
	})
}
