package transport

import (
	"encoding/binary"
	"math/bits"
	"time"
)

const (
	// prefix is what comes before each message of a stream: flags, and a length.
	prefix = 5
	// eachMiB is how long a message may take from its first byte on, for its begin and for
	// each MiB of its length. It is what a part of a round has; see package service.
	eachMiB = time.Minute
	// frameCost is more than gRPC needs to keep a frame, besides its bytes.
	frameCost = 128
)

// unfinished is what a stream has sent and gRPC keeps: a message until it is whole, and whole
// ones until the handler takes them. gRPC tells neither, so both are seen in the frames.
type unfinished struct {
	began  time.Time // when the first byte of the message came
	prefix [prefix]byte
	got    int // bytes of the message and of its prefix, 0 between two messages
	cost   int // bytes of memory that they take

	// ahead is how much longer the whole messages are than what their sender was given back
	// by updates of its window: what the handler has not taken, and up to a quarter of a
	// window that it has. While a long message is under way gRPC widens the window before.
	ahead int
}

// begin is for the begin of a frame with data. A message that is under way goes on in it.
func (u *unfinished) begin(frame int) {
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
			u.ahead += u.got
			u.got, u.cost = 0, 0
		}
	}
}

// size is that of the message that is under way, once its prefix is there.
func (u *unfinished) size() int { return prefix + int(binary.BigEndian.Uint32(u.prefix[1:])) }

// late says whether a message should be whole by now.
func (u *unfinished) late(now time.Time) bool {
	due := eachMiB
	if u.got >= prefix {
		due += time.Duration(min(u.size(), MaxMessageBytes)>>20) * eachMiB
	}
	return u.got > 0 && now.Sub(u.began) > due
}

// costOf is the memory of a frame in gRPC, which makes short buffers as they come and has others
// in powers of two; see buffers.
func costOf(frame int) int {
	if frame > 1<<10 {
		frame = 1 << bits.Len(uint(frame-1))
	}
	return frame + frameCost
}
