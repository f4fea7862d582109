package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/queue"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// handlersTimeout bounds how long a stopping server waits for handlers.
	handlersTimeout = 5 * time.Second
	// resignTimeout bounds giving leadership back; the lease ends it anyway.
	resignTimeout = 3 * time.Second
)

// Options is what a caller sets and a config file must not.
type Options struct {
	// Logger receives the server's log; nil logs nothing.
	Logger *zap.Logger
	// Level is that of Logger, for the listener of Config.HTTP to change; nil leaves
	// it as it is.
	Level *zap.AtomicLevel
	// AllowCoin lets runs ask for coin votes, the baseline. Only local runs
	// set it.
	AllowCoin bool
	// Hooks are for tests and measurements; no program sets them.
	Hooks Hooks
	// distort and undercharge are for tests of the audit, which has to find what they do to
	// the noise of a release and to its charge. No program can set them: they are set in a
	// test file alone.
	distort     func(question) question
	undercharge func(privacy.Use) privacy.Use
	// grace is certificateGrace for tests; 0 is that.
	grace time.Duration
}

// Hooks are called at named moments of a round. A hook that blocks holds up
// its round and no other.
type Hooks struct {
	BeforeCharge, AfterCharge func(run string, round uint64)
	// Votes sees the histograms behind a release of votes, before it is charged. They
	// are PRIVATE: what is computed from them must not leave the aggregator.
	Votes func(run string, round uint64, counts []int64, release *conclavev1.NoisyVotes)
	// Sums sees the sums behind a release before their noise. They are PRIVATE too.
	Sums func(run string, round uint64, counts []int64)
}

// Server is an aggregator. It leads from New to Close.
type Server struct {
	config   Config
	options  Options
	log      *zap.Logger
	datasets map[string]*dataset
	runs     runs
	queue    *queue.Queue

	phase    phase
	metrics  *serverMetrics
	monitor  *monitor.Server
	auditLog peer.AuditLog
	tracer   *tracing.Tracer

	embedded  *coordinator.Embedded // nil with an external etcd
	store     *coordinator.Store
	lead      *coordinator.Leadership
	listener  net.Listener
	standings certificates
	sessions  *peer.Sessions
	port      *transport.Port
	health    *health.Server

	bans    *peer.Bans
	uploads *peer.Uploads

	// leading ends when leadership does or the server is closed: then nothing
	// may be charged any more. draining, its child, ends earlier on a stop:
	// then no answers are collected any more.
	leading      context.Context
	endLeading   context.CancelCauseFunc
	outOfOrder   error // why leadership was given away; set before leading ends
	draining     context.Context
	startDrain   context.CancelCauseFunc
	stopping     chan struct{} // closed when the server is told to stop: no round begins any more
	stopOnce     sync.Once
	executionsMu sync.Mutex // orders the start of an execution and of the stop
	executions   sync.WaitGroup
	attempts     atomic.Uint64  // numbers executions
	streams      sync.WaitGroup // goroutines of node streams
	closing      chan struct{}  // closed when the server is
	watches      sync.WaitGroup // goroutines that end then
	closeOnce    sync.Once
	closeErr     error
}

