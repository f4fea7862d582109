package student

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Errors to match with errors.Is.
var (
	// ErrOverBudget: the aggregator refused a question that the budget does
	// not cover. Nothing was asked or charged.
	ErrOverBudget = errors.New("the budget does not cover the question")
	// ErrStudy: the aggregator refused because the run's study has ended, or is not the one that the dataset
	// requires. Nothing was asked or charged. It also matches ErrRefused.
	ErrStudy = errors.New("the study does not allow it")
	// ErrRefused: the aggregator refused for another lasting reason.
	ErrRefused = errors.New("the aggregator refused")
	// ErrRunExists: a run of this name was opened with another spec, was submitted as a different run, or has ended.
	ErrRunExists = errors.New("the name is taken")
	// ErrUnreachable: no aggregator answered within Config.Patience.
	ErrUnreachable = errors.New("the aggregator cannot be reached")
	// ErrFailed: the aggregator failed at the request for all of
	// Config.Patience.
	ErrFailed = errors.New("the aggregator failed to handle the request")
	// ErrNotHeld: the aggregator lacks what the request needs, such as the sums of a selection; see Hold in [Asking].
	ErrNotHeld = errors.New("not found")
	// ErrCertificate: this student's own certificate is no longer accepted.
	ErrCertificate = errors.New("the certificate is not accepted")
)

// certificateError makes an error match ErrCertificate without changing its text.
type certificateError struct{ error }

func (e certificateError) Unwrap() error        { return e.error }
func (e certificateError) Is(target error) bool { return target == ErrCertificate }

// Client is a student's or an operator's connection. It is safe for concurrent use.
type Client struct {
	cfg  Config
	log  *zap.Logger
	conn *dial.Conn
	api  rpc.StudentServiceClient
	// tracer makes a span for each round; nil without tracing.
	tracer *tracing.Tracer
	// met is set once the aggregator has answered.
	met *atomic.Bool
}

// Dial prepares a connection; nothing is sent yet.
func Dial(cfg Config, log *zap.Logger) (*Client, error) {
	if err := cfg.validateConnection(); err != nil {
		return nil, err
	}
	target, err := dial.Parse(cfg.Aggregator, cfg.ServerName)
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	conn, err := target.Connect(cfg.TLS, cfg.Retry)
	if err != nil {
		return nil, err
	}
	tracer, err := tracing.Start(cfg.Traces, string(certs.RoleStudent), cfg.Dataset, log)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Client{cfg: cfg, log: log, conn: conn, api: rpc.NewStudentServiceClient(conn), tracer: tracer,
		met: new(atomic.Bool)}, nil
}

// Close ends the connection, and sends the last spans.
func (c *Client) Close() error {
	c.tracer.Close()
	return c.conn.Close()
}

// OpenRun opens the run, or finds it again.
func (c *Client) OpenRun(ctx context.Context, spec *conclavev1.RunSpec) (resp *conclavev1.OpenRunResponse, err error) {
	err = c.retry(ctx, "open the run", func() error {
		resp, err = c.api.OpenRun(ctx, &conclavev1.OpenRunRequest{Spec: spec})
		return err
	})
	return resp, err
}

// CloseRun ends the run, with the SHA-256 of the list of released files, nil for none. It returns the hash with
// which the run was first closed.
func (c *Client) CloseRun(ctx context.Context, run string, manifest []byte) (sealed []byte, err error) {
	err = c.retry(ctx, "close the run", func() error {
		resp, err := c.api.CloseRun(ctx, &conclavev1.CloseRunRequest{Run: run, ManifestSha256: manifest})
		sealed = resp.GetManifestSha256()
		return err
	})
	return sealed, err
}

// Sign signs a statement with the student's certificate.
func (c *Client) Sign(s attest.Statement) (attest.Signature, error) {
	return attest.SignBy(c.cfg.TLS, s)
}

// Ledger returns the canonical lines of the ledger of the run's dataset.
func (c *Client) Ledger(ctx context.Context, run string) (lines [][]byte, err error) {
	lines, _, err = c.readLedger(ctx, &conclavev1.ReadLedgerRequest{Run: run})
	return lines, err
}

// SignedLedger is Ledger with signatures of the last entry, by the aggregator and by the sites that are connected.
func (c *Client) SignedLedger(ctx context.Context, run string) ([][]byte, []attest.Signature, error) {
	return c.readLedger(ctx, &conclavev1.ReadLedgerRequest{Run: run, Signed: true})
}

