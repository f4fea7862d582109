// Package fault has the errors of an aggregator. Each error knows its gRPC code. [Invalidf], [Refusedf] and others
// make errors, and [Status] is the one place that turns an error of any package into a gRPC status.
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
	wait time.Duration // when the peer may try again; 0 if unknown
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Errorf is fmt.Errorf with a code.
func Errorf(code codes.Code, format string, args ...any) error {
	return &Error{code: code, err: fmt.Errorf(format, args...)}
}

// Invalidf reports a request that can never be valid.
func Invalidf(format string, args ...any) error {
	return Errorf(codes.InvalidArgument, format, args...)
}

// Refusedf reports a valid request that the current state does not allow.
func Refusedf(format string, args ...any) error {
	return Errorf(codes.FailedPrecondition, format, args...)
}

// Deniedf says that the peer's role or name does not allow the request.
func Deniedf(format string, args ...any) error {
	return Errorf(codes.PermissionDenied, format, args...)
}

// TooManyf says that the peer has reached a limit.
func TooManyf(format string, args ...any) error {
	return Errorf(codes.ResourceExhausted, format, args...)
}

// Laterf says that the peer does something too often, and after how long it may retry.
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

// OverBudget names the budget in a refusal of privacy.Budget.Admit.
func OverBudget(err error, format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

var (
	// ErrStopping ends everything in flight when the server is told to stop.
	ErrStopping = Unavailablef("the aggregator is stopping; try again later")
	// ErrLeadershipLost ends a server when another aggregator has taken over, when etcd was away for longer than the
	// lease, or when the aggregator resigned because it could accept no peer.
	ErrLeadershipLost = Unavailablef("leadership lost")
)
