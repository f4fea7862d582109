package transport

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// A certificate has a limited number of connections, and the next one is refused with a message. Existing
// connections, and those of others, continue; closing one makes room.
func TestConnectionsOfACertificateAreBounded(t *testing.T) {
	port, dial := served(t, 2)
	part := &conclavev1.AskRequest{Part: &conclavev1.RoundPart{Data: make([]byte, 10)}}
	ask := func(conn *grpc.ClientConn) error {
		return askAll(testkit.Within(t), rpc.NewStudentServiceClient(conn), part, 1)
	}
	first, second, third, other := dial("lab"), dial("lab"), dial("lab"), dial("eve")
	for _, conn := range []*grpc.ClientConn{first, second} {
		testkit.Must(t, ask(conn))
	}
	testkit.Eventually(t, "a third connection to be told", func() bool {
		err := ask(third)
		return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "raise max_connections")
	})
	for _, conn := range []*grpc.ClientConn{first, second, other} {
		testkit.Must(t, ask(conn))
	}
	testkit.Must(t, first.Close())
	testkit.Eventually(t, "room for the third", func() bool { return ask(third) == nil })
	// Only a few refused connections get a message.
	lab := port.gate.quotas.of[callerOf(port, "student/lab")]
	for range 2 * mostRefused {
		c := dial("lab")
		_ = ask(c)
		lab.mu.Lock()
		n := len(lab.conns)
		lab.mu.Unlock()
		if n > 2+mostRefused {
			t.Fatalf("a certificate has %d connections", n)
		}
	}
}

// callerOf finds a connected peer.
func callerOf(port *Port, name string) (found peer.Caller) {
	port.gate.quotas.mu.Lock()
	defer port.gate.quotas.mu.Unlock()
	for by := range port.gate.quotas.of {
		if by.Name == name {
			found = by
		}
	}
	return found
}

// Complete messages that nobody takes count for each connection, however small they are.
func TestManyConnectionsThatHoldLittleAreBounded(t *testing.T) {
	q := newQuotas(1<<10, noMetrics{}, peer.AuditLog{})
	const each = 200 << 10
	var conns []*conn
	for range 2 * mostHeld / each {
		c, other := pipe(t, q, "a")
		conns = append(conns, c)
		go func() {
			_, _ = other.Write(frameOf(frameHeaders, 4, 1, 1))
			_, _ = other.Write(frameOf(frameData, 0, 1, messageOf(each, each)...))
		}()
		for c.ended == nil && (c.streams[1] == nil || c.streams[1].ahead == 0) {
			_, _ = c.Read(make([]byte, 1<<16)) // fails once it is cut
		}
	}
	cut := 0
	for _, c := range conns {
		if c.ended != nil {
			cut++
		}
	}
	if cut == 0 || conns[0].quota.held > mostHeld {
		t.Errorf("%d connections hold %d bytes, and %d were closed", len(conns), conns[0].quota.held, cut)
	}
}
