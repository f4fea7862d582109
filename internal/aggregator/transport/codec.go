package transport

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	encproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/messages"
)

// codec is gRPC's proto codec that also takes messages encoded before.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(encproto.Name)} }

// Marshal returns a message's bytes.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(peer.Encoded); ok {
		// A SliceBuffer is not pooled and freeing it does nothing, so one slice can be sent on many streams at once.
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// unreadable marks bytes that cannot be decoded: gRPC passes on the text of a codec's error, but not the error.
const unreadable = "the bytes are not a message of this protocol"

// mostMessages bounds the messages and strings in a message, which may take a hundred times their size in memory. The
// largest is a worker's list of its 1,000 started runs. The content of a round comes as bytes, which only nodes
// decode.
const mostMessages = 1 << 11

// mostUnknown bounds the bytes of unknown fields in a message, which a newer peer may send. They stay in memory as
// long as the message, but nothing else counts them.
const mostUnknown = 1 << 12

// Unmarshal marks its errors for [Broken].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	raw := data.MaterializeToBuffer(buffers)
	defer raw.Free()
	m, ok := v.(proto.Message)
	if ok && messages.Count(raw.ReadOnlyData(), m.ProtoReflect().Descriptor(), mostMessages) > mostMessages ||
		c.CodecV2.Unmarshal(mem.BufferSlice{raw}, v) != nil || ok && messages.Unknown(m.ProtoReflect()) > mostUnknown {
		return errors.New(unreadable)
	}
	return nil
}

// Broken turns the error of a stream that the peer's bytes ended into an error about the message. Other errors stay
// unchanged. gRPC has already told the peer in its own words.
func Broken(err error) error {
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return err
	case s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "larger than max"):
		return fault.RejectCodef(fault.Oversized, codes.ResourceExhausted,
			"the message is larger than the maximum of %d bytes", MaxMessageBytes)
	case s.Code() == codes.Internal && strings.Contains(s.Message(), unreadable):
		return fault.Rejectf(fault.Malformed, "the message cannot be read: %s", unreadable)
	case s.Code() == codes.Internal && strings.Contains(s.Message(), "compress"), s.Code() == codes.Unimplemented:
		return fault.Rejectf(fault.Malformed, "the message uses an unsupported compression")
	}
	return err
}

// Receive passes a peer's messages to in until done is closed or the stream ends.
func Receive[M any](stream interface{ Recv() (M, error) }, in chan<- M, done <-chan struct{}) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case in <- m:
		case <-done:
			return nil
		}
	}
}
