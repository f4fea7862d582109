package etcdserver

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// A call that etcd's fatal error takes down, or that hangs, holds nobody up.
func TestACallThatDoesNotReturn(t *testing.T) {
	p := inProcess{gate: new(gatekeeper), observe: func(string, time.Duration, error) {}}
	_, err := call(testkit.Within(t), p, "x", func() (*int, error) { runtime.Goexit(); return nil, nil })
	if status.Code(err) != codes.Unavailable {
		t.Errorf("fatal: %v", err)
	}
	hang := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	hangs := func() (*int, error) { <-hang; return nil, nil }
	if _, err := call(ctx, p, "x", hangs); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hangs: %v", err)
	}
	empty := p.gate.shut()
	select {
	case <-empty:
		t.Error("one is inside")
	default:
	}
	if _, err := call(testkit.Within(t), p, "x",
		func() (*int, error) { t.Error("it was let in"); return nil, nil }); status.Code(err) != codes.Unavailable {
		t.Errorf("after the end: %v", err)
	}
	close(hang)
	testkit.Receive(t, empty)
	testkit.Receive(t, p.gate.shut())
}
