// Package enroll is both sides of a site's admission to a study: the site asks, with its start kit, and waits for the
// roster; the operator, who has the authority, admits. The aggregator between them is not trusted: everything from it
// is checked against the authority, and compared by people.
package enroll

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/study/roster"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ErrRefused: the aggregator refused, for a lasting reason.
var ErrRefused = errors.New("the aggregator refused")

const (
	// retry bounds the pause between attempts to reach an absent aggregator, and lookEvery is how often the roster is
	// fetched.
	retry     = 2 * time.Second
	lookEvery = time.Second
)

// client calls an aggregator, and retries until the context ends if it is absent.
type client struct {
	*dial.Conn
	address string
	away    func(reason string) // called once each time it is absent
}

func connect(address, serverName string, files certs.Files, away func(string)) (*client, error) {
	target, err := dial.Parse(address, serverName)
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	conn, err := target.Connect(files, retry)
	if err != nil {
		return nil, err
	}
	return &client{conn, address, away}, nil
}

// again repeats a call after temporary failures.
func (c *client) again(ctx context.Context, what string, call func() error) error {
	pauses, told := dial.Pauses(retry), false
	for {
		err := call()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
		rest, message := dial.Again(err), dial.Message(err)
		switch status.Code(err) {
		case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Canceled:
			if err := c.Probe(ctx); err != nil { // mutual trust failed, which does not pass
				return fmt.Errorf("%s: aggregator %s: %w", what, c.address, err)
			}
			if !told {
				c.away(message)
				told = true
			}
		case codes.ResourceExhausted:
			if rest == 0 {
				return fmt.Errorf("%s: %w: %s", what, ErrRefused, message)
			}
		default:
			return fmt.Errorf("%s: %w: %s", what, ErrRefused, message)
		}
		dial.Wait(ctx, max(rest, pauses.NextBackOff()))
	}
}

// spelled formats a fingerprint from the aggregator, which may be anything.
func spelled(fingerprint string) string {
	if raw, err := hex.DecodeString(fingerprint); err != nil || len(raw) != sha256.Size {
		return "unknown"
	}
	return certs.SpellFingerprint(fingerprint)
}

func fromWire(m *conclavev1.SignedRoster) roster.Signed {
	return roster.Signed{Text: m.GetRoster(), Signature: m.GetSignature()}
}
