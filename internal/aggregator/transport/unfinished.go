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

// unfinished is what a stream has sent and gRPC keeps: a message until it is whole, which the frames
// tell, and whole ones until the handler takes them, which gRPC tells; see [call].
type unfinished struct {
	began  time.Time // when the first byte of the message came
	prefix [prefix]byte
	got    int  // bytes of the message and of its prefix, 0 between two messages
	cost   int  // bytes of memory that they take
	shared bool // another message was whole in the frame that is read, and has its cost

	ahead   int // bytes of messages that are whole and that nobody took
	untaken int // bytes of memory that they take
}

// begin is for the begin of a frame with data. A message that is under way goes on in it.
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

// took says that the handler took a message of so many bytes, with its prefix. What it took of
// memory is the share of these bytes.
func (u *unfinished) took(n int) {
	left := max(0, u.ahead-n)
	u.untaken = int(int64(u.untaken) * int64(left) / int64(max(1, u.ahead)))
	u.ahead = left
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