// New opens etcd, waits until it leads, opens the datasets and listens. It
// returns when nodes and students can dial; they are answered from Serve on.
// With a standby it returns only when the leader is gone, and with a certificate
// or a list of revoked ones that lets nobody in only when that is mended. ctx
// bounds New, not the server.
func New(ctx context.Context, config Config, options Options) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		config:   config,
		options:  options,
		log:      options.Logger,
		datasets: map[string]*dataset{},
		runs:     runs{byName: map[string]*run{}},
		health:   health.NewServer(),
		stopping: make(chan struct{}),
		bans:     peer.NewBans(),
		uploads:  peer.NewUploads(maxIncoming),
		closing:  make(chan struct{}),
	}
	m := metrics.New()
	s.metrics = &serverMetrics{m, endedMetric{m.Rounds}, repeatedMetric{m.Rounds}}
	m.ShowState(s.shown)
	s.auditLog.Lost = m.AuditFailure
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if err := s.open(ctx); err != nil {
		// What was opened so far is closed again.
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	// Set first, so that Close works from here on.
	s.leading, s.endLeading = context.WithCancelCause(context.Background())
	s.draining, s.startDrain = context.WithCancelCause(s.leading)

	// With an error and a guard files that are replaced mend it: campaign waits for them.
	guard, err := tlsconfig.NewServerCredentials(s.config.TLS)
	if guard == nil {
		return fmt.Errorf("tls: %w", err)
	}
	s.standings, s.sessions = certificates{guard}, peer.NewSessions(guard)
	s.metrics.ShowCertificates(guard)
	s.auditLog.Log, err = auditlog.Open(s.config.AuditLog, string(certs.RoleAggregator), s.config.Name, s.log)
	if err != nil {
		return err
	}
	s.port = transport.NewPort(guard.ServerTLS(), s.sessions, s.metrics.Port, s.auditLog)
	if s.tracer, err = tracing.Start(s.config.Traces, string(certs.RoleAggregator), s.config.Name, s.log); err != nil {
		return err
	}
	// Before there is a leader, so that a standby can be watched too.
	s.monitor, err = monitor.Start(ctx, s.config.HTTP, monitor.Options{
		Ready: s.ready, Metrics: s.metrics.Registry, Level: s.options.Level, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.watches.Go(s.watchCertificates)
	if err := s.openStore(ctx); err != nil {
		return err
	}
	s.phase.reach(standby)
	if s.lead, err = s.campaign(ctx); err != nil {
		return fmt.Errorf("become the leading aggregator: %w", err)
	}
	context.AfterFunc(s.lead.Context(), func() {
		s.endLeading(fmt.Errorf("%w; another aggregator has taken over or etcd was away: %w", ErrLeadershipLost, context.Cause(s.lead.Context())))
	})
	if s.embedded != nil {
		go s.watchEmbedded()
	}
	for _, c := range s.config.Datasets {
		record, err := c.record()
		if err != nil {
			return err
		}
		if err := s.store.OpenDataset(ctx, s.lead, record); err != nil {
			return fmt.Errorf("open dataset %q: %w", record.Name, err)
		}
		s.datasets[record.Name] = newDataset(record)
	}
	s.queue, err = queue.New(ctx, queue.Options{
		Store: s.store, Lead: s.lead, Rounds: s, Lifetime: lifetime{s},
		Audit: s.auditLog, Log: s.log, Grace: s.config.WorkerGrace,
	})
	if err != nil {
		return fmt.Errorf("read the queue of runs: %w", err)
	}

	var lc net.ListenConfig
	if s.listener, err = lc.Listen(ctx, "tcp", s.config.Listen); err != nil {
		return fmt.Errorf("listen on %s (set listen to a free address): %w", s.config.Listen, err)
	}
	conclavev1.RegisterTeacherServiceServer(s.port, &teacherService{Server: s})
	conclavev1.RegisterStudentServiceServer(s.port, &studentService{Server: s})
	conclavev1.RegisterRunServiceServer(s.port, &runService{Server: s})
	healthpb.RegisterHealthServer(s.port, healthService{s.health, s.draining})
	for _, service := range transport.Services() {
		s.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	s.phase.reach(leads)
	s.streams.Go(s.queue.Keep)
	if err := s.audit(caller{}, auditlog.Entry{Event: auditlog.Leading}); err != nil {
		return err
	}
	s.log.Info("listening", zap.Stringer("address", s.listener.Addr()), zap.Int64("fence", s.lead.Fence()))
	return nil
}

// watchEmbedded ends everything when the embedded etcd cannot go on: without
// it nothing can be charged, so nothing may be asked.
func (s *Server) watchEmbedded() {
	select {
	case <-s.embedded.Failed():
		s.endLeading(fmt.Errorf("%w: the embedded etcd failed: %w", ErrLeadershipLost, s.embedded.Err()))
	case <-s.leading.Done():
	}
}

// Addr is the address the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// MonitorAddr is the address for probes and metrics, nil where Config.HTTP names none.
func (s *Server) MonitorAddr() net.Addr {
	if s.monitor == nil {
		return nil
	}
	return s.monitor.Addr()
}

// Serve answers nodes and students until ctx ends; then it drains: it is not ready any
// more, new rounds are refused with Unavailable, those that nodes work on have
// Config.Drain to end, and rounds that are being charged are answered. It
// returns nil after a drain and an error that matches ErrLeadershipLost when
// leadership ended first, or was given away because nobody could be let in. It
// can be called once; call Close after it.
func (s *Server) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.port.Serve(s.listener) }()
	var err error
	select {
	case <-ctx.Done():
	case <-s.leading.Done():
		err = s.lost()
	case serr := <-served:
		stopped := s.draining.Err() != nil
		s.drain()
		if serr != nil && !stopped {
			return fmt.Errorf("serve on %s: %w", s.listener.Addr(), serr)
		}
		return nil
	}
	s.drain()
	<-served
	return err
}

// drain lets the rounds in flight end, then ends everything and waits for it.
func (s *Server) drain() {
	s.phase.reach(stopping)
	s.health.Shutdown()
	s.executionsMu.Lock()
	s.stopOnce.Do(func() { close(s.stopping) })
	s.executionsMu.Unlock()
	// From here on no execution is added.
	ended := make(chan struct{})
	go func() {
		s.executions.Wait()
		close(ended)
	}()
	patience := time.NewTimer(s.config.Drain)
	select {
	case <-ended:
	case <-patience.C:
	case <-s.draining.Done():
	}
	patience.Stop()
	s.startDrain(errStopping)
	<-ended
	if s.port == nil {
		return
	}
	// Handlers end by themselves; a peer that does not read its stream would
	// hold the graceful stop up.
	force := time.AfterFunc(handlersTimeout, s.port.Stop)
	s.port.GracefulStop()
	force.Stop()
	s.streams.Wait()
}

// Close drains, gives leadership back and closes etcd. It can be called more
// than once, and while Serve runs.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.drain()
		var errs []error
		if s.lead != nil && s.lead.Context().Err() == nil {
			s.resign(s.lead)
		}
		s.endLeading(errStopping)
		if s.listener != nil {
			// Closed already where Serve ran.
			if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		if s.store != nil {
			s.store.Close()
		}
		if s.embedded != nil {
			if err := s.embedded.Close(); err != nil {
				errs = append(errs, fmt.Errorf("close etcd: %w", err))
			}
		}
		close(s.closing)
		s.watches.Wait()
		if s.port != nil {
			s.port.FlushRefusals(true)
		}
		s.tracer.Close()
		// Last, so that probes see the server stop and its audit log is whole.
		if err := s.monitor.Close(); err != nil {
			errs = append(errs, err)
		}
		if err := s.auditLog.Log.Close(); err != nil {
			errs = append(errs, err)
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

func (s *Server) dataset(name string) (*dataset, error) {
	d, ok := s.datasets[name]
	if !ok {
		return nil, refusedf("dataset %q is not served here; add it to the aggregator's datasets", word(name))
	}
	return d, nil
}

// markPresence notes in etcd that a node came or went. It informs operators
// only, so a failure is logged and harms nothing. When the server stops or
// leadership is over, what was noted goes with the lease: not worth a word.
func (s *Server) markPresence(d *dataset, n *peer.Node, mark func(context.Context, *coordinator.Leadership, coordinator.Node) error) {
	ctx, cancel := context.WithTimeout(s.leading, presenceTimeout)
	defer cancel()
	err := mark(ctx, s.lead, coordinator.Node{
		Dataset: d.record.Name, Site: n.ID.Site, Name: n.ID.Name, Teachers: n.Teachers,
	})
	if err != nil && s.draining.Err() == nil && !errors.Is(err, coordinator.ErrNotLeader) {
		s.log.Warn("presence of a node not noted", zap.Stringer("node", n.ID), zap.Error(err))
	}
}
