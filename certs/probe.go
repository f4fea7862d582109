package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// ErrRejected: the other side does not accept our certificate.
var ErrRejected = errors.New("certificate not accepted by the other side")

// Probe makes one connection to a server of this authority and tells whether
// the two sides trust each other. gRPC reports a failed handshake only as
// unavailable, as if the server were down; Probe tells the two apart. It
// returns nil when the server cannot be reached at all: that passes.
func Probe(ctx context.Context, address string, config *tls.Config) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer raw.Close()
	conn := tls.Client(raw, config)
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil
	}
	err = conn.HandshakeContext(ctx)
	if err == nil {
		// In TLS 1.3 a server looks at the client's certificate after the
		// client's handshake is done; its refusal is the first thing to read.
		if err = conn.SetDeadline(time.Now().Add(2 * time.Second)); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
	}
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("%w (%w); ask the aggregator's operator for a certificate of its authority", ErrRejected, op.Err)
	case errors.Is(err, ErrForeign), errors.Is(err, ErrExpired), errors.Is(err, ErrWrongHost), errors.Is(err, ErrWrongRole), errors.Is(err, ErrNoIdentity):
		return err
	case errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("%s does not speak TLS: %w; name the aggregator's own port", address, err)
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	}
	return nil // the connection broke; that passes
}
