package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Every error that a handler may return, as a client sees it. Clients retry on Unavailable, Aborted, Canceled,
// DeadlineExceeded, Internal and Unknown; the others are final.
func TestCodes(t *testing.T) {
	budget := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	for _, tc := range []struct {
		err  error
		want codes.Code
	}{
		{Invalidf("wrong"), codes.InvalidArgument},
		{Refusedf("not now"), codes.FailedPrecondition},
		{Deniedf("not you"), codes.PermissionDenied},
		{Unavailablef("later"), codes.Unavailable},
		{Errorf(codes.Aborted, "replaced"), codes.Aborted},
		{ErrStopping, codes.Unavailable},
		{ErrLeadershipLost, codes.Unavailable},
		{fmt.Errorf("%w; %w", ErrLeadershipLost, coordinator.ErrNotLeader), codes.Unavailable},

		{&privacy.OverBudgetError{Budget: budget}, codes.ResourceExhausted},
		{OverBudget(&privacy.OverBudgetError{Budget: budget}, "round %d", 3), codes.ResourceExhausted},

		{coordinator.ErrUnavailable, codes.Unavailable},
		{&coordinator.UnavailableError{Op: "charge", Err: context.DeadlineExceeded}, codes.Unavailable},
		{&coordinator.UnavailableError{Op: "charge", Err: status.Error(codes.Internal, "etcd")}, codes.Unavailable},
		{coordinator.ErrNotLeader, codes.Unavailable},
		{coordinator.ErrNoRun, codes.NotFound},
		{coordinator.ErrNoDataset, codes.NotFound},
		{coordinator.ErrRunExists, codes.AlreadyExists},
		{coordinator.ErrRunClosed, codes.FailedPrecondition},
		{coordinator.ErrEnroll, codes.FailedPrecondition},
		{coordinator.ErrForgotten, codes.FailedPrecondition},
		{&coordinator.ForgottenError{Run: "r", Round: 3}, codes.FailedPrecondition},
		{privacy.ErrPlan, codes.FailedPrecondition},
		{&privacy.PlanError{Planned: privacy.Planned{Kind: "votes"}, Asked: 1}, codes.ResourceExhausted},
		{&privacy.PlanError{Asked: 1}, codes.ResourceExhausted},
		{coordinator.ErrForeignManifest, codes.FailedPrecondition},
		{&coordinator.ManifestMismatchError{Node: "a", Field: "schema"}, codes.FailedPrecondition},
		{&coordinator.MismatchError{Dataset: "d", Field: "schema"}, codes.FailedPrecondition},
		{coordinator.ErrBadName, codes.InvalidArgument},
		{coordinator.ErrTooLarge, codes.InvalidArgument},
		{coordinator.ErrCorrupt, codes.DataLoss},

		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{status.Error(codes.OutOfRange, "what Recv returned"), codes.OutOfRange},
		{errors.New("a mistake of ours"), codes.Internal},
	} {
		for _, err := range []error{tc.err, fmt.Errorf("round 3 of run %q: %w", "r", tc.err)} {
			got := Status(err)
			if status.Code(got) != tc.want {
				t.Errorf("%v: got %v, want %v", err, status.Code(got), tc.want)
			}
			if !strings.Contains(got.Error(), tc.err.Error()) {
				t.Errorf("%v becomes %v, which does not say it", err, got)
			}
		}
	}
	if Status(nil) != nil {
		t.Error("no error became one")
	}
}
