package question

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxMessages bounds the messages in the parameters of a question. Two bytes can hold an empty
// one, which takes a hundred in memory. The scores of 4,096 discriminators have 16,385.
const maxMessages = 1 << 15

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
