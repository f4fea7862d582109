package tlsconfig

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

// ErrRejected: the other side does not accept our certificate.
var ErrRejected = errors.New("certificate not accepted by the other side")

// limits bound the steps of a probe.
type limits struct {
	dial, handshake time.Duration
	verdict         time.Duration // the wait for a server that may send nothing
}

// Probe makes one connection to a server of this authority and tells whether the two sides trust each other. gRPC
// reports a failed handshake only as unavailable, as if the server were down; Probe distinguishes them.
//
// It returns nil if they do, and also if that is unknown: the server cannot be reached, is silent, or has its own
// problems. All that may be temporary.
func Probe(ctx context.Context, address string, config *tls.Config) error {
	return probe(ctx, address, config, limits{dial: 5 * time.Second, handshake: 5 * time.Second,
		verdict: 2 * time.Second})
}

func probe(ctx context.Context, address string, config *tls.Config, within limits) error {
	dialer := net.Dialer{Timeout: within.dial}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	err = handshake(tls.Client(raw, config), within)
	var alert *net.OpError
	switch {
	case errors.As(err, &alert) && alert.Op == "remote error":
		return refusal(address, alert.Err)
	case errors.Is(err, certs.ErrForeign), errors.Is(err, certs.ErrExpired), errors.Is(err, certs.ErrWrongHost),
		errors.Is(err, certs.ErrWrongRole), errors.Is(err, certs.ErrNoIdentity), errors.Is(err, certs.ErrRevoked):
		return err
	case errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("%s does not use TLS: %w; give the aggregator's own port", address, err)
	}
	return nil // all is well, or the connection broke
}

// handshake returns why the handshake ended, or the server's verdict on our certificate. In TLS 1.3 a server checks
// that after the client's handshake is done; its refusal is the first thing to read.
func handshake(conn *tls.Conn, within limits) error {
	if err := conn.SetDeadline(time.Now().Add(within.handshake)); err != nil {
		return err
	}
	if err := conn.Handshake(); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(within.verdict)); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// refusal interprets the server's alert. crypto/tls distinguishes alerts only by text.
func refusal(address string, alert error) error {
	switch text := alert.Error(); {
	case strings.Contains(text, "expired certificate"):
		return fmt.Errorf("%w: %w (%w); ask the aggregator's operator for a new one, or check the clocks",
			ErrRejected, certs.ErrExpired, alert)
	case strings.Contains(text, "bad certificate"):
		return fmt.Errorf("%w (%w): it was revoked or has no role; ask the aggregator's operator",
			ErrRejected, alert)
	case strings.Contains(text, "certificate"), strings.Contains(text, "access denied"):
		return fmt.Errorf("%w (%w); ask the aggregator's operator for a certificate of its authority",
			ErrRejected, alert)
	case strings.Contains(text, "internal error"):
		return nil // its own files are not in order, and may be fixed
	}
	return fmt.Errorf("%s refused the connection: %w; give the aggregator's own port", address, alert)
}
