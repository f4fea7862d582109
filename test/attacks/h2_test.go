package attacks

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Frame types and flags of HTTP/2 (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings  = 0x0, 0x1, 0x3, 0x4
	framePing, frameGoAway, frameWindow, frameContinued = 0x6, 0x7, 0x8, 0x9

	flagEndStream, flagAck, flagEndHeaders = 0x1, 0x1, 0x4

	errRefusedStream, errCalm = 0x7, 0xb
)

// h2 is an HTTP/2 client that writes arbitrary frames and records what it receives.
type h2 struct {
	net.Conn
	ended chan struct{}

	mu     sync.Mutex
	frames []frame
	err    error
}

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// tlsOf is a connection with a certificate, after its handshake.
func (w *world) tlsOf(t testing.TB, role certs.Role, name string) *tls.Conn {
	t.Helper()
	config, err := tlsconfig.Client(w.files(role, name), "127.0.0.1")
	testkit.Must(t, err)
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(testkit.Within(t), "tcp", w.address())
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.(*tls.Conn)
}

// h2 opens a connection with a site's certificate and these settings.
func (w *world) h2(t testing.TB, role certs.Role, name string, settings ...byte) *h2 {
	t.Helper()
	c := &h2{Conn: w.tlsOf(t, role, name), ended: make(chan struct{})}
	_, err := c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), rawFrame(frameSettings, 0, 0, settings)...))
	testkit.Must(t, err)
	go c.read()
	t.Cleanup(func() {
		c.Close()
		testkit.Receive(t, c.ended)
	})
	return c
}

func rawFrame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	raw := append(make([]byte, 0, 9+n), byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(raw, stream), payload...)
}

// write sends frames; reading shows whether the server has closed the connection.
func (c *h2) write(frames ...[]byte) { _, _ = c.Write(bytes.Join(frames, nil)) }

func (c *h2) read() {
	defer close(c.ended)
	for {
		var head [9]byte
		_, err := io.ReadFull(c.Conn, head[:])
		f := frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
		if err == nil {
			f.payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
			_, err = io.ReadFull(c.Conn, f.payload)
		}
		c.mu.Lock()
		if err != nil {
			c.err = err
			c.mu.Unlock()
			return
		}
		c.frames = append(c.frames, f)
		c.mu.Unlock()
		if f.kind == framePing && f.flags&flagAck == 0 { // otherwise a slow machine times it out
			c.write(rawFrame(framePing, flagAck, 0, f.payload))
		}
	}
}

// got returns the frames of a kind.
func (c *h2) got(kind byte) (found []frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.frames {
		if f.kind == kind {
			found = append(found, f)
		}
	}
	return found
}

// closed reports whether the server has closed the connection.
func (c *h2) closed() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// headers are the headers of a gRPC call, as HPACK literals without an index (RFC 7541, 6.2.2).
func headers(method string, more ...string) []byte {
	var raw []byte
	all := append([]string{":method", "POST", ":scheme", "https", ":path", method, ":authority", "agg", "content-type",
		"application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(all); i += 2 {
		raw = append(raw, 0)
		for _, text := range all[i : i+2] {
			raw = append(hpackLength(raw, len(text)), text...)
		}
	}
	return raw
}

// hpackLength appends an integer with a prefix of 7 bits (RFC 7541, 5.1).
func hpackLength(raw []byte, n int) []byte {
	if n < 127 {
		return append(raw, byte(n))
	}
	raw, n = append(raw, 127), n-127
	for ; n > 127; n >>= 7 {
		raw = append(raw, byte(n)|0x80)
	}
	return append(raw, byte(n))
}

func call(stream uint32, method string, more ...string) []byte {
	return rawFrame(frameHeaders, flagEndHeaders, stream, headers(method, more...))
}

// message is a gRPC message with its prefix.
func message(stream uint32, flags byte, data []byte) []byte {
	prefix := append([]byte{flags}, binary.BigEndian.AppendUint32(nil, uint32(len(data)))...)
	return rawFrame(frameData, 0, stream, append(prefix, data...))
}

// refusedBy reports whether a read error is the end of a connection, and not a deadline.
func refusedBy(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

// drain reads from a connection, until it ends or the time is over, and returns what came.
func drain(conn net.Conn, d time.Duration) ([]byte, error) {
	_ = conn.SetReadDeadline(time.Now().Add(d))
	var all bytes.Buffer
	_, err := io.Copy(&all, conn)
	if err == nil {
		err = io.EOF
	}
	return all.Bytes(), err
}
