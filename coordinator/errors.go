package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors to match with errors.Is.
var (
	// ErrUnavailable: etcd did not answer; see [UnavailableError].
	ErrUnavailable = errors.New("etcd unavailable")

	// ErrNotLeader: the given leadership has ended. Nothing was written.
	ErrNotLeader = errors.New("no longer the leader")
	// ErrNoDataset: no dataset of this name was opened.
	ErrNoDataset = errors.New("no such dataset")
	// ErrNoRun: no run of this name was opened.
	ErrNoRun = errors.New("no such run")
	// ErrRunExists: a run of this name was opened or submitted with another spec, or has ended.
	ErrRunExists = errors.New("a run with this name exists")
	// ErrRunOpen: the run has not ended.
	ErrRunOpen = errors.New("the run is open")
	// ErrRunClosed: the run was closed; only stored releases are available.
	ErrRunClosed = errors.New("the run is closed")
	// ErrForgotten: the round was released and its release dropped; see
	// [ForgottenError].
	ErrForgotten = errors.New("the release was dropped")
	// ErrForeignManifest: a node returned with other data; see [ManifestMismatchError].
	ErrForeignManifest = errors.New("not the node that was first admitted")
	// ErrEnroll: a site's request is not allowed, or a roster is not the next one. Nothing was written.
	ErrEnroll = errors.New("not allowed with the current roster")
	// ErrBadName: a name cannot be part of a key.
	ErrBadName = errors.New("invalid name")
	// ErrTooLarge: a value exceeds what every etcd accepts. Nothing was written.
	ErrTooLarge = errors.New("too large for etcd")
	// ErrCorrupt: the content of etcd is not what this package wrote.
	ErrCorrupt = errors.New("the stored state is damaged")
)

// UnavailableError says that etcd gave no usable answer. A write may or may not have happened; asking again tells, and
// [Store.Charge] never charges twice.
type UnavailableError struct {
	Op        string
	Endpoints []string
	Err       error

	commit bool // a write was in flight
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s: %v at %s: %v; check that etcd runs and is reachable, then try again",
		e.Op, ErrUnavailable, strings.Join(e.Endpoints, ", "), e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// MismatchError says that a dataset was opened before with another value.
type MismatchError struct {
	Dataset, Field string
	Stored, Given  string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("dataset %q was opened with %s %s, and now it is %s; it cannot change: restore the old value",
		e.Dataset, e.Field, e.Stored, e.Given)
}

// ForgottenError names a round whose release was dropped; see [Charge]. It can
// never be charged again, since its answer would be a second one.
type ForgottenError struct {
	Run   string
	Round uint64
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("round %d of run %q was released, and its answer was deleted because the student no longer "+
		"needed it; continue from the newest checkpoint, or open a run with another name",
		e.Round, e.Run)
}

func (e *ForgottenError) Is(target error) bool { return target == ErrForgotten }

// ManifestMismatchError says how a node differs from the one that was first admitted under its name.
type ManifestMismatchError struct {
	Dataset, Site, Node, Field string
}

func (e *ManifestMismatchError) Error() string {
	return fmt.Sprintf("node %q of site %q returned to dataset %q with another %s; data and partitions of a node "+
		"cannot change: start it with its old data file, key and number of teachers",
		e.Node, e.Site, e.Dataset, e.Field)
}

func (e *ManifestMismatchError) Is(target error) bool { return target == ErrForeignManifest }

// wrap classifies an error of the etcd client. ctx is the caller's context, not the one with the request's own limit.
func (s *Store) wrap(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == context.Canceled {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	if unanswered(err) {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w%s", err, s.diagnose())
		}
		return &UnavailableError{Op: op, Endpoints: s.config.Endpoints, Err: err}
	}
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return fmt.Errorf("%s: etcd's database is full: %w; compact and defragment it, or raise its quota", op, err)
	}
	if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) {
		return fmt.Errorf("%s: etcd denied permission: %w; grant the certificate's user a role for the keys under "+
			"%s", op, err, s.config.Prefix)
	}
	if errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return fmt.Errorf("%s: %w: %w", op, ErrTooLarge, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// diagnose asks once more without waiting for a connection, because gRPC does not report why a connection fails while
// it waits for one.
func (s *Store) diagnose() string {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := etcdserverpb.NewKVClient(s.client.ActiveConnection()).
		Range(ctx, &etcdserverpb.RangeRequest{Key: []byte(s.leaderKey())}, grpc.WaitForReady(false))
	if status.Code(err) == codes.Unavailable {
		return " (" + status.Convert(err).Message() + ")"
	}
	return ""
}

// unanswered distinguishes errors after which the outcome is unknown, or etcd cannot act now, from etcd's refusals.
func unanswered(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	code := status.Code(err)
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		code = etcd.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Internal:
		return true
	case codes.Unknown:
		// A broken connection, reported below gRPC's own errors.
		return !errors.As(err, &etcd)
	}
	return false
}
