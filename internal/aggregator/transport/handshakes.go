package transport

import (
	"container/list"
	"net"
	"sync"
	"time"
)

const (
	// handshakeTimeout bounds the time from the start of a connection to the end of its TLS and HTTP/2 handshakes.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes bounds the connections without a verified certificate. All nodes of a large cluster may connect
	// at once.
	maxHandshakes = 1 << 12
)

// handshakes are the connections without a verified certificate. Anybody who reaches the port can open some, so their
// number is bounded: above the bound the oldest is closed. Honest peers finish quickly; a peer that opens many idle
// connections mostly loses its own.
type handshakes struct {
	most int

	mu    sync.Mutex
	order *list.List // values are net.Conn, oldest first
	at    map[net.Conn]*list.Element
}

func newHandshakes(most int) *handshakes {
	return &handshakes{most: most, order: list.New(), at: map[net.Conn]*list.Element{}}
}

func (h *handshakes) begin(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[c] = h.order.PushBack(c)
	if h.order.Len() > h.most {
		oldest := h.order.Front()
		h.order.Remove(oldest)
		delete(h.at, oldest.Value.(net.Conn))
		// Its handshake then ends with an error.
		_ = oldest.Value.(net.Conn).Close()
	}
}

func (h *handshakes) end(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.at[c]; ok {
		h.order.Remove(at)
		delete(h.at, c)
	}
}

// countedListener counts its connections from their start.
type countedListener struct {
	net.Listener
	handshakes *handshakes
}

// Accept returns the next connection.
func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.handshakes.begin(c)
	}
	return c, err
}
