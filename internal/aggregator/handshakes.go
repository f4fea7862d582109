package aggregator

import (
	"container/list"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// handshakeTimeout bounds the time from a connection's begin to the end of its
	// handshakes, of TLS and of HTTP/2.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes bounds the connections that have not shown a certificate yet. All
	// nodes of a large cluster may come at once.
	maxHandshakes = 1 << 12
	// maxStreams bounds the calls of a connection that run at the same time. A node has
	// one, a student few.
	maxStreams = 128
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
)

// handshakes are the connections that have not shown a certificate yet. Whoever reaches
// the port can open some, so there is a bound: above it the oldest is closed. Honest peers
// are done within moments; who opens many and says nothing closes mostly its own.
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

// watch is a listener whose connections are counted from their begin.
func (h *handshakes) watch(l net.Listener) net.Listener { return watchedListener{l, h} }

type watchedListener struct {
	net.Listener
	pending *handshakes
}

func (l watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.pending.begin(c)
	}
	return c, err
}

// guard is credentials with which connections are counted to the end of their handshake.
func (h *handshakes) guard(c credentials.TransportCredentials) credentials.TransportCredentials {
	return guarded{c, h}
}

type guarded struct {
	credentials.TransportCredentials
	pending *handshakes
}

func (g guarded) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer g.pending.end(c)
	return g.TransportCredentials.ServerHandshake(c)
}

func (g guarded) Clone() credentials.TransportCredentials {
	return guarded{g.TransportCredentials.Clone(), g.pending}
}
