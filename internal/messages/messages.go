// Package messages bounds what a message from outside takes in memory, before it is decoded. Two
// bytes on the wire can hold an empty message, which takes a hundred in memory, or an empty string.
package messages

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Count counts the messages in a serialized one, itself and what its lists hold of texts included,
// and stops above a number. What cannot be read is for the decoder to refuse.
func Count(data []byte, of protoreflect.MessageDescriptor, most int) int {
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
		if f := of.Fields().ByNumber(number); kind == protowire.BytesType && f != nil {
			switch {
			case f.Message() != nil:
				inner, _ := protowire.ConsumeBytes(data)
				n += Count(inner, f.Message(), most-n)
			case f.IsList() && (f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind):
				n++
			}
		}
		data = data[size:]
	}
	return n
}

// Unknown is how many bytes of a decoded message, and of those in it, are fields that its type does not have.
// The decoder keeps them as they came.
func Unknown(m protoreflect.Message) int {
	n := len(m.GetUnknown())
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap(): // this protocol has no maps
		case f.IsList():
			for i := range v.List().Len() {
				n += Unknown(v.List().Get(i).Message())
			}
		default:
			n += Unknown(v.Message())
		}
		return true
	})
	return n
}
