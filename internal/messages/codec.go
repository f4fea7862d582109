package messages

import (
	"errors"

	"google.golang.org/grpc/encoding"
	encproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// ErrCrowded refuses a message of too many parts.
var ErrCrowded = errors.New("a message has more parts than allowed")

// Codec is gRPC's proto codec that refuses messages with more messages and texts in them than Most, before
// they are decoded.
type Codec struct {
	encoding.CodecV2
	Most int
}

// NewCodec returns a codec with a bound.
func NewCodec(most int) Codec { return Codec{encoding.GetCodecV2(encproto.Name), most} }

// Unmarshal decodes a message, or refuses it with [ErrCrowded].
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	raw := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer raw.Free()
	if m, ok := v.(proto.Message); ok &&
		Count(raw.ReadOnlyData(), m.ProtoReflect().Descriptor(), c.Most) > c.Most {
		return ErrCrowded
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{raw}, v)
}
