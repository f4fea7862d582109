package transport

import (
	"bytes"
	"context"
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

	later []byte // what was read and is not handed on yet; see Read

	// Behind the lock of quota.
	streams map[uint32]*unfinished // by HTTP/2's number, until this side ends them, or the peer does
	opening *unfinished            // the newest of them
	held    int                    // bytes
	padding int                    // of the frame that is read, -1 until its length is there
	refused error                  // why no call is taken
	ended   error                  // why the connection was cut
}

// Read reads what gRPC is to get, and nothing behind the headers of a call at the same time: gRPC
// then knows the call when it reads on, and begin knows which stream it is. Nothing comes after the
// connection was cut.
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
		c.later, err = bytes.Clone(p[seen:n]), nil // an error comes again
	}
	return seen, err
}

// Write also sees the streams that gRPC ends. It looks before the peer can answer that.
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

// begin is for a call whose headers gRPC has just read: the context knows which stream it is.
func (c *conn) begin(ctx context.Context) (context.Context, error) {
	c.quota.mu.Lock()
	defer c.quota.mu.Unlock()
	return context.WithValue(ctx, callKey{}, &call{c, c.opening}), c.refused
}

// read follows the frames through p, up to the end of one that opens a stream. It returns how far.
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

// unpadded cuts padding off what comes of a frame. gRPC keeps none.
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

// late says whether a message should be whole by now.
func (c *conn) late(now time.Time) bool {
	for _, u := range c.streams {
		if u.late(now) {
			return true
		}
	}
	return false
}

// sum adds up what the streams hold.
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
