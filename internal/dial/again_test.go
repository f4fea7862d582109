package dial

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestAgain(t *testing.T) {
	asks := func(code codes.Code, pause time.Duration) error {
		s, err := status.New(code, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(pause)})
		testkit.Must(t, err)
		return s.Err()
	}
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"none":            {},
		"another":         {err: errors.New("broken")},
		"over budget":     {err: status.Error(codes.ResourceExhausted, "over budget")},
		"another code":    {err: asks(codes.Unavailable, time.Second)},
		"too often":       {asks(codes.ResourceExhausted, 3*time.Second), 3 * time.Second},
		"wrapped":         {fmt.Errorf("submit: %w", asks(codes.ResourceExhausted, time.Second)), time.Second},
		"for a day":       {asks(codes.ResourceExhausted, 24*time.Hour), longestRest},
		"for less than 0": {err: asks(codes.ResourceExhausted, -time.Second)},
	} {
		if got := Again(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
