package fault

import (
	"errors"

	"google.golang.org/grpc/codes"
)

// Kind is why a node's message is not counted, as in conclave_messages_rejected_total.
type Kind string

// The kinds. Late and stale answers, a node's own refusals and pending decisions of its site are normal: each stream
// causes at most one per round sent to it.
const (
	Oversized  Kind = "oversized"    // more than a message may contain, or more than was requested
	Malformed  Kind = "malformed"    // not in the requested form
	OutOfRange Kind = "out_of_range" // a class that does not exist, or more than this number of units allows
	Duplicate  Kind = "duplicate"    // a second answer to a round
	Foreign    Kind = "foreign"      // for a round that this stream was not sent
	Unasked    Kind = "unasked"      // for an open round that this stream was not sent
	Protocol   Kind = "protocol"     // not an answer, such as a second hello
	Refusal    Kind = "refusal"
	Late       Kind = "late"
	Stale      Kind = "stale"
	Waiting    Kind = "waiting"
)

// Punishable says whether a node that sends such messages again and again is banned.
func (k Kind) Punishable() bool {
	return k != Refusal && k != Late && k != Stale && k != Waiting
}

// rejected is the error of a message that is not counted.
type rejected struct {
	kind Kind
	err  error
}

func (r *rejected) Error() string { return r.err.Error() }
func (r *rejected) Unwrap() error { return r.err }

// Rejectf is the error of a message that is not counted. Its code is InvalidArgument.
func Rejectf(kind Kind, format string, args ...any) error {
	return RejectCodef(kind, codes.InvalidArgument, format, args...)
}

// RejectCodef is Rejectf with another code.
func RejectCodef(kind Kind, code codes.Code, format string, args ...any) error {
	return &rejected{kind, Errorf(code, format, args...)}
}

// Oversizedf and OutOfRangef are a question's specific objections to an answer. Any other error of a question makes
// the answer malformed.
func Oversizedf(format string, args ...any) error { return Rejectf(Oversized, format, args...) }

// OutOfRangef is for an answer with impossible numbers.
func OutOfRangef(format string, args ...any) error { return Rejectf(OutOfRange, format, args...) }

// KindOf is why a message was not counted: other if the error names no kind.
func KindOf(err error, other Kind) Kind {
	var r *rejected
	if errors.As(err, &r) {
		return r.kind
	}
	return other
}
