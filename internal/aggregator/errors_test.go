package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Every error that may come out of a handler, as a client sees it. Clients try
// again on Unavailable, Aborted, Canceled, DeadlineExceeded, Internal and
// Unknown; the others are for good.
func TestCodes(t *testing.T) {
	budget := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	for _, tc := range []struct {
		err  error
		want codes.Code
	}{
		{invalidf("wrong"), codes.InvalidArgument},
		{refusedf("not now"), codes.FailedPrecondition},
		{deniedf("not you"), codes.PermissionDenied},
		{unavailablef("later"), codes.Unavailable},
		{errReplaced, codes.Aborted},
		{errStopping, codes.Unavailable},
		{ErrLeadershipLost, codes.Unavailable},
		{fmt.Errorf("%w; %w", ErrLeadershipLost, coordinator.ErrNotLeader), codes.Unavailable},

		{&privacy.OverBudgetError{Budget: budget}, codes.ResourceExhausted},
		{overBudget(&privacy.OverBudgetError{Budget: budget}, "round %d", 3), codes.ResourceExhausted},

		{coordinator.ErrUnavailable, codes.Unavailable},
		{&coordinator.UnavailableError{Op: "charge", Err: context.DeadlineExceeded}, codes.Unavailable},
		{&coordinator.UnavailableError{Op: "charge", Err: status.Error(codes.Internal, "etcd")}, codes.Unavailable},
		{coordinator.ErrNotLeader, codes.Unavailable},
		{coordinator.ErrNoRun, codes.NotFound},
		{coordinator.ErrNoDataset, codes.NotFound},
		{coordinator.ErrRunExists, codes.AlreadyExists},
		{coordinator.ErrRunClosed, codes.FailedPrecondition},
		{coordinator.ErrForgotten, codes.FailedPrecondition},
		{&coordinator.ForgottenError{Run: "r", Round: 3}, codes.FailedPrecondition},
		{privacy.ErrPlan, codes.FailedPrecondition},
		{&privacy.PlanError{Event: privacy.Event{Kind: privacy.Laplace, Epsilon: 1}}, codes.ResourceExhausted},
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
			got := toStatus(err)
			if status.Code(got) != tc.want {
				t.Errorf("%v: got %v, want %v", err, status.Code(got), tc.want)
			}
			if !strings.Contains(got.Error(), tc.err.Error()) {
				t.Errorf("%v becomes %v, which does not say it", err, got)
			}
		}
	}
	if toStatus(nil) != nil {
		t.Error("no error became one")
	}
}

// What is damaged in etcd, or not there, is said as what it is by every way
// into a round, so that no student asks for ever.
func TestStoredDamageIsSaid(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	c.node(t, hello(d, "north", "a", 8), votes(8, alternating))
	student.mustAsk(t, voteRound(spec.Name, 0, 2))
	student.open(t, d, func(s *conclavev1.RunSpec) { s.Name = "another-" + d }) // so that all is read again
	etcd, err := clientv3.New(clientv3.Config{Endpoints: c.server.embedded.Endpoints(), Logger: zap.NewNop()})
	testkit.Must(t, err)
	defer etcd.Close()
	for key, ask := range map[string]uint64{
		"/conclave/releases/" + spec.Name + "/0000000000000000": 0, // the round asked
		"/conclave/runs/" + spec.Name:                           1, // its budget
	} {
		stored, err := etcd.Get(testkit.Within(t), key)
		testkit.Must(t, err)
		if len(stored.Kvs) != 1 {
			t.Fatalf("there is no key %s", key)
		}
		_, err = etcd.Put(testkit.Within(t), key, "{")
		testkit.Must(t, err)
		_, err = student.ask(testkit.Within(t), voteRound(spec.Name, ask, 2), nil)
		wantStatus(t, err, codes.DataLoss, key, "backup")
		_, err = etcd.Put(testkit.Within(t), key, string(stored.Kvs[0].Value))
		testkit.Must(t, err)
	}
	_, err = etcd.Delete(testkit.Within(t), "/conclave/datasets/"+d)
	testkit.Must(t, err)
	_, err = student.ask(testkit.Within(t), voteRound(spec.Name, 1, 2), nil)
	wantStatus(t, err, codes.DataLoss, d)
	other := goodSpec()
	other.Dataset, other.Name = d, "other-"+d
	_, err = student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: other})
	wantStatus(t, err, codes.NotFound, d)
}
