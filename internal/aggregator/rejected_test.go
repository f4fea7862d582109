package aggregator

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"
)

func TestKindsOfRejections(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind string
		code codes.Code
	}{
		"too large":    {broken(status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)")), oversizedKind, codes.ResourceExhausted},
		"unzips large": {broken(status.Error(codes.ResourceExhausted, "grpc: received message after decompression larger than max 4")), oversizedKind, codes.ResourceExhausted},
		"unreadable":   {broken(status.Error(codes.Internal, "grpc: failed to unmarshal the received message: "+unreadable)), malformedKind, codes.InvalidArgument},
		"zipped":       {broken(status.Error(codes.Unimplemented, `grpc: Decompressor is not installed for grpc-encoding "x"`)), malformedKind, codes.InvalidArgument},
		"gone":         {broken(status.Error(codes.Canceled, "context canceled")), "none", codes.Canceled},
		"another":      {broken(errors.New("no status")), "none", codes.Internal},
		"out of range": {outOfRangef("x"), outOfRangeKind, codes.InvalidArgument},
	} {
		if kind := kindOf(c.err, "none"); kind != c.kind || codeOf(c.err) != c.code {
			t.Errorf("%s: kind %s, code %v", name, kind, codeOf(c.err))
		}
	}
}

// Whatever a peer says, what is repeated of it is short, one line, and text.
func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		most := rapid.IntRange(1, 50).Draw(t, "most")
		got := clip(s, most)
		if len(got) > most+len("...") || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00\x1b\u0085\u2028") {
			t.Fatalf("%q becomes %q", s, got)
		}
	})
}
