package aggregator

import (
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxIncoming bounds the bytes of rounds that one student has under way before
	// they are accepted.
	maxIncoming = 4 * maxRoundBytes
	// partTimeout bounds the wait for the next part of a round: 1 MiB in this time is
	// less than 150 kbit/s.
	partTimeout = time.Minute
	// maxRoundMessages bounds the messages in a round. Two bytes can hold an empty one,
	// which takes a hundred in memory. The scores of 4,096 discriminators have 16,385.
	maxRoundMessages = 1 << 15
)

// incoming counts the bytes of rounds that students send, by name. Whoever asks for too much at
// once is told to ask again: waiting would let two rounds wait for each other.
type incoming struct {
	most int

	mu sync.Mutex
	of map[string]int
}

func newIncoming(most int) *incoming { return &incoming{most: most, of: map[string]int{}} }

// take sets bytes aside; give gives them back.
func (i *incoming) take(student string, bytes int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.of[student]+bytes > i.most {
		return unavailablef("student %s sends more than %d bytes of rounds at once; let those that are under way end, and ask again", student, i.most)
	}
	i.of[student] += bytes
	return nil
}

func (i *incoming) give(student string, bytes int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.of[student] -= bytes; i.of[student] <= 0 {
		delete(i.of, student)
	}
}

// messagesIn counts the messages in a serialized one, itself included, and stops above a
// number. What cannot be read is for the decoder to refuse.
func messagesIn(data []byte, of protoreflect.MessageDescriptor, most int) int {
	n := 1
	for len(data) > 0 && n <= most {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return n
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(number, kind, data); size < 0 {
			return n
		}
		if f := of.Fields().ByNumber(number); kind == protowire.BytesType && f != nil && f.Message() != nil {
			inner, _ := protowire.ConsumeBytes(data)
			n += messagesIn(inner, f.Message(), most-n)
		}
		data = data[size:]
	}
	return n
}
