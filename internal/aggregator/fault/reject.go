package fault

import (
	"errors"

	"google.golang.org/grpc/codes"
)

// Kind is why a message of a node is not counted, as conclave_messages_rejected_total has it.
type Kind string

// The kinds. Late and stale answers, a node's own refusals, and that its site has to decide
// are part of normal work: there is at most one for each time that a stream was sent a round.
const (
	Oversized  Kind = "oversized"    // more than a message may hold, or more than was asked for
	Malformed  Kind = "malformed"    // not in the form that was asked for
	OutOfRange Kind = "out_of_range" // a class that there is not, or more than so many units can make
	Duplicate  Kind = "duplicate"    // a second answer to a round
	Foreign    Kind = "foreign"      // for a round that this stream was not sent
	Unasked    Kind = "unasked"      // for an open round that this stream was not sent
	Protocol   Kind = "protocol"     // no answer at all, such as a second hello
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

// Oversizedf and OutOfRangef are what a question has against an answer; whatever else it
// says makes the answer malformed.
func Oversizedf(format string, args ...any) error { return Rejectf(Oversized, format, args...) }

// OutOfRangef is for an answer whose numbers cannot be.
func OutOfRangef(format string, args ...any) error { return Rejectf(OutOfRange, format, args...) }

// KindOf is the kind of a message that was not counted, other where the error names none.
func KindOf(err error, other Kind) Kind {
	var r *rejected
	if errors.As(err, &r) {
		return r.kind
	}
	return other
}
