package transport

import (
	"encoding/binary"
	"math/bits"
	"time"
)

const (
	// prefix is the size of a message's prefix: flags and a length.
	prefix = 5
	// eachMiB is how long a message may take from its first byte on, for its start and for each MiB of its length. It
	// equals the time for a part of a round; see package service.
	eachMiB = time.Minute
	// frameCost exceeds gRPC's overhead per frame, without the frame's bytes.
	frameCost = 128
)

// unfinished counts what a stream has sent and gRPC keeps: a message until it is complete, as frames show, and
// complete messages until the handler takes them, as gRPC reports; see [call].
type unfinished struct {
	began  time.Time // arrival of the message's first byte
	prefix [prefix]byte
	got    int  // bytes of the message and its prefix, 0 between messages
	cost   int  // memory of these bytes
	shared bool // another message ended in the current frame, and has its cost

	ahead   int // bytes of complete messages that nobody took
	untaken int // memory of these bytes
}

// begin is called for the start of a data frame. A current message continues in it.
func (u *unfinished) begin(frame int) {
	u.shared = false
	if u.got > 0 {
		u.cost += costOf(frame)
	}
}

// take follows the messages through the bytes of a frame.
func (u *unfinished) take(data []byte, frame int, now time.Time) {
	for len(data) > 0 {
		if u.got == 0 {
			u.began, u.cost = now, costOf(frame)
		}
		n := 0
		if u.got < prefix {
			n = copy(u.prefix[u.got:], data)
		} else {
			n = min(u.size()-u.got, len(data))
		}
		u.got += n
		data = data[n:]
		if u.got >= prefix && u.got == u.size() {
			if u.shared {
				u.cost = u.got
			}
			u.ahead, u.untaken, u.shared = u.ahead+u.got, u.untaken+u.cost, true
			u.got, u.cost = 0, 0
		}
	}
}

// took records that the handler took a message of n bytes, with its prefix. It frees a proportional share of the
// memory.
func (u *unfinished) took(n int) {
	left := max(0, u.ahead-n)
	u.untaken = int(int64(u.untaken) * int64(left) / int64(max(1, u.ahead)))
	u.ahead = left
}

// size is the size of the current message, once its prefix is known.
func (u *unfinished) size() int { return prefix + int(binary.BigEndian.Uint32(u.prefix[1:])) }

// late reports whether a message should be complete by now.
func (u *unfinished) late(now time.Time) bool {
	due := eachMiB
	if u.got >= prefix {
		due += time.Duration(min(u.size(), MaxMessageBytes)>>20) * eachMiB
	}
	return u.got > 0 && now.Sub(u.began) > due
}

// costOf is the memory of a frame in gRPC, which allocates short buffers exactly and others in powers of two; see
// buffers.
func costOf(frame int) int {
	if frame > 1<<10 {
		frame = 1 << bits.Len(uint(frame-1))
	}
	return frame + frameCost
}
