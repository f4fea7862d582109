package student

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

func TestTroublesThatPassAreWaitedFor(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			notYet := status.Error(code, "not yet")
			s := opens(notYet, notYet, notYet, nil)
			client := connected(t, s)
			client.met.Store(true) // skips the certificate check in between
			got, err := client.OpenRun(testkit.Within(t), &conclavev1.RunSpec{Name: "r"})
			if err != nil || got.Aggregator != "r" || s.count() != 4 {
				t.Errorf("got %v, error %v after %d calls; want the answer of the fourth", got, err, s.count())
			}
		})
	}
}

// A student that called too often waits as long as it is told, and does not treat this as an exhausted budget.
func TestTooManyCallsAreWaitedFor(t *testing.T) {
	t.Parallel()
	const rest = 300 * time.Millisecond
	tooOften, err := status.New(codes.ResourceExhausted, "too many calls").WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(rest)})
	testkit.Must(t, err)
	s := opens(tooOften.Err(), tooOften.Err(), nil)
	client := connected(t, s)
	core, logged := observer.New(zap.WarnLevel)
	client.log = zap.New(core)
	_, err = client.OpenRun(testkit.Within(t), &conclavev1.RunSpec{Name: "r"})
	if err != nil || s.count() != 3 {
		t.Errorf("%d calls: %v", s.count(), err)
	}
	pauses := logged.FilterFieldKey("pause").All()
	for _, entry := range pauses {
		if pause := entry.ContextMap()["pause"].(time.Duration); pause < rest {
			t.Errorf("a pause of %v, want %v at least", pause, rest)
		}
	}
	if len(pauses) != 2 {
		t.Errorf("%d pauses", len(pauses))
	}
}

// Lasting refusals end a call at once. Failures of the aggregator, and an ended certificate that may be renewed, are
// retried for some time.
func TestRefusalsEndACall(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]error{
		codes.ResourceExhausted:  ErrOverBudget,
		codes.InvalidArgument:    ErrRefused,
		codes.FailedPrecondition: ErrRefused,
		codes.PermissionDenied:   ErrRefused,
		codes.NotFound:           ErrRefused,
		codes.AlreadyExists:      ErrRunExists,
		codes.Unimplemented:      ErrRefused,
		codes.Internal:           ErrFailed,
		codes.Unknown:            ErrFailed,
		codes.Unauthenticated:    ErrCertificate,
	} {
		t.Run(code.String(), func(t *testing.T) {
			s := opens(status.Error(code, "the reason and the fix"))
			client := patient(t, s, 300*time.Millisecond)
			client.met.Store(true)
			_, err := client.OpenRun(testkit.Within(t), &conclavev1.RunSpec{Name: "r"})
			if !errors.Is(err, want) || !strings.Contains(err.Error(), "the reason and the fix") {
				t.Errorf("error %v; want %v with the aggregator's reason", err, want)
			}
			if again := want == ErrFailed || want == ErrCertificate; (s.count() > 1) != again {
				t.Errorf("asked %d times", s.count())
			}
			if want == ErrCertificate && !errors.Is(err, ErrRefused) {
				t.Errorf("error %v, want a refusal", err)
			}
		})
	}
}

// A certificate that ended during a call may have been renewed.
func TestACertificateThatEndedIsTriedAgain(t *testing.T) {
	t.Parallel()
	ended := status.Error(codes.Unauthenticated, "the certificate ended")
	s := opens(ended, ended, nil)
	_, err := connected(t, s).OpenRun(testkit.Within(t), &conclavev1.RunSpec{Name: "r"})
	if err != nil || s.count() != 3 {
		t.Errorf("%v after %d calls", err, s.count())
	}
}

func TestAnAggregatorThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	c := studentConfig(certstest.New(t), testkit.FreeAddress(t, "127.0.0.1"))
	c.Patience = 200 * time.Millisecond
	start := time.Now()
	_, err := newClient(t, c).OpenRun(testkit.Within(t), &conclavev1.RunSpec{})
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), c.Aggregator) {
		t.Errorf("error %v; want ErrUnreachable that names %s", err, c.Aggregator)
	}
	if took := time.Since(start); took < c.Patience || took > time.Minute {
		t.Errorf("gave up after %v, want soon after %v", took, c.Patience)
	}
}

// After a first answer, an aggregator may be away for longer than the patience.
func TestAnAggregatorThatComesBackIsFoundAgain(t *testing.T) {
	t.Parallel()
	dir := certstest.New(t)
	s := &service{open: func(call int, _ *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
		return &conclavev1.OpenRunResponse{Rounds: uint64(call)}, nil
	}}
	address, stop := serve(t, dir, testkit.FreeAddress(t, "127.0.0.1"), s)
	c := studentConfig(dir, address)
	c.Patience = 100 * time.Millisecond
	client := newClient(t, c)
	_, err := client.OpenRun(testkit.Within(t), &conclavev1.RunSpec{})
	testkit.Must(t, err)
	stop()
	back := time.AfterFunc(4*c.Patience, func() { serve(t, dir, address, s) })
	defer back.Stop()
	got, err := client.OpenRun(testkit.Within(t), &conclavev1.RunSpec{})
	if err != nil || got.Rounds != 1 {
		t.Errorf("got %v, error %v after the aggregator came back", got, err)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	client := newClient(t, studentConfig(certstest.New(t), testkit.FreeAddress(t, "127.0.0.1")))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := client.OpenRun(ctx, &conclavev1.RunSpec{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestCertificatesThatDoNotFitAreNamed(t *testing.T) {
	t.Parallel()
	s := opens(nil)
	dir, other := certstest.New(t), certstest.New(t)
	address, _ := serve(t, dir, "127.0.0.1:0", s)
	ask := func(c Config) error {
		client, err := Dial(c, zap.NewNop())
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.OpenRun(testkit.Within(t), &conclavev1.RunSpec{})
		return err
	}
	stranger := studentConfig(other, address)
	stranger.TLS.CA = studentConfig(dir, address).TLS.CA
	elsewhere := studentConfig(dir, address)
	elsewhere.ServerName = "aggregator.example"
	expired := studentConfig(dir, address)
	expired.TLS = certs.IssuedFiles(certstest.Aged(t), certs.RoleNode, "old")
	missing := studentConfig(dir, address)
	missing.TLS.Key = filepath.Join(dir, "none.key")
	for name, c := range map[string]struct {
		config Config
		want   error
	}{
		"aggregator of another authority": {studentConfig(other, address), certs.ErrForeign},
		"student of another authority":    {stranger, certs.ErrForeign},
		"another host":                    {elsewhere, certs.ErrWrongHost},
		"expired":                         {expired, certs.ErrExpired},
		"missing key":                     {missing, certs.ErrMissing},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			if err := ask(c.config); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v; trying again cannot help", took)
			}
		})
	}
	if s.count() != 0 {
		t.Errorf("%d calls got through", s.count())
	}
}

func TestALedgerThatBreaksOffIsReadAnewFromItsStart(t *testing.T) {
	s := &service{ledger: func(call int, stream rpc.StudentService_ReadLedgerServer) error {
		for _, line := range []string{"one", "two", "three"} {
			if err := stream.Send(&conclavev1.ReadLedgerResponse{Entry: []byte(line)}); err != nil {
				return err
			}
			if call == 0 && line == "two" {
				return status.Error(codes.Unavailable, "stopping")
			}
		}
		return nil
	}}
	lines, err := connected(t, s).Ledger(testkit.Within(t), "r")
	testkit.Must(t, err)
	if diff := cmp.Diff([][]byte{[]byte("one"), []byte("two"), []byte("three")}, lines); diff != "" {
		t.Error(diff)
	}
}
