package coordinator

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// listen accepts connections until the returned function is called.
func listen(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	accepted := make(chan net.Conn)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	var open []net.Conn
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for c := range accepted {
			open = append(open, c)
		}
	}()
	return l.Addr().String(), func() {
		l.Close()
		<-ended
		<-collected
		for _, c := range open {
			c.Close()
		}
	}
}

// A standby takes over long before the lease ends if the leader no longer listens, and the old leadership cannot write.
func TestAStandbyTakesOverFromAProcessThatEnded(t *testing.T) {
	t.Parallel()
	etcd := runEtcd(t, t.TempDir())
	core, seen := observer.New(zap.InfoLevel)
	s := openStore(t, Config{Endpoints: etcd.Endpoints()})
	other := openStore(t, Config{Endpoints: etcd.Endpoints(), Log: zap.New(core)})
	address, stop := listen(t, "127.0.0.1:0")
	first, err := s.LeadAt(testkit.Within(t), "first", address, 10*time.Minute)
	testkit.Must(t, err)
	led := make(chan *Leadership, 1)
	go func() {
		second, err := other.LeadAt(testkit.Within(t), "second", "", 10*time.Minute)
		if err != nil {
			t.Error(err)
		}
		led <- second
	}()
	testkit.Eventually(t, "the standby to meet the leader", func() bool {
		return seen.FilterMessageSnippet("the leader answers").Len() == 1
	})
	select {
	case <-led:
		t.Fatal("the standby leads beside a leader that listens")
	case <-time.After(500 * time.Millisecond):
	}
	started := time.Now()
	stop()
	// As if the watch broke now; it fails if the standby was faster.
	_, _ = s.client.Put(testkit.Within(t), s.leaderKey(), "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
	select {
	case second := <-led:
		t.Logf("took over after %v", time.Since(started))
		if seen.FilterMessageSnippet("nothing listens where").Len() != 1 || seen.Len() != 2 {
			t.Errorf("the standby logged %v", seen.All())
		}
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
		testkit.Receive(t, first.Context().Done())
		if err := second.Resign(testkit.Within(t)); err != nil {
			t.Error(err)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("the standby waits for the lease")
	}
}

// An address that never answered proves nothing, nor does one that hangs up.
func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	never, stop := listen(t, testkit.FreeAddress(t, "127.0.0.1"))
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if awaitEnd(ctx, never, new(meeting), zap.NewNop()) {
		t.Error("an address where nobody ever listened is taken for a process that ended")
	}
	if !awaitEnd(testkit.Within(t), never, &meeting{met: true}, zap.NewNop()) {
		t.Error("that the leader answered before the watch broke is forgotten")
	}

	// A server that closes idle connections.
	tired, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	var hangups atomic.Int64
	go func() {
		for {
			c, err := tired.Accept()
			if err != nil {
				return
			}
			hangups.Add(1)
			c.Close()
		}
	}()
	began := time.Now()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan bool, 1)
	go func() { ended <- awaitEnd(ctx, tired.Addr().String(), new(meeting), zap.NewNop()) }()
	testkit.Eventually(t, "three connections", func() bool { return hangups.Load() >= 3 })
	if n, took := hangups.Load(), time.Since(began); n > int64(took/(200*time.Millisecond))+1 {
		t.Errorf("%d connections in %v, want one every 200 ms at most", n, took)
	}
	select {
	case <-ended:
		t.Error("a process that hangs up is taken for one that ended")
	default:
	}
	tired.Close()
	select {
	case gone := <-ended:
		if !gone {
			t.Error("the end was not seen")
		}
	case <-time.After(testkit.Patience):
		t.Error("the end was not seen in time")
	}
}