func (c *Client) readLedger(ctx context.Context, q *conclavev1.ReadLedgerRequest) (lines [][]byte,
	signatures []attest.Signature, err error) {
	err = c.retry(ctx, "read the ledger", func() error {
		lines, signatures = nil, nil
		stream, err := c.api.ReadLedger(ctx, q)
		if err != nil {
			return err
		}
		return each(stream, func(m *conclavev1.ReadLedgerResponse) {
			if g := m.GetSignature(); g != nil {
				signatures = append(signatures, attest.FromWire(g))
			} else {
				lines = append(lines, m.Entry)
			}
		})
	})
	return lines, signatures, err
}

// each calls take for each message of a stream.
func each[M any](stream grpc.ServerStreamingClient[M], take func(*M)) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		take(m)
	}
}

// retry repeats call after temporary failures. It gives up after Config.Patience if the aggregator has never
// answered. It also gives up if the aggregator answers but fails for that long, since such a failure may be
// permanent.
func (c *Client) retry(ctx context.Context, what string, call func() error) error {
	pauses := dial.Pauses(c.cfg.Retry)
	start := time.Now()
	var failing time.Time // start of the current series of failures; zero outside one
	for {
		err := call()
		if err == nil {
			c.met.Store(true)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
		message, trouble := dial.Message(err), "the aggregator does not answer; retrying"
		rest := dial.Again(err)
		switch status.Code(err) {
		case codes.ResourceExhausted:
			if rest > 0 {
				c.met.Store(true)
				failing, trouble = time.Time{}, "too many calls in a short time; retrying"
				break
			}
			return fmt.Errorf("%s: %w: %s", what, ErrOverBudget, message)
		case codes.Internal, codes.Unknown:
			if failing.IsZero() {
				failing = time.Now()
			}
			if time.Since(failing) > c.cfg.Patience {
				return fmt.Errorf("%s: %w: %s; see its log; fix the problem and run again to continue from the "+
					"checkpoint", what, ErrFailed, message)
			}
			trouble = "the aggregator failed to handle the request; trying again"
		case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Canceled:
			failing = time.Time{}
		case codes.Unauthenticated:
			// The certificate of the connection expired. A new connection shows whether the one on disk is valid;
			// an expired one may be renewed at any moment.
			if err := c.renewable(ctx); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			if failing.IsZero() {
				failing = time.Now()
			}
			if time.Since(failing) > c.cfg.Patience {
				return certificateError{fmt.Errorf("%s: %w: %s", what, ErrRefused, message)}
			}
			trouble = "the certificate of the connection expired; reconnecting"
		case codes.AlreadyExists:
			return fmt.Errorf("%s: %w: %w: %s", what, ErrRefused, ErrRunExists, message)
		case codes.NotFound:
			return fmt.Errorf("%s: %w: %w: %s", what, ErrRefused, ErrNotHeld, message)
		default:
			if isOfStudy(err) {
				return fmt.Errorf("%s: %w: %w: %s", what, ErrRefused, ErrStudy, message)
			}
			return fmt.Errorf("%s: %w: %s", what, ErrRefused, message)
		}
		if !c.met.Load() && status.Code(err) != codes.Unauthenticated { // which is also an answer
			if err := c.conn.Probe(ctx); err != nil {
				return fmt.Errorf("%s: aggregator %s: %w", what, c.cfg.Aggregator, err)
			}
			if time.Since(start) > c.cfg.Patience {
				return fmt.Errorf("%s: %w: %s did not answer for %v (%s); start it, or fix the address",
					what, ErrUnreachable, c.cfg.Aggregator, c.cfg.Patience, message)
			}
		}
		pause := max(rest, pauses.NextBackOff())
		c.log.Warn(trouble, zap.String("to", what), zap.Duration("pause", pause), zap.String("reason", message))
		dial.Wait(ctx, pause)
	}
}

// isOfStudy reports whether the run's study is the reason for a refusal.
func isOfStudy(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == study.Reason &&
			info.GetDomain() == study.Domain {
			return true
		}
	}
	return false
}

// NothingMore reports whether an error ends a run's questions although its releases stay valid: its budget is used
// up, or its study has ended.
func NothingMore(err error) bool { return errors.Is(err, ErrOverBudget) || errors.Is(err, ErrStudy) }

// renewable checks, after the connection's certificate ended, whether the one on disk may work. It returns nil, or
// the aggregator's objection.
func (c *Client) renewable(ctx context.Context) error {
	if err := c.conn.Probe(ctx); err != nil && !errors.Is(err, certs.ErrExpired) {
		return certificateError{fmt.Errorf("aggregator %s: %w", c.cfg.Aggregator, err)}
	}
	return nil
}
