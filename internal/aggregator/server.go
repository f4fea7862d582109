package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/health"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/queue"
	"github.com/conclave-dp/conclave/internal/aggregator/relay"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/service"
	"github.com/conclave-dp/conclave/internal/aggregator/shape"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/reducer"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/tracing"
)

// handlersTimeout bounds how long a stopping server waits for handlers.
const handlersTimeout = 5 * time.Second

// ErrLeadershipLost ends Serve when another aggregator has taken over, when etcd was away for longer than the lease, or
// when the aggregator resigned because it could accept no peer.
var ErrLeadershipLost = fault.ErrLeadershipLost

// Options are set by the caller, not by a config file.
type Options struct {
	// Logger receives the server's log; nil logs nothing.
	Logger *zap.Logger
	// Level is the level of Logger, which the control port of Config.HTTP changes; nil keeps it fixed.
	Level *zap.AtomicLevel
	// AllowCoin allows baseline runs, whose nodes answer at random. Only local runs set it.
	AllowCoin bool
	// Reducers answer question kinds that take several passes over the nodes.
	Reducers reducer.Registry
	// Hooks are for tests and measurements; no program sets them.
	Hooks Hooks
	// faults inject errors into a release and its charge, which tests of the audit must find. Only a test file can
	// set them.
	faults round.Faults
	// grace replaces certificateGrace in tests; 0 keeps it.
	grace time.Duration
	// resign replaces resignTimeout in tests; 0 keeps it.
	resign time.Duration
	// repeats replaces in tests how many stored releases a student may get again at once; 0 keeps it.
	repeats int
}

// Hooks are called at certain moments of a round. A hook that blocks delays only its round.
type Hooks = round.Hooks

// Server is an aggregator. It leads from New to Close.
type Server struct {
	config  Config
	studies map[string]*study.Block // by dataset; none if the dataset allows any run
	options Options
	log     *zap.Logger
	observers
	etcd

	credentials *tlsconfig.Credentials
	sessions    *peer.Sessions
	port        *transport.Port
	health      *health.Server // nil before the server leads
	listener    net.Listener

	rounds *round.Rounds
	queue  *queue.Queue

	life       *lifetime.Lifetime
	outOfOrder error // why leadership was given up; set before leading ends
	closing    closing
}

// observers receive a server's events.
type observers struct {
	phase   phase
	metrics *metrics.Metrics
	monitor *monitor.Server
	audit   peer.AuditLog
	tracer  *tracing.Tracer
}

type closing struct {
	begun   chan struct{}  // closed when the server is closed
	watches sync.WaitGroup // goroutines that then end
	once    sync.Once
	err     error
}

