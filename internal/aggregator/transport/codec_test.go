package transport

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

func TestKindsOfRejections(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind fault.Kind
		code codes.Code
	}{
		"too large": {Broken(status.Error(codes.ResourceExhausted,
			"grpc: received message larger than max (5 vs. 4)")), fault.Oversized, codes.ResourceExhausted},
		"unzips large": {Broken(status.Error(codes.ResourceExhausted,
			"grpc: received message after decompression larger than max 4")), fault.Oversized, codes.ResourceExhausted},
		"unreadable": {Broken(status.Error(codes.Internal,
			"grpc: failed to unmarshal the received message: "+unreadable)), fault.Malformed, codes.InvalidArgument},
		"zipped": {Broken(status.Error(codes.Unimplemented,
			`grpc: Decompressor is not installed for grpc-encoding "x"`)), fault.Malformed, codes.InvalidArgument},
		"gone":         {Broken(status.Error(codes.Canceled, "context canceled")), "none", codes.Canceled},
		"another":      {Broken(errors.New("no status")), "none", codes.Internal},
		"out of range": {fault.OutOfRangef("x"), fault.OutOfRange, codes.InvalidArgument},
	} {
		if kind := fault.KindOf(c.err, "none"); kind != c.kind || fault.Code(c.err) != c.code {
			t.Errorf("%s: kind %s, code %v", name, kind, fault.Code(c.err))
		}
	}
}
