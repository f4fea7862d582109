// Package monitor lets an operator watch a process: a listener of plain HTTP with
// probes, Prometheus metrics and the level of the log.
//
//	GET /healthz     200 while the process answers
//	GET /readyz      200 and the state, or 503 and why it is not ready
//	GET /metrics     Prometheus metrics
//	GET /loglevel    {"level":"info"}; PUT the same to change it
//
// Start it with [Listen], or [Start] where a configuration may name no listener.
// It knows nothing of what it shows: the roles make their metrics and keep records,
// votes and sums out of them.
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
	// Level is that of Log; nil offers no /loglevel.
	Level *zap.AtomicLevel
	// Log hears of changes of the level. Required.
	Log *zap.Logger
}

// Server is a listener that answers until Close. A nil Server is none.
type Server struct {
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

// Start is Listen, or nil where the configuration names no listener.
func Start(ctx context.Context, c Config, o Options) (*Server, error) {
	if c.Listen == "" {
		return nil, nil
	}
	return Listen(ctx, c, o)
}

// Listen answers from when it returns. ctx bounds Listen, not the server.
func Listen(ctx context.Context, c Config, o Options) (*Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (set http.listen to a free address): %w", c.Listen, err)
	}
	// What a port scan does is worth no more.
	quiet, err := zap.NewStdLogAt(o.Log.Named("http"), zap.DebugLevel)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{listener: listener, served: make(chan error, 1), http: &http.Server{
		Handler:           http.MaxBytesHandler(handler(o), maxRequest),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 13,
		ErrorLog:          quiet,
	}}
	go func() { s.served <- s.http.Serve(listener) }()
	o.Log.Info("monitoring", zap.Stringer("address", listener.Addr()))
	return s, nil
}

// Addr is the address it listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the listener, and answers that take longer than a second.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if serr := <-s.served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	if err != nil {
		return fmt.Errorf("close http.listen: %w", err)
	}
	return nil
}

func handler(o Options) http.Handler {
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
	if o.Level != nil {
		mux.Handle("GET /loglevel", o.Level)
		mux.HandleFunc("PUT /loglevel", o.changeLevel)
	}
	return mux
}
