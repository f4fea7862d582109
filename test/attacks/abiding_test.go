package attacks

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// These tests wait for timeouts of the aggregator, so they start first and run beside the others, on their own
// aggregators.

// Pings as often as nodes and students send them, and twice as often, are accepted; slightly more frequent ones are
// not.
func TestPingsThatBothSidesAgreeOn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 16 seconds")
	}
	w := apart(t)
	var pinging sync.WaitGroup
	for _, c := range []struct {
		every time.Duration
		stays bool
	}{{dial.PingEvery, true}, {dial.PingEvery/2 + 200*time.Millisecond, true},
		{dial.PingEvery/2 - 500*time.Millisecond, false}} {
		conn := w.h2(t, certs.RoleNode, "mallory")
		pinging.Go(func() {
			long := 16 * time.Second // enough for two pings that come too early
			if !c.stays {
				long = testkit.Patience // a pause of the machine makes some of its pings come late
			}
			began := time.Now()
			for left := long; left > 0 && !conn.closed(); left = long - time.Since(began) {
				conn.write(rawFrame(framePing, 0, 0, make([]byte, 8)))
				time.Sleep(min(c.every, left))
			}
			sent := len(conn.got(frameGoAway)) > 0 || conn.closed()
			if sent == c.stays {
				t.Errorf("pings every %v: sent away: %v", c.every, sent)
			}
			if sent {
				wantCalm(t, conn)
			}
		})
	}
	t.Parallel()
	pinging.Wait()
}

// A peer that connects and says nothing, or stops in the middle, is disconnected after ten seconds. So is one with a
// certificate but without a hello; it may retry, because the network may have failed.
func TestWhoSaysNothingIsClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	w := apart(t)
	client, err := tlsconfig.Client(w.files(certs.RoleNode, "mallory"), "127.0.0.1")
	testkit.Must(t, err)
	hello := recorded(t, client)
	var silent sync.WaitGroup
	for name, begin := range map[string]func() net.Conn{
		"no byte": func() net.Conn { return w.dialTCP(t) },
		"half a greeting": func() net.Conn {
			conn := w.dialTCP(t)
			_, _ = conn.Write(hello[:len(hello)/2])
			return conn
		},
		"a byte now and then": func() net.Conn {
			conn := w.dialTCP(t)
			silent.Go(func() {
				for _, b := range hello {
					if _, err := conn.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(250 * time.Millisecond)
				}
			})
			return conn
		},
		"a greeting and no more": func() net.Conn {
			conn := w.dialTCP(t)
			_, _ = conn.Write(hello)
			return conn
		},
		"a certificate, and no HTTP/2": func() net.Conn { return w.tlsOf(t, certs.RoleNode, "mallory") },
	} {
		silent.Go(func() {
			began := time.Now()
			conn := begin()
			_, err := drain(conn, testkit.Patience)
			if took := time.Since(began); !refusedBy(err) || took < 8*time.Second || took > time.Minute {
				t.Errorf("%s: closed after %v, %v", name, took, err)
			}
			conn.Close()
		})
	}
	before := w.rejections(t)
	p := work(t, w.dial(t, certs.RoleNode, "mallory"))
	t.Parallel()
	if err := p.over(t); status.Code(err) != codes.DeadlineExceeded ||
		!strings.Contains(err.Error(), "no hello within 10s") {
		t.Errorf("a node that says nothing: %v", err)
	}
	if got := w.rejections(t)["protocol"] - before["protocol"]; got != 1 {
		t.Errorf("counted %v times", got)
	}
	silent.Wait()
}
