// Package fault has the errors of an aggregator: each knows the gRPC code that tells a peer
// how to take it. [Invalidf], [Refusedf] and the others make them, and [Status] is the one
// place where an error of any package becomes a gRPC status.
package fault

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// Error is an error with the gRPC code that its peer gets.
type Error struct {
	code codes.Code
	err  error
	wait time.Duration // in which the peer may try again, 0 where none is known
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns what the error was made of.
func (e *Error) Unwrap() error { return e.err }

// Errorf is fmt.Errorf with a code.
func Errorf(code codes.Code, format string, args ...any) error {
	return &Error{code: code, err: fmt.Errorf(format, args...)}
}

// Invalidf says that a request can never be right.
func Invalidf(format string, args ...any) error {
	return Errorf(codes.InvalidArgument, format, args...)
}

// Refusedf says that a request is well formed and not allowed as things stand.
func Refusedf(format string, args ...any) error {
	return Errorf(codes.FailedPrecondition, format, args...)
}

// Deniedf says that the peer's role or name does not allow the request.
func Deniedf(format string, args ...any) error {
	return Errorf(codes.PermissionDenied, format, args...)
}

// TooManyf says that the peer has as much as it may have.
func TooManyf(format string, args ...any) error {
	return Errorf(codes.ResourceExhausted, format, args...)
}

// Laterf says that the peer does something too often, and in which time it may again.
func Laterf(wait time.Duration, format string, args ...any) error {
	return &Error{code: codes.ResourceExhausted, err: fmt.Errorf(format, args...), wait: wait}
}

// Unavailablef says that the same request may work later.
func Unavailablef(format string, args ...any) error {
	return Errorf(codes.Unavailable, format, args...)
}

// NotFoundf says that the requested object does not exist here.
func NotFoundf(format string, args ...any) error {
	return Errorf(codes.NotFound, format, args...)
}

// OverBudget adds which budget it is to a refusal of privacy.Budget.Admit.
func OverBudget(err error, format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

var (
	// ErrStopping is the reason everything in flight ends with when the server is told to
	// stop.
	ErrStopping = Unavailablef("the aggregator is stopping; try again when it is back")
	// ErrLeadershipLost ends a server when another aggregator has taken over, when etcd was away for longer than the
	// lease, or when the aggregator resigned because it could accept no peer.
	ErrLeadershipLost = Unavailablef("leadership lost")
)
