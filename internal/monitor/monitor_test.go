package monitor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a listener whose state the test sets.
type watched struct {
	t        *testing.T
	server   *Server
	log      *observer.ObservedLogs
	level    zap.AtomicLevel
	notReady atomic.Pointer[error]
	client   http.Client
}

func watch(t *testing.T, registry *prometheus.Registry) *watched {
	t.Helper()
	w := &watched{t: t, level: zap.NewAtomicLevel(),
		client: http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}}
	core, log := observer.New(w.level)
	w.log = log
	var err error
	w.server, err = Start(t.Context(), Config{Listen: "127.0.0.1:0"}, Options{
		Ready: func(context.Context) (string, error) {
			if why := w.notReady.Load(); why != nil {
				return "", *why
			}
			return "leader", nil
		},
		Metrics: registry, Level: &w.level, Log: zap.New(core),
	})
	testkit.Must(t, err)
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// ask returns the status and the body of a request.
func (w *watched) ask(method, path, body string) (int, string) {
	w.t.Helper()
	q, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.server.Addr().String()+path,
		strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.client.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func TestProbesAndMetrics(t *testing.T) {
	registry := NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_test_total", Help: "Of this test."})
	registry.MustRegister(counter)
	counter.Add(3)
	w := watch(t, registry)
	why := errors.New("etcd is away")
	for _, c := range []struct {
		path   string
		ready  error
		status int
		says   string
	}{
		{"/healthz", nil, 200, "alive"},
		{"/healthz", why, 200, "alive"},
		{"/readyz", nil, 200, "leader"},
		{"/readyz", why, 503, "not ready: etcd is away"},
		{"/metrics", nil, 200, "\nconclave_test_total 3\n"},
		{"/metrics", nil, 200, "\ngo_goroutines "},
		{"/metrics", nil, 200, "\nprocess_open_fds "},
		{"/", nil, 404, ""},
		{"/debug/pprof/", nil, 404, ""},
	} {
		w.notReady.Store(nil)
		if c.ready != nil {
			w.notReady.Store(&c.ready)
		}
		if status, text := w.ask("GET", c.path, ""); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s, ready %v: %d %q, want %d with %q", c.path, c.ready, status, text, c.status, c.says)
		}
	}
	if status, _ := w.ask("POST", "/healthz", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("POST /healthz: status %d", status)
	}
}

func TestTheLevelChangesAndIsSeen(t *testing.T) {
	w := watch(t, NewRegistry())
	if status, text := w.ask("GET", "/loglevel", ""); status != 200 || !strings.Contains(text, `"info"`) {
		t.Errorf("GET /loglevel: %d %s", status, text)
	}
	for _, level := range []string{"debug", "error", "warn"} {
		before := w.log.FilterMessage("log level changed").Len()
		if status, text := w.ask("PUT", "/loglevel", `{"level":"`+level+`"}`); status != 200 ||
			w.level.String() != level {
			t.Errorf("to %s: %d %s, and the level is %v", level, status, text, w.level)
		}
		if w.log.FilterMessage("log level changed").Len() != before+1 {
			t.Errorf("to %s: the log does not say so", level)
		}
	}
	for _, body := range []string{"", "debug", "{}", `{"level":"loud"}`, `{"level":"fatal"}`, `{"level":"panic"}`,
		`{"level":7}`, `{"level":"` + strings.Repeat("x", 4<<10) + `"}`} {
		if status, text := w.ask("PUT", "/loglevel", body); status != http.StatusBadRequest ||
			!strings.Contains(text, "debug, info, warn or error") {
			t.Errorf("%.40q: %d %s", body, status, text)
		}
	}
	if w.level.Level() != zap.WarnLevel {
		t.Errorf("a refused level was taken: %v", w.level)
	}
	if status, _ := w.ask("DELETE", "/loglevel", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE /loglevel: status %d", status)
	}
}

func TestNoListenerIsNone(t *testing.T) {
	s, err := Start(t.Context(), Config{}, Options{})
	if s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotListenSaysWhy(t *testing.T) {
	w := watch(t, NewRegistry())
	taken := Config{Listen: w.server.Addr().String()}
	if err := taken.Validate(); err != nil {
		t.Errorf("%+v: %v", taken, err)
	}
	if _, err := Listen(t.Context(), taken, Options{Log: zap.NewNop()}); err == nil ||
		!strings.Contains(err.Error(), "http.listen") {
		t.Errorf("a taken address: %v", err)
	}
	for _, listen := range []string{"localhost", "1:2:3", "9090"} {
		if err := (Config{Listen: listen}).Validate(); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v", listen, err)
		}
	}
}
