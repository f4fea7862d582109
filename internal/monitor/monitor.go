// Package monitor lets an operator watch a process: a listener of plain HTTP with
// probes and Prometheus metrics, and another one, with a token, for the level of the log.
//
//	GET /healthz     200 while the process answers
//	GET /readyz      200 and the state, or 503 and why it is not ready
//	GET /metrics     Prometheus metrics
//
//	GET /loglevel    {"level":"info"}; PUT the same to change it. On the port of Control.
//
// Start both with [Start]. It knows nothing of what it shows: the roles make their metrics
// and keep records, votes and sums out of them.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

const (
	// requestTimeout bounds reading a request and finding out whether the process is
	// ready; a probe's own limit is shorter or about that.
	requestTimeout = 5 * time.Second
	// closeTimeout bounds the answers that are on their way when the server is closed.
	closeTimeout = time.Second
	// maxRequest bounds what a request to change the level may hold.
	maxRequest = 1 << 10
)

// Options is what the listener shows.
type Options struct {
	// Ready says in what state the process is, or why it is not ready. Required.
	Ready func(context.Context) (state string, err error)
	// Metrics are gathered at each scrape. Required; see [NewRegistry].
	Metrics prometheus.Gatherer
	// Level is that of Log, which the port of Control changes. Required there.
	Level *zap.AtomicLevel
	// Log hears of changes of the level. Required.
	Log *zap.Logger
}

// Server answers on its ports until Close. A nil Server is none.
type Server struct{ watched, controlled *port }

// port is a listener of HTTP; nil is none.
type port struct {
	listener net.Listener
	http     *http.Server
	served   chan error
}

// NewRegistry returns a registry with the metrics of the Go runtime and of the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Start answers from when it returns, on the ports that the configuration names; where it names none
// the Server is nil. ctx bounds Start, not the server.
func Start(ctx context.Context, c Config, o Options) (*Server, error) {
	if c.Listen == "" && c.Control.Listen == "" {
		return nil, nil
	}
	if c.Control.Listen != "" && o.Level == nil {
		return nil, errors.New("http.control: this process has no log level to change; leave it out")
	}
	var s Server
	var err error
	if s.watched, err = listen(ctx, "http.listen", c.Listen, watched(o), o.Log); err != nil {
		return nil, err
	}
	s.controlled, err = listen(ctx, "http.control.listen", c.Control.Listen, o.control(c.Control), o.Log)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &s, nil
}

// listen opens a port; field names it in errors.
func listen(ctx context.Context, field, address string, h http.Handler, log *zap.Logger) (*port, error) {
	if address == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (set %s to a free address): %w", address, field, err)
	}
	// What a port scan does is worth no more.
	quiet, err := zap.NewStdLogAt(log.Named("http"), zap.DebugLevel)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p := &port{listener: listener, served: make(chan error, 1), http: &http.Server{
		Handler:           http.MaxBytesHandler(h, maxRequest),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 13,
		ErrorLog:          quiet,
	}}
	go func() { p.served <- p.http.Serve(listener) }()
	log.Info("monitoring", zap.String("port", field), zap.Stringer("address", listener.Addr()))
	return p, nil
}

// Addr is the address of probes and metrics, nil where there are none.
func (s *Server) Addr() net.Addr { return s.watched.addr() }

// ControlAddr is the address of /loglevel, nil where there is none.
func (s *Server) ControlAddr() net.Addr { return s.controlled.addr() }

func (p *port) addr() net.Addr {
	if p == nil {
		return nil
	}
	return p.listener.Addr()
}

// Close ends the listeners, and answers that take longer than a second.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.watched.close(), s.controlled.close())
}

func (p *port) close() error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := p.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = p.http.Close()
	}
	if serr := <-p.served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	if err != nil {
		return fmt.Errorf("close the monitoring port %s: %w", p.listener.Addr(), err)
	}
	return nil
}

func watched(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		state, err := o.Ready(ctx)
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			state = "not ready: " + err.Error()
		}
		_, _ = io.WriteString(w, state+"\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		ErrorLog:      zap.NewStdLog(o.Log.Named("metrics")),
		ErrorHandling: promhttp.ContinueOnError,
	}))
	return mux
}
