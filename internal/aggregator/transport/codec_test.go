package transport

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
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

// Some 4 MiB of plan entries would decode to 235 MiB, so they are refused before.
func TestManyMessagesInOneAreNotDecoded(t *testing.T) {
	entry := &conclavev1.Planned{Mechanism: &conclavev1.PrivacyEvent{}}
	for plan, refused := range map[int]bool{64: false, mostMessages: true, 1 << 20: true} {
		spec := &conclavev1.RunSpec{Plan: make([]*conclavev1.Planned, plan)}
		for i := range spec.Plan {
			spec.Plan[i] = entry
		}
		raw, err := proto.Marshal(&conclavev1.OpenRunRequest{Spec: spec})
		testkit.Must(t, err)
		got := new(conclavev1.OpenRunRequest)
		half := mem.SliceBuffer(raw[len(raw)/2:])
		err = newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw[:len(raw)/2]), half}, got)
		if refused != (err != nil) || refused != (len(got.GetSpec().GetPlan()) == 0) {
			t.Errorf("%d entries in %d bytes: %v, and %d entries were read", plan, len(raw), err,
				len(got.GetSpec().GetPlan()))
		}
	}
}

// Unknown fields stay in memory, wherever they are in a message.
func TestUnknownFieldsAreBounded(t *testing.T) {
	for bytes, refused := range map[int]bool{0: false, mostUnknown - 10: false, mostUnknown + 1: true, 1 << 20: true} {
		unknown := protowire.AppendBytes(protowire.AppendTag(nil, 4000, protowire.BytesType), make([]byte, bytes))
		outer, within, listed := &conclavev1.AskRequest{}, &conclavev1.AskRequest{Part: &conclavev1.RoundPart{}},
			&conclavev1.OpenRunRequest{Spec: &conclavev1.RunSpec{Plan: []*conclavev1.Planned{{}, {}}}}
		outer.ProtoReflect().SetUnknown(unknown)
		within.Part.ProtoReflect().SetUnknown(unknown)
		listed.Spec.Plan[1].ProtoReflect().SetUnknown(unknown)
		for place, m := range map[string]proto.Message{"outside": outer, "within": within, "in a list": listed} {
			raw, err := proto.Marshal(m)
			testkit.Must(t, err)
			err = newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m.ProtoReflect().New().Interface())
			if refused != (err != nil) {
				t.Errorf("%d bytes that nobody knows %s: %v", bytes, place, err)
			}
		}
	}
}
