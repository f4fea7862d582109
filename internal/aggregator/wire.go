package aggregator

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	encproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// encoded is a serialized message. Sending one costs no marshalling, so a
// round is encoded once however many nodes get it. It must not be changed
// after the first send.
type encoded []byte

// codec is gRPC's proto codec that also takes messages encoded before.
type codec struct{ encoding.CodecV2 }

func newCodec() codec {
	return codec{encoding.GetCodecV2(encproto.Name)}
}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(encoded); ok {
		// A SliceBuffer is not pooled: freeing it is a no-op, so that one
		// slice may go out on many streams at once.
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal says in words of this package what it cannot read; see broken.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if c.CodecV2.Unmarshal(data, v) != nil {
		return errors.New(unreadable)
	}
	return nil
}

func encode(m *conclavev1.WorkResponse) (encoded, error) {
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a message to the nodes: %w", err)
	}
	return raw, nil
}

// marshalStable gives the one serialized form that is stored and hashed.
func marshalStable(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
