package transport

import "encoding/binary"

// The parts of HTTP/2 (RFC 9113, section 6) that [conn] inspects.
const (
	frameData, frameHeaders, frameReset, frameContinued = 0x0, 0x1, 0x3, 0x9

	flagEndStream, flagPadded = 0x1, 0x8

	// prefaceBytes precede a client's first frame.
	prefaceBytes = 24
)

// frames finds frame boundaries in one direction of a connection, in pieces of any length.
type frames struct {
	preface int // bytes before the first frame
	header  [9]byte
	have    int // bytes of the header so far
	rest    int // bytes of the payload still to come
}

// next splits p after the available payload of the current frame. begins reports that the frame's header was just
// completed. There is no frame until the preface and the header are complete.
func (f *frames) next(p []byte) (payload, after []byte, begins bool) {
	if f.preface > 0 {
		n := min(f.preface, len(p))
		f.preface -= n
		return nil, p[n:], false
	}
	if f.rest == 0 {
		n := copy(f.header[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have < len(f.header) {
			return nil, p, false
		}
		f.have, f.rest, begins = 0, f.length(), true
	}
	n := min(f.rest, len(p))
	f.rest -= n
	return p[:n], p[n:], begins
}

// ends reports whether a frame has just ended.
func (f *frames) ends() bool { return f.preface == 0 && f.have == 0 && f.rest == 0 }

func (f *frames) length() int {
	return int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
}

func (f *frames) kind() byte { return f.header[3] }

func (f *frames) has(flag byte) bool { return f.header[4]&flag != 0 }

func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31) }
