package transport

import (
	"net"
	"testing"
)

// closing is a connection that records whether it was closed.
type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestTheOldestHandshakeMakesRoom(t *testing.T) {
	h := newHandshakes(3)
	conns := make([]*closing, 6)
	for i := range conns {
		conns[i] = &closing{}
		h.begin(conns[i])
		if i == 1 {
			h.end(conns[1]) // its certificate is verified
			h.end(conns[1])
		}
	}
	for i, want := range []bool{true, false, true, false, false, false} {
		if conns[i].closed != want {
			t.Errorf("connection %d: closed is %v", i, !want)
		}
	}
	for _, c := range conns {
		h.end(c)
	}
	if h.order.Len() != 0 || len(h.at) != 0 {
		t.Errorf("%d connections are remembered", h.order.Len())
	}
}
