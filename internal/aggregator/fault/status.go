package fault

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
)

// maxStatus bounds the message of a status in bytes. It travels in a header, which has no room for a thousand node
// names.
const maxStatus = 4096

// Status converts an error to a gRPC status error; nil stays nil.
func Status(err error) error {
	if err == nil {
		return nil
	}
	s := status.New(Code(err), clip(strings.ReplaceAll(err.Error(), "\n", "; "), maxStatus))
	var details []protoadapt.MessageV1
	var own *Error
	if errors.As(err, &own) && own.wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(own.wait)})
	}
	if ofStudy(err) {
		details = append(details, &errdetails.ErrorInfo{Reason: study.Reason, Domain: study.Domain})
	}
	if len(details) > 0 {
		if with, failed := s.WithDetails(details...); failed == nil { // otherwise the message says it
			s = with
		}
	}
	return s.Err()
}

// ofStudy reports whether the run's study is the reason for the refusal.
func ofStudy(err error) bool { return errors.Is(err, study.ErrEnded) || errors.Is(err, study.ErrOther) }

// Code is the gRPC code of an error of this package, of the packages below it, or of gRPC itself; Internal for all
// others.
func Code(err error) codes.Code {
	var own *Error
	var mismatch *coordinator.MismatchError
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, privacy.ErrOverBudget):
		return codes.ResourceExhausted
	case errors.Is(err, coordinator.ErrNotLeader), errors.Is(err, coordinator.ErrUnavailable):
		return codes.Unavailable
	case errors.Is(err, coordinator.ErrNoRun), errors.Is(err, coordinator.ErrNoDataset):
		return codes.NotFound
	case errors.Is(err, coordinator.ErrRunExists):
		return codes.AlreadyExists
	case errors.Is(err, coordinator.ErrRunClosed),
		errors.Is(err, coordinator.ErrRunOpen),
		errors.Is(err, coordinator.ErrForgotten),
		errors.Is(err, coordinator.ErrQueue),
		errors.Is(err, coordinator.ErrEnroll),
		errors.Is(err, privacy.ErrPlan),
		errors.Is(err, coordinator.ErrForeignManifest),
		errors.Is(err, coordinator.ErrRollback),
		ofStudy(err),
		errors.As(err, &mismatch):
		return codes.FailedPrecondition
	case errors.Is(err, coordinator.ErrBadName),
		errors.Is(err, coordinator.ErrTooLarge),
		errors.Is(err, gnmax.ErrParameter):
		return codes.InvalidArgument
	case errors.Is(err, coordinator.ErrCorrupt):
		return codes.DataLoss // a retry cannot help, unlike after most Internal errors
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

// Reason is an error as a metric label.
func Reason(err error) string {
	if errors.Is(err, coordinator.ErrRollback) {
		return "ledger_went_back"
	}
	switch Code(err) {
	case codes.ResourceExhausted:
		return "budget"
	case codes.InvalidArgument:
		return "malformed"
	case codes.FailedPrecondition, codes.AlreadyExists:
		return "not_allowed"
	case codes.PermissionDenied, codes.Unauthenticated:
		return "permission"
	case codes.NotFound:
		return "unknown"
	case codes.Unavailable:
		return "unavailable"
	case codes.Canceled, codes.DeadlineExceeded:
		return "gone"
	}
	return "internal"
}

// Passing reports whether an error is temporary, such as a stopping server or a peer that left. Such an error is not
// a refusal.
func Passing(err error) bool {
	switch Code(err) {
	case codes.OK, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return false
}

// Lasting reports whether a peer was refused for a lasting reason, so that a retry would be refused too.
func Lasting(err error) bool {
	switch Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.ResourceExhausted:
		return true
	}
	return false
}
