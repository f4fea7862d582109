package attacks

import (
	"bytes"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// mostHeld is the memory for half sent messages of a certificate: 64 MiB, in buffers that may be half empty, and what
// was read just before its connection is closed.
const mostHeld = 160 << 20

// shortestCall is how long a call stays open that says nothing more; a node's waits this long for its hello.
const shortestCall = 10 * time.Second

// half is a call with the first part of a message of 4 MiB: all but 64 KiB of a stream's window. More than the
// window, before the server has widened it, would end the stream, as on a slow server.
func half(stream uint32, method string) []byte {
	raw := call(stream, method)
	first := append([]byte{0, 0, 0x40, 0, 0}, make([]byte, 15<<16)...)
	for at := 0; at+1<<14 < len(first); at += 1 << 14 {
		raw = append(raw, rawFrame(frameData, 0, stream, first[at:at+1<<14])...)
	}
	return raw
}

// behind is a call whose complete round waits for its release, followed by messages that nobody takes, in frames that
// waste most of a buffer.
func (s *scene) behind(t testing.TB, stream uint32, number uint64) []byte {
	run := s.spec.GetName()
	part := func(data []byte) []byte {
		return message(stream, 0, encoded(t, &conclavev1.AskRequest{Part: &conclavev1.RoundPart{
			Run: run, Round: number, Parts: 1, Data: data}}))
	}
	raw := append(call(stream, askMethod), part(encoded(t, s.q.round(run, number)))...)
	return append(raw, bytes.Repeat(part(make([]byte, 4100)), 900<<10/4200)...)
}

// A certificate may have 64 MiB of half sent messages, however sent: above that its largest connection is closed and
// the others continue.
func TestHalfSentMessagesAreBounded(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	w.checkUnharmed(t, s, 0)
	const cut = `conclave_connections_cut_total{reason="quota"}`
	round := uint64(1)
	for name, a := range map[string]struct {
		role                 certs.Role
		name                 string
		connections, streams int
		call                 func(stream uint32) []byte
	}{
		"a student's 80 rounds": {certs.RoleStudent, "eve", 1, 80,
			func(stream uint32) []byte { return half(stream, askMethod) }},
		"a node's 80 streams": {certs.RoleNode, "mallory", 1, 80,
			func(stream uint32) []byte { return half(stream, workMethod) }},
		"on many connections": {certs.RoleNode, "mallory", 20, 4,
			func(stream uint32) []byte { return half(stream, workMethod) }},
		// With the certificate of the honest student, whose own connection needs little memory and stays open.
		"whole messages behind rounds": {certs.RoleStudent, "lab", 10, 20,
			func(stream uint32) []byte { return s.behind(t, stream, round) }},
	} {
		t.Run(name, func(t *testing.T) {
			idle, goroutines := heap()
			before, held := w.metrics(t)[cut], int64(0)
			var conns []*h2
			attack := func() {
				conns = make([]*h2, a.connections)
				for i := range conns {
					conns[i] = w.h2(t, a.role, a.name)
					for j := range a.streams {
						conns[i].write(a.call(uint32(2*j + 1)))
						if n := i*a.streams + j + 1; n%16 == 0 || n == a.connections*a.streams {
							now, _ := heap()
							held = max(held, now-idle)
						}
					}
				}
			}
			var begun time.Time
			testkit.Eventually(t, "a connection to be closed", func() bool {
				// On a slow machine the server ends the first calls before the last are sent.
				if time.Since(begun) > shortestCall {
					closeAll(conns)
					begun = time.Now()
					attack()
				}
				return w.metrics(t)[cut] > before
			})
			t.Logf("%d connections with %d streams each held at most %d MiB", a.connections, a.streams, held>>20)
			if held > mostHeld {
				t.Errorf("%d MiB are held", held>>20)
			}
			w.checkUnharmed(t, s, round)
			round++
			closeAll(conns)
			ends(t, goroutines+6)
		})
	}
}

func closeAll(conns []*h2) {
	for _, c := range conns {
		c.Close()
	}
}
