package dial

import (
	"net"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
)

// sweepEvery is how soon a connection on which nothing is said is closed when the
// aggregator's certificate is no longer good, at most.
const sweepEvery = time.Second

// checkedConn is a connection whose other side is looked at for whatever is read and written:
// its certificate was good in the handshake, and may have expired or been revoked since.
type checkedConn struct {
	net.Conn
	creds *tlsconfig.Credentials
	peer  *tlsconfig.Peer

	mu     sync.Mutex
	sweep  *time.Timer
	closed bool
	reason error // why it was closed, where that is the certificate
}

func checked(conn net.Conn, g *tlsconfig.Credentials, peer *tlsconfig.Peer) *checkedConn {
	c := &checkedConn{Conn: conn, creds: g, peer: peer}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep = time.AfterFunc(sweepEvery, c.look)
	return c
}

func (c *checkedConn) look() {
	_ = c.creds.Reload() // what is wrong with the own files the next handshake says
	if c.check() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.sweep.Reset(sweepEvery)
	}
}

// check closes the connection when the certificate is no longer good.
func (c *checkedConn) check() error {
	err := c.creds.Check(c.peer)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	if c.reason == nil {
		c.reason = err
	}
	c.mu.Unlock()
	c.Close()
	return err
}

// Read gives out nothing that came after the end of the certificate.
func (c *checkedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		return n, c.because(err)
	}
	if err := c.check(); err != nil {
		return 0, err
	}
	return n, nil
}

func (c *checkedConn) Write(b []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	return n, c.because(err)
}

// because is the reason why the connection was closed here, or err.
func (c *checkedConn) because(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.reason != nil {
		return c.reason
	}
	return err
}

func (c *checkedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.sweep.Stop()
	c.mu.Unlock()
	return c.Conn.Close()
}