// New opens etcd, waits for leadership, opens the datasets and listens. Nodes and students can dial when it returns,
// and get answers once Serve runs. A standby returns only when the leader is gone, and a server with unusable
// certificate files only when they are fixed. ctx bounds New, not the server.
func New(ctx context.Context, config Config, options Options) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	studies, err := config.studies()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: config, studies: studies, options: options, log: options.Logger, life: lifetime.New(),
		observers: observers{metrics: metrics.New()},
		closing:   closing{begun: make(chan struct{})},
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	s.metrics.ShowState(s.shown)
	s.audit.Lost, s.audit.Lines = s.metrics.AuditFailure, peer.NewLines(s.metrics.LeftOut)
	if err := s.open(ctx); err != nil {
		// Close everything that was opened so far.
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) (err error) {
	if err := s.openPort(); err != nil {
		return err
	}
	s.tracer, err = tracing.Start(s.config.Traces, string(certs.RoleAggregator), s.config.Name, s.log)
	if err != nil {
		return err
	}
	// Started before the server leads, so that a standby can be monitored, too.
	s.monitor, err = monitor.Start(ctx, s.config.HTTP, monitor.Options{
		Ready: s.ready, Metrics: s.metrics.Registry, Level: s.options.Level, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.closing.watches.Go(s.watchCertificates)
	if err := s.openStore(ctx); err != nil {
		return err
	}
	s.phase.reach(standby)
	if s.lead, err = s.campaign(ctx); err != nil {
		return fmt.Errorf("become the leading aggregator: %w", err)
	}
	context.AfterFunc(s.lead.Context(), func() {
		s.life.EndLeading(fmt.Errorf("%w; another aggregator took over, or etcd was unreachable: %w",
			ErrLeadershipLost, context.Cause(s.lead.Context())))
	})
	if s.embedded != nil {
		go s.watchEmbedded()
	}
	if err := s.openRounds(ctx); err != nil {
		return err
	}
	var lc net.ListenConfig
	if s.listener, err = lc.Listen(ctx, "tcp", s.config.Listen); err != nil {
		return fmt.Errorf("listen on %s (set listen to a free address): %w", s.config.Listen, err)
	}
	s.health = service.Register(s.port, service.Options{
		Name: s.config.Name, Store: s.store, Lead: s.lead, Rounds: s.rounds, Queue: s.queue,
		Relay: relay.New(s.config.Fetch.limits()), Lifetime: s.life,
		Metrics: s.metrics, Audit: s.audit, Log: s.log, AllowCoin: s.options.AllowCoin,
		Authorities: s.credentials.Authorities, Repeats: s.options.repeats,
	})
	s.phase.reach(leads)
	s.life.Streams.Go(s.queue.Keep)
	if err := s.audit.Write(peer.Caller{}, auditlog.Entry{Event: auditlog.Leading}); err != nil {
		return err
	}
	s.log.Info("listening", zap.Stringer("address", s.listener.Addr()), zap.Int64("fence", s.lead.Fence()))
	return nil
}

// openPort creates the port, which does not listen yet, and opens its audit log.
func (s *Server) openPort() error {
	// Even with an error there are credentials, and replacing the files fixes them: campaign waits for that.
	credentials, err := tlsconfig.NewServerCredentials(s.config.TLS)
	if credentials == nil {
		return fmt.Errorf("tls: %w", err)
	}
	s.credentials, s.sessions = credentials, peer.NewSessions(credentials)
	s.metrics.ShowCertificates(credentials)
	s.audit.Log, err = auditlog.Open(s.config.AuditLog, string(certs.RoleAggregator), s.config.Name, s.log)
	if err != nil {
		return err
	}
	s.port = transport.NewPort(credentials.ServerTLS(), s.config.MaxConnections, s.sessions, s.metrics.Port, s.audit)
	return nil
}

// openRounds opens the datasets and loads the queue.
func (s *Server) openRounds(ctx context.Context) (err error) {
	datasets := map[string]*round.Dataset{}
	for _, c := range s.config.Datasets {
		record, err := c.record()
		if err != nil {
			return err
		}
		if err := s.store.OpenDataset(ctx, s.lead, record); err != nil {
			return fmt.Errorf("open dataset %q: %w", record.Name, err)
		}
		last, err := s.store.CheckHead(ctx, record.Name, coordinator.LedgerHead{})
		if err != nil {
			return fmt.Errorf("open dataset %q: %w", record.Name, err)
		}
		if err := s.auditFound(ctx, record.Name, last.Seq); err != nil {
			return fmt.Errorf("open dataset %q: %w", record.Name, err)
		}
		if last.Seq == 1 { // only its opening
			s.log.Warn("the dataset's ledger is new and empty; if anything was released from these records before, "+
				"stop, and restore the old ledger (docs/backup.md)", zap.String("dataset", record.Name))
		}
		d := round.NewDataset(record, last.Seq)
		d.Students, d.Workers = c.Students, c.Workers
		if len(c.Workers) == 0 {
			d.Workers = c.Students
		}
		if d.Study = s.studies[c.Name]; d.Study != nil {
			s.log.Info("runs on the dataset must belong to its study", zap.String("dataset", record.Name),
				zap.String("study", d.Study.Line()), zap.String("expires", d.Study.Expires))
		}
		if len(d.Workers) == 0 {
			s.log.Warn("every student of the authority can claim other students' runs on the dataset and see their "+
				"releases; list students, or workers", zap.String("dataset", record.Name))
		}
		datasets[record.Name] = d
	}
	s.rounds = round.New(round.Options{
		Store: s.store, Lead: s.lead, Lifetime: s.life, Datasets: datasets, Parse: shape.Parser(s.options.Reducers),
		MayAsk: func(run, opener, claim string, by certs.Identity) error {
			return s.queue.MayAsk(run, opener, claim, by)
		},
		Requester: func(run, opener string) string { return s.queue.Requester(run, opener) },
		Limits: round.Limits{
			MostOpen: s.config.MaxOpenRuns, MostRuns: s.config.MaxRuns, MostQuestions: s.config.MaxQuestions,
			MostEntries: s.config.MaxPlanEntries, LeastDeadline: s.config.LeastDeadline,
		},
		Sign: s.credentials.Sign, Reload: s.credentials.Reload,
		Metrics: s.metrics.Rounds, Audit: s.audit, Tracer: s.tracer, Log: s.log,
		Hooks: s.options.Hooks, Faults: s.options.faults,
	})
	s.queue, err = queue.New(ctx, queue.Options{
		Store: s.store, Lead: s.lead, Rounds: s.rounds, Lifetime: s.life,
		Audit: s.audit, Log: s.log, Grace: s.config.WorkerGrace, MostRuns: s.config.MaxRuns,
		MostEntries: s.config.MaxPlanEntries, Patience: s.config.QuorumPatience,
	})
	if err != nil {
		return fmt.Errorf("read the queue of runs: %w", err)
	}
	return nil
}

// Addr is the address the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// MonitorAddr is the address for probes and metrics, nil if Config.HTTP names none.
func (s *Server) MonitorAddr() net.Addr {
	if s.monitor == nil {
		return nil
	}
	return s.monitor.Addr()
}

// Serve answers nodes and students until ctx ends, then drains. While draining the server is not ready, refuses new
// rounds with Unavailable, gives rounds in flight Config.Drain to end, and answers rounds that are being charged. It
// returns nil after a drain, and an error that matches ErrLeadershipLost if leadership ended first or was given up
// because no peer could be accepted. Call it once, then Close.
func (s *Server) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.port.Serve(s.listener) }()
	var err error
	select {
	case <-ctx.Done():
	case <-s.life.Leading().Done():
		err = s.lost()
	case serr := <-served:
		stopped := s.life.Draining().Err() != nil
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
	if s.health != nil {
		s.health.Shutdown()
	}
	s.life.Drain(s.config.Drain)
	if s.port == nil {
		return
	}
	// Handlers end on their own, but a peer that does not read its stream would block a graceful stop.
	force := time.AfterFunc(handlersTimeout, s.port.Stop)
	s.port.GracefulStop()
	force.Stop()
	s.life.Streams.Wait()
}

// Close drains, gives up leadership and closes etcd. It can be called more than once, and while Serve runs.
func (s *Server) Close() error {
	s.closing.once.Do(func() {
		s.drain()
		var errs []error
		if s.lead != nil && s.lead.Context().Err() == nil {
			s.resign(s.lead)
		}
		s.life.EndLeading(fault.ErrStopping)
		if s.listener != nil {
			// Already closed if Serve ran.
			if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		errs = append(errs, s.closeStore())
		close(s.closing.begun)
		s.closing.watches.Wait()
		if s.port != nil {
			s.port.FlushRefusals(true)
		}
		s.audit.Flush(true)
		s.tracer.Close()
		// Last, so that probes see the server stop and the audit log is complete.
		errs = append(errs, s.monitor.Close(), s.audit.Log.Close())
		s.closing.err = errors.Join(errs...)
	})
	return s.closing.err
}
