package site

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

const (
	// lookEvery is how often the node's files are checked while a page shows them.
	lookEvery = time.Second
	// probeTimeout bounds the wait for the node's own answer.
	probeTimeout = 2 * time.Second
	maxProbe     = 1 << 10
)

// cached is data read from files, and the state of these files.
type cached[T any] struct {
	of    string
	value T
}

// print identifies the state of the node's files.
func (s *Site) print(paths ...string) string {
	var b strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%d.%d ", info.Size(), info.ModTime().UnixNano())
		} else {
			b.WriteString("- ")
		}
	}
	return b.String()
}

func (s *Site) ledgerPrint() string { return s.print(s.config.LedgerPath(), s.config.Policy) }

// current is the status from ledger and policy. It is recomputed when they change, because that is slow for ten
// thousand runs, and at least once a minute, because approvals may expire.
func (s *Site) current() (*sitepolicy.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.ledgerPrint() + time.Now().Truncate(time.Minute).String()
	if s.status.of == of {
		return s.status.value, nil
	}
	status, err := s.enforcer.Status()
	if err != nil {
		return nil, err
	}
	s.status = cached[*sitepolicy.Status]{of, status}
	return status, nil
}

// sentNow is what left according to the current audit log.
func (s *Site) sentNow() (*sent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.print(s.config.AuditLog)
	if s.sent.of == of && s.sent.value != nil {
		return s.sent.value, nil
	}
	read, err := readSent(s.config.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	s.sent = cached[*sent]{of, read}
	return read, nil
}

// expire makes the next page read everything again.
func (s *Site) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.of = ""
}

// events is the event stream of a page that shows the current files.
func (s *Site) events() string { return "/events?" + url.Values{"at": {s.all()}}.Encode() }

func (s *Site) all() string { return s.ledgerPrint() + s.print(s.config.AuditLog) }

// follow notifies a page when the node's files, or the node's state, differ from those that it shows.
func (s *Site) follow(ctx context.Context, r *http.Request, changed func()) error {
	seen, state := r.URL.Query().Get("at"), s.probe(ctx)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if now := s.all(); now != seen {
			seen = now
			changed()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if now := s.probe(ctx); now != state {
			state = now
			changed()
		}
	}
}

// nodeState is the node's state as it reports it.
type nodeState struct{ State, Why string }

// probe asks the node, if its file configures a listener.
func (s *Site) probe(ctx context.Context) nodeState {
	host, port, err := net.SplitHostPort(s.config.HTTP.Listen)
	if err != nil || port == "0" {
		return nodeState{"not known", "set http.listen in the node's file to see the connection here"}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	at := "http://" + net.JoinHostPort(host, port) + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nodeState{"not known", err.Error()}
	}
	answer, err := s.monitor.Do(request)
	if err != nil {
		return nodeState{"not running", "nothing answers at " + s.config.HTTP.Listen + "; start the node, or look at " +
			"its log"}
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxProbe)) // best effort
	why := strings.TrimSpace(string(text))
	if answer.StatusCode != http.StatusOK {
		return nodeState{"not ready", why}
	}
	return nodeState{"ready", why}
}

// ending is when the node's certificate ends.
type ending struct{ State, Ends string }

func (s *Site) certificate() ending {
	raw, err := os.ReadFile(s.config.TLS.Cert)
	if err != nil {
		return ending{"not known", filepath.Base(s.config.TLS.Cert) + " cannot be read"}
	}
	for _, c := range pemfile.Certificates(raw) { // the node's own is the first
		return ending{authority.StateOf(c.NotAfter, time.Now()), console.When(c.NotAfter.UTC().Format(time.RFC3339))}
	}
	return ending{"not known", filepath.Base(s.config.TLS.Cert) + " holds no certificate"}
}
