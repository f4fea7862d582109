package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// ErrLeadershipLost ends Serve when another aggregator has taken over, when
// etcd was away for longer than the lease lasts, or when the aggregator gave the lead
// away because it could let nobody in.
var ErrLeadershipLost = errors.New("leadership lost")

// errStopping is the reason everything in flight ends with when the server is
// told to stop.
var errStopping = errors.New("the aggregator is stopping; try again when it is back")

// errReplaced is the reason a stream ends with when its node opened another.
var errReplaced = faultf(codes.Aborted, "the node opened a newer stream and one stream is kept per node; give every process a node name of its own")

// fault is an error that knows how a client shall take it.
type fault struct {
	code codes.Code
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(code codes.Code, format string, args ...any) error {
	return &fault{code: code, err: fmt.Errorf(format, args...)}
}

// invalidf says that a request can never be right.
func invalidf(format string, args ...any) error {
	return faultf(codes.InvalidArgument, format, args...)
}

// refusedf says that a request is well formed and not allowed as things stand.
func refusedf(format string, args ...any) error {
	return faultf(codes.FailedPrecondition, format, args...)
}

// deniedf says that the peer's role or name does not allow the request.
func deniedf(format string, args ...any) error {
	return faultf(codes.PermissionDenied, format, args...)
}

// unavailablef says that the same request may work later.
func unavailablef(format string, args ...any) error {
	return faultf(codes.Unavailable, format, args...)
}

// overBudget adds which budget it is to a refusal of privacy.Budget.Admit.
func overBudget(err error, format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// toStatus is the one place where errors become gRPC codes.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	// It goes out in a header, which holds no list of a thousand nodes.
	return status.Error(codeOf(err), clip(strings.ReplaceAll(err.Error(), "\n", "; "), maxStatus))
}

// maxStatus bounds the words of a status in bytes.
const maxStatus = 4096

func codeOf(err error) codes.Code {
	var f *fault
	var r *rejected
	var out *putOut
	var mismatch *coordinator.MismatchError
	switch {
	case errors.As(err, &out):
		return out.code
	case errors.As(err, &f):
		return f.code
	case errors.As(err, &r):
		return r.code
	case errors.Is(err, privacy.ErrOverBudget):
		return codes.ResourceExhausted
	case errors.Is(err, coordinator.ErrNotLeader),
		errors.Is(err, coordinator.ErrUnavailable),
		errors.Is(err, ErrLeadershipLost),
		errors.Is(err, errStopping):
		return codes.Unavailable
	case errors.Is(err, coordinator.ErrNoRun), errors.Is(err, coordinator.ErrNoDataset):
		return codes.NotFound
	case errors.Is(err, coordinator.ErrRunExists):
		return codes.AlreadyExists
	case errors.Is(err, coordinator.ErrRunClosed),
		errors.Is(err, coordinator.ErrForgotten),
		errors.Is(err, coordinator.ErrQueue),
		errors.Is(err, privacy.ErrPlan),
		errors.Is(err, coordinator.ErrForeignManifest),
		errors.Is(err, coordinator.ErrWentBack),
		errors.As(err, &mismatch):
		return codes.FailedPrecondition
	case errors.Is(err, coordinator.ErrBadName), errors.Is(err, coordinator.ErrTooLarge), errors.Is(err, gnmax.ErrParameter):
		return codes.InvalidArgument
	case errors.Is(err, coordinator.ErrCorrupt):
		return codes.DataLoss // asking again cannot help, unlike for most of Internal
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	// An error that already is a status: what Send and Recv return.
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Internal
}
