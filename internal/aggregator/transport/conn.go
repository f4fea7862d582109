package transport

import (
	"bytes"
	"context"
	"net"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
)

// conn is a connection that inspects frames, above TLS and below gRPC, to count the memory that its peer occupies.
type conn struct {
	net.Conn
	from  *quotas
	by    peer.Caller
	quota *quota

	received, sent frames // used by one reader and one writer

	later []byte // read, but not passed on yet; see Read

	// Guarded by the lock of quota.
	streams map[uint32]*unfinished // by HTTP/2 stream number, until either side ends them
	opening *unfinished            // the newest stream
	held    int                    // bytes
	padding int                    // of the current frame; -1 until its length is known
	refused error                  // why calls are refused
	ended   error                  // why the connection was cut
}

// Read returns the bytes for gRPC up to the end of a call's headers, so that gRPC starts the call before it reads on,
// and begin knows its stream. Nothing is returned after the connection was cut.
func (c *conn) Read(p []byte) (n int, err error) {
	fresh := len(c.later) == 0
	if fresh {
		n, err = c.Conn.Read(p)
	} else {
		n = copy(p, c.later)
	}
	c.quota.mu.Lock()
	if c.ended != nil {
		n, err = 0, c.ended
	}
	seen := c.read(p[:n])
	cut := c.quota.keep()
	c.quota.mu.Unlock()
	c.from.tell(cut, overQuota, errQuota)
	if !fresh {
		c.later = c.later[seen:]
	} else if seen < n {
		c.later, err = bytes.Clone(p[seen:n]), nil // the error will recur
	}
	return seen, err
}

// Write also tracks the streams that gRPC ends, before the peer can react to that.
func (c *conn) Write(p []byte) (int, error) {
	c.quota.mu.Lock()
	c.write(p)
	c.quota.mu.Unlock()
	return c.Conn.Write(p)
}

// Close also releases what the connection counts for.
func (c *conn) Close() error {
	c.from.forget(c)
	return c.Conn.Close()
}

// begin is called for a call whose headers gRPC has just read: the context gets its stream.
func (c *conn) begin(ctx context.Context) (context.Context, error) {
	c.quota.mu.Lock()
	defer c.quota.mu.Unlock()
	return context.WithValue(ctx, callKey{}, &call{c, c.opening}), c.refused
}

// read follows the frames through p, up to the end of one that opens a stream, and returns how far.
func (c *conn) read(p []byte) (seen int) {
	f, all, changed := &c.received, len(p), false
	now := c.from.now()
	for opened := false; len(p) > 0 && !opened; {
		var payload []byte
		var begins bool
		payload, p, begins = f.next(p)
		u := c.streams[f.stream()]
		switch {
		case begins && f.kind() == frameHeaders && u == nil:
			c.opening = new(unfinished)
			c.streams[f.stream()] = c.opening
			changed = true
		case begins && f.kind() == frameReset:
			delete(c.streams, f.stream())
			changed = true
		case f.kind() == frameData && u != nil:
			if begins {
				u.begin(f.length())
				c.padding = 0
				if f.has(flagPadded) {
					c.padding = -1
				}
			}
			u.take(c.unpadded(payload), f.length(), now)
			changed = true
		}
		opened = f.ends() && (f.kind() == frameHeaders || f.kind() == frameContinued)
	}
	if changed {
		c.sum()
	}
	return all - len(p)
}

// unpadded removes padding from the bytes of a frame. gRPC keeps none.
func (c *conn) unpadded(payload []byte) []byte {
	if c.padding < 0 && len(payload) > 0 {
		c.padding, payload = int(payload[0]), payload[1:]
	}
	return payload[:max(0, len(payload)-max(0, c.padding-c.received.rest))]
}

func (c *conn) write(p []byte) {
	f := &c.sent
	for len(p) > 0 {
		var begins bool
		_, p, begins = f.next(p)
		if begins && (f.kind() == frameReset || f.kind() == frameHeaders && f.has(flagEndStream)) {
			delete(c.streams, f.stream())
			c.sum()
		}
	}
}

// late reports whether a message should be complete by now.
func (c *conn) late(now time.Time) bool {
	for _, u := range c.streams {
		if u.late(now) {
			return true
		}
	}
	return false
}

// sum adds up the memory of the streams.
func (c *conn) sum() {
	held := max(0, len(c.streams)-freeCalls) * callCost
	for _, u := range c.streams {
		held += u.cost + u.untaken
	}
	c.count(held)
}

func (c *conn) count(held int) {
	c.quota.held += held - c.held
	c.held = held
}

// end stops counting the connection. Its reader gets the reason.
func (c *conn) end(why error) {
	if c.ended == nil {
		c.ended = why
	}
	clear(c.streams)
	c.count(0)
	delete(c.quota.conns, c)
}

// cut ends the connection: gRPC's waiting reader wakes up and closes it.
func (c *conn) cut(why error) {
	c.end(why)
	_ = c.SetDeadline(time.Unix(1, 0)) // fails if already closed
}
