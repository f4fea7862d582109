package monitor

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
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

// watcher is a listener whose state the test sets.
type watcher struct {
	t        *testing.T
	server   *Server
	log      *observer.ObservedLogs
	level    zap.AtomicLevel
	notReady atomic.Pointer[error]
	client   http.Client
	token    string // the file
}

const token = "correct horse battery"

func watch(t *testing.T, registry *prometheus.Registry) *watcher {
	t.Helper()
	w := &watcher{t: t, level: zap.NewAtomicLevel(), token: filepath.Join(t.TempDir(), "token"),
		client: http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}}
	core, log := observer.New(w.level)
	w.log = log
	var err error
	testkit.Must(t, os.WriteFile(w.token, []byte(token+"\n"), 0o600))
	w.server, err = Start(t.Context(), Config{Listen: "127.0.0.1:0",
		Control: Control{Listen: "127.0.0.1:0", TokenFile: w.token}}, Options{
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

// ask returns the status and the body of a request to the monitoring's port.
func (w *watcher) ask(method, path, body string) (int, string) {
	w.t.Helper()
	return w.send(w.server.Addr(), method, path, body, "")
}

// control asks the port of the level.
func (w *watcher) control(method, body, authorization string) (int, string) {
	w.t.Helper()
	return w.send(w.server.ControlAddr(), method, "/loglevel", body, authorization)
}

func (w *watcher) send(to net.Addr, method, path, body, authorization string) (int, string) {
	w.t.Helper()
	q, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+to.String()+path, strings.NewReader(body))
	if authorization != "" {
		q.Header.Set("Authorization", authorization)
	}
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
	const allowed = "Bearer " + token
	if status, text := w.control("GET", "", allowed); status != 200 || !strings.Contains(text, `"info"`) {
		t.Errorf("GET /loglevel: %d %s", status, text)
	}
	for _, level := range []string{"debug", "error", "warn"} {
		before := w.log.FilterMessage("log level changed").Len()
		if status, text := w.control("PUT", `{"level":"`+level+`"}`, allowed); status != 200 ||
			w.level.String() != level {
			t.Errorf("to %s: %d %s, and the level is %v", level, status, text, w.level)
		}
		if w.log.FilterMessage("log level changed").Len() != before+1 {
			t.Errorf("to %s: the log does not say so", level)
		}
	}
	for _, body := range []string{"", "debug", "{}", `{"level":"loud"}`, `{"level":"fatal"}`, `{"level":"panic"}`,
		`{"level":7}`, `{"level":"` + strings.Repeat("x", 4<<10) + `"}`} {
		if status, text := w.control("PUT", body, allowed); status != http.StatusBadRequest ||
			!strings.Contains(text, "debug, info, warn or error") {
			t.Errorf("%.40q: %d %s", body, status, text)
		}
	}
	if w.level.Level() != zap.WarnLevel {
		t.Errorf("a refused level was taken: %v", w.level)
	}
	if status, _ := w.control("DELETE", "", allowed); status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE /loglevel: status %d", status)
	}
}

// The level is not where the monitoring reads, and asks for the token in the file as it is now.
func TestTheLevelNeedsItsToken(t *testing.T) {
	w := watch(t, NewRegistry())
	if status, _ := w.ask("GET", "/loglevel", ""); status != http.StatusNotFound {
		t.Errorf("at the monitoring's port: %d", status)
	}
	refused := func(authorization string) {
		t.Helper()
		for _, method := range []string{"GET", "PUT"} {
			status, text := w.control(method, `{"level":"debug"}`, authorization)
			if status != http.StatusUnauthorized || w.level.Level() != zap.InfoLevel || strings.Contains(text, token) {
				t.Errorf("%s with %q: %d %s, level %v", method, authorization, status, text, w.level)
			}
		}
	}
	for _, bad := range []string{"", token, "Bearer ", "Bearer " + token[1:], "Bearer " + token + "x",
		"Basic " + token} {
		refused(bad)
	}
	for _, text := range []string{"", "short"} { // what is too short allows nobody
		testkit.Must(t, os.WriteFile(w.token, []byte(text), 0o600))
		refused("Bearer " + text)
	}
	testkit.Must(t, os.WriteFile(w.token, []byte("another word of many letters"), 0o600))
	refused("Bearer " + token)
	if status, _ := w.control("PUT", `{"level":"debug"}`, "Bearer another word of many letters"); status != 200 {
		t.Errorf("the new token: %d", status)
	}
	testkit.Must(t, os.Remove(w.token))
	w.level.SetLevel(zap.InfoLevel)
	refused("Bearer another word of many letters")
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
	if _, err := Start(t.Context(), taken, Options{Log: zap.NewNop()}); err == nil ||
		!strings.Contains(err.Error(), "http.listen") {
		t.Errorf("a taken address: %v", err)
	}
	for _, control := range []Control{{Listen: "127.0.0.1:9444"}, {TokenFile: "t"}, {Listen: ":9444", TokenFile: "t"},
		{Listen: "10.0.0.1:9444", TokenFile: "t"}, {Listen: "example.org:9444", TokenFile: "t"}} {
		err := Config{Control: control}.Validate()
		if err == nil || !strings.Contains(err.Error(), "http: control:") {
			t.Errorf("%+v: %v", control, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:9444", "localhost:9444", "[::1]:0"} {
		testkit.Must(t, (Config{Control: Control{Listen: listen, TokenFile: "t"}}).Validate())
	}
	for _, listen := range []string{"localhost", "1:2:3", "9090"} {
		if err := (Config{Listen: listen}).Validate(); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v", listen, err)
		}
	}
}
