package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
)

// lookEvery is the pause between checks of the certificate files and of the certificates of idle peers.
const lookEvery = time.Second

// resignTimeout bounds giving leadership back; the lease ends it anyway.
const resignTimeout = 3 * time.Second

// certificateGrace is how long a leader may be unable to accept peers before it resigns: a renewal, or a file that is
// being replaced, must not move leadership.
const certificateGrace = 10 * time.Second

var (
	// errGivenAway ends calls in progress. Serve adds the reason, which names files and is for the operator.
	errGivenAway = fmt.Errorf("%w: the aggregator resigned, because it can accept no peer", ErrLeadershipLost)
	// errWithdrawn ends an attempt to lead when the server must not lead.
	errWithdrawn = errors.New("the certificate files cannot be used")
)

// acceptance records whether the server can accept peers. Only one goroutine uses it.
type acceptance struct {
	reason error     // why it cannot, or nil
	since  time.Time // when it last stopped accepting peers
}

// watchCertificates checks the files once a second until the server is closed. It logs when the server stops or
// resumes accepting new peers, and resigns leadership if this lasts.
func (s *Server) watchCertificates() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var a acceptance
	for {
		s.lookAtFiles(&a)
		if a.reason != nil && time.Since(a.since) >= s.grace() {
			s.giveAway(a.reason)
		}
		s.sessions.Sweep()
		s.port.Sweep()
		s.port.FlushRefusals(false)
		s.audit.Flush(false)
		select {
		case <-tick.C:
		case <-s.closing.begun:
			return
		}
	}
}

// lookAtFiles updates a and logs what changed.
func (s *Server) lookAtFiles(a *acceptance) {
	reason := s.credentials.Reload()
	before := a.reason
	a.reason = reason
	switch {
	case reason == nil && before == nil:
	case reason == nil:
		s.log.Info("certificate files can be used again")
		_ = s.audit.Write(peer.Caller{}, auditlog.Entry{Event: auditlog.Accepting}) // lost lines are logged
	case before == nil || before.Error() != reason.Error():
		if before == nil {
			a.since = time.Now()
		}
		text := "no new peers are accepted"
		if s.phase.Load() < leads {
			text = "no peer could connect; this aggregator does not campaign for leadership until its certificate " +
				"files can be used"
		}
		s.log.Error(text, zap.String("reason", reason.Error()))
		_ = s.audit.Write(peer.Caller{}, auditlog.Entry{Event: auditlog.NotAccepting, Reason: reason.Error()})
	}
}

func (s *Server) grace() time.Duration {
	if s.options.grace > 0 {
		return s.options.grace
	}
	return certificateGrace
}

// giveAway gives up the leadership of a server that can accept no peer, so that a standby takes over. With an
// embedded etcd there is no standby, so the server continues to serve connected peers.
func (s *Server) giveAway(reason error) {
	if !s.leads() || s.embedded != nil || s.life.Leading().Err() != nil { // set before the server leads
		return
	}
	s.log.Error("resigning as leader, because no peer can be accepted", zap.Duration("for", s.grace()),
		zap.String("reason", reason.Error()))
	_ = s.audit.Write(peer.Caller{}, auditlog.Entry{Event: auditlog.GaveAway, Reason: reason.Error()})
	s.outOfOrder = reason
	s.life.EndLeading(errGivenAway)
}

// lost is the error that Serve returns when leadership has ended.
func (s *Server) lost() error {
	cause := context.Cause(s.life.Leading())
	switch {
	case errors.Is(cause, fault.ErrStopping):
		return nil
	case errors.Is(cause, errGivenAway):
		return fmt.Errorf("%w: %w", cause, s.outOfOrder)
	}
	return cause
}

// campaign waits until the server leads. A server campaigns only while it can accept peers; otherwise it would keep a
// working standby from serving.
func (s *Server) campaign(ctx context.Context) (*coordinator.Leadership, error) {
	for {
		if err := s.awaitOrder(ctx); err != nil {
			return nil, err
		}
		s.log.Info("waiting for leadership", zap.String("name", s.config.Name))
		candidacy, withdraw := context.WithCancelCause(ctx)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			s.awaitDisorder(candidacy, withdraw)
		}()
		lead, err := s.store.LeadAt(candidacy, s.config.Name, s.config.advertised(), s.config.Etcd.lease())
		withdraw(nil)
		<-watched
		switch {
		case err == nil && s.credentials.Reload() == nil:
			return lead, nil
		case err == nil:
			s.log.Warn("became leader with unusable certificate files; resigning")
			s.resign(lead)
		case ctx.Err() != nil || !errors.Is(context.Cause(candidacy), errWithdrawn):
			return nil, err
		default:
			s.log.Info("withdrew from the campaign for leadership")
		}
	}
}

// awaitOrder waits until the server can accept peers. The watch logs why it cannot.
func (s *Server) awaitOrder(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		reason := s.credentials.Reload()
		if reason == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w, while the certificate files could not be used: %w", context.Cause(ctx), reason)
		}
	}
}

// awaitDisorder calls withdraw once no peer can be accepted, unless ctx ends first.
func (s *Server) awaitDisorder(ctx context.Context, withdraw context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if s.credentials.Reload() != nil {
				withdraw(errWithdrawn)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// resign gives up leadership at once instead of waiting for the lease to expire.
func (s *Server) resign(lead *coordinator.Leadership) {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(s.options.resign, resignTimeout))
	defer cancel()
	if err := lead.Resign(ctx); err != nil {
		s.log.Warn("could not resign; the leadership ends with its lease", zap.Error(err))
	}
}
