package aggregator

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kinds of what nodes send and what is not counted, as conclave_messages_rejected_total
// has them. Late and stale answers, a node's own refusals, and that its site has to decide, are part
// of normal work: there is at most one of them for each time that a stream was sent a round.
const (
	oversizedKind  = "oversized"    // more than a message may hold, or more than was asked for
	malformedKind  = "malformed"    // not in the form that was asked for
	outOfRangeKind = "out_of_range" // a class that there is not, or more than so many units can make
	overflowKind   = "overflow"     // in range, and too much to add to what others sent
	duplicateKind  = "duplicate"    // a second answer to a round
	foreignKind    = "foreign"      // for a round that this stream was not sent
	unaskedKind    = "unasked"      // for an open round that this stream was not sent
	protocolKind   = "protocol"     // no answer at all, such as a second hello
	refusalKind    = "refusal"
	lateKind       = "late"
	staleKind      = "stale"
	waitingKind    = "waiting"
)

// rejected is the error of an answer that is not counted, with its kind for the metrics.
type rejected struct {
	kind string
	fault
}

func rejectedf(kind, format string, args ...any) error {
	return &rejected{kind, fault{codes.InvalidArgument, fmt.Errorf(format, args...)}}
}

// oversizedf and outOfRangef are what a question has against an answer; whatever else it
// says makes the answer malformed.
func oversizedf(format string, args ...any) error  { return rejectedf(oversizedKind, format, args...) }
func outOfRangef(format string, args ...any) error { return rejectedf(outOfRangeKind, format, args...) }

// kindOf is the kind of a message that was not counted, other where it names none.
func kindOf(err error, other string) string {
	var r *rejected
	if errors.As(err, &r) {
		return r.kind
	}
	return other
}

// punishable says whether a node that sends such things again and again is put out.
func punishable(kind string) bool {
	return kind != refusalKind && kind != lateKind && kind != staleKind && kind != waitingKind
}

// unreadable marks what cannot be decoded: gRPC hands on the words of a codec's error, and
// not the error.
const unreadable = "the bytes are no message of this protocol"

// broken is what ended a stream from the peer's side, as an error that names the message
// that did it; what breaks by itself stays as it is. gRPC has told the peer in its own words.
func broken(err error) error {
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return err
	case s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "larger than max"):
		return &rejected{oversizedKind, fault{codes.ResourceExhausted, fmt.Errorf("a message of more than %d bytes, the most that one may have", maxMessageBytes)}}
	case s.Code() == codes.Internal && strings.Contains(s.Message(), unreadable):
		return rejectedf(malformedKind, "a message that cannot be read: %s", unreadable)
	case s.Code() == codes.Internal && strings.Contains(s.Message(), "compress"), s.Code() == codes.Unimplemented:
		return rejectedf(malformedKind, "a message in a compression that is not spoken here")
	}
	return err
}

// maxWord bounds what errors and logs repeat of a name that a peer made up.
const maxWord = 128

// word makes what a peer says fit for an error or a line of a log.
func word(s string) string { return clip(s, maxWord) }

// clip drops control characters and what is beyond a length.
func clip(s string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd' || r == '\u2028' || r == '\u2029' {
			return -1
		}
		return r
	}, s)
	if len(clean) > most {
		clean = strings.ToValidUTF8(clean[:most], "") + "..."
	}
	return clean
}
