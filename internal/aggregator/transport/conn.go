package transport

import (
	"net"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
)

// conn is a connection whose frames are looked at, above TLS and below gRPC, for what its peer
// holds.
type conn struct {
	net.Conn
	from  *quotas
	by    peer.Caller
	quota *quota

	received, sent frames // of one reader and one writer

	// Behind the lock of quota.
	streams map[uint32]*unfinished // by HTTP/2's number, until this side ends them, or the peer does
	held    int                    // bytes
	padding int                    // of the frame that is read, -1 until its length is there
	update  uint32                 // of a window, as far as its frame was written
	ended   error                  // why the connection was cut
}

// Read reads what gRPC is to get. Nothing comes after the connection was cut.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.quota.mu.Lock()
	if c.ended != nil {
		n, err = 0, c.ended
	}
	c.read(p[:n])
	cut := c.quota.keep()
	c.quota.mu.Unlock()
	c.from.tell(cut, overQuota, errQuota)
	return n, err
}

// Write also sees the streams that gRPC ends, and what it gives back to a peer. It looks before
// the peer can answer that.
func (c *conn) Write(p []byte) (int, error) {
	c.quota.mu.Lock()
	c.write(p)
	c.quota.mu.Unlock()
	return c.Conn.Write(p)
}

// Close also gives back what the connection held.
func (c *conn) Close() error {
	c.from.forget(c)
	return c.Conn.Close()
}

func (c *conn) read(p []byte) {
	f, changed := &c.received, false
	now := c.from.now()
	for len(p) > 0 {
		var payload []byte
		var begins bool
		payload, p, begins = f.next(p)
		u := c.streams[f.stream()]
		switch {
		case begins && f.kind() == frameHeaders && u == nil:
			c.streams[f.stream()] = new(unfinished)
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
			u.take(c.unpadded(payload, u), f.length(), now)
			changed = true
		}
	}
	if changed {
		c.sum()
	}
}

// unpadded cuts padding off what comes of a frame. gRPC gives it back like all else.
func (c *conn) unpadded(payload []byte, u *unfinished) []byte {
	if c.padding < 0 && len(payload) > 0 {
		c.padding, payload = int(payload[0]), payload[1:]
		u.ahead += 1 + c.padding
	}
	return payload[:max(0, len(payload)-max(0, c.padding-c.received.rest))]
}

func (c *conn) write(p []byte) {
	f := &c.sent
	for len(p) > 0 {
		var payload []byte
		var begins bool
		payload, p, begins = f.next(p)
		switch {
		case begins && (f.kind() == frameReset || f.kind() == frameHeaders && f.has(flagEndStream)):
			delete(c.streams, f.stream())
			c.sum()
		case f.kind() == frameWindow && len(payload) > 0:
			for _, b := range payload {
				c.update = c.update<<8 | uint32(b)
			}
			if u := c.streams[f.stream()]; f.rest == 0 && u != nil {
				u.ahead -= int(c.update &^ (1 << 31))
			}
		}
	}
}

// late says whether a message should be whole by now.
func (c *conn) late(now time.Time) bool {
	for _, u := range c.streams {
		if u.late(now) {
			return true
		}
	}
	return false
}

// sum adds up what the streams hold. A quarter of a window may be said to be held by a stream
// whose messages were all taken: a connection, which has few streams, is let off one.
func (c *conn) sum() {
	unfinished, ahead := 0, -streamWindow/4
	for _, u := range c.streams {
		unfinished += u.cost
		ahead += max(u.ahead, 0)
	}
	c.count(unfinished + max(ahead, 0))
}

func (c *conn) count(held int) {
	c.quota.held += held - c.held
	c.held = held
}

// end ends what the connection counts for. Its reader gets the reason.
func (c *conn) end(why error) {
	if c.ended == nil {
		c.ended = why
	}
	clear(c.streams)
	c.count(0)
	delete(c.quota.conns, c)
}

// cut ends the connection: gRPC's reader, which waits for more, wakes up and closes it.
func (c *conn) cut(why error) {
	c.end(why)
	_ = c.SetDeadline(time.Unix(1, 0)) // fails where it is closed already
}
