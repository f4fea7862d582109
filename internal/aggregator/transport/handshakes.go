package transport

import (
	"container/list"
	"net"
	"sync"
	"time"
)

const (
	// handshakeTimeout bounds the time from a connection's begin to the end of its
	// handshakes, of TLS and of HTTP/2.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes bounds the connections that have not shown a certificate yet. All nodes
	// of a large cluster may come at once.
	maxHandshakes = 1 << 12
)

// handshakes are the connections that have not shown a certificate yet. Whoever reaches the
// port can open some, so there is a bound: above it the oldest is closed. Honest peers are
// done within moments; a peer that opens many and says nothing closes mostly its own.
type handshakes struct {
	most int

	mu    sync.Mutex
	order *list.List // of net.Conn, oldest first
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
		// The end of its handshake with an error is what follows.
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

// countedListener is a listener whose connections are counted from their begin.
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
