package attacks

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// bytesCodec sends and receives messages as raw bytes.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (bytesCodec) Name() string { return "proto" }

const (
	workMethod = "/conclave.v1.TeacherService/Work"
	askMethod  = "/conclave.v1.StudentService/Ask"
)

// rawStream is a call whose messages are any bytes.
func rawStream(ctx context.Context, conn *grpc.ClientConn, method string,
	more ...grpc.CallOption) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		append(more, grpc.ForceCodecV2(bytesCodec{}))...)
}

// drained returns how a raw call ends, and ignores earlier messages.
func drained(stream grpc.ClientStream) error {
	for {
		var m []byte
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
	}
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	testkit.Must(t, err)
	return raw
}

// field is a length-delimited field of a message.
func field(number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), data)
}
