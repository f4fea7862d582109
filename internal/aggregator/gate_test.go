package aggregator

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// knock makes a handshake and waits until it ends.
func (c *cluster) knock(t testing.TB, config *tls.Config) {
	t.Helper()
	raw, err := net.DialTimeout("tcp", c.server.Addr().String(), testkit.Patience)
	testkit.Must(t, err)
	defer raw.Close()
	testkit.Must(t, raw.SetDeadline(time.Now().Add(testkit.Patience)))
	conn := tls.Client(raw, config)
	if conn.Handshake() == nil {
		_, _ = conn.Read(make([]byte, 1)) // the server's verdict
	}
}

// burst is how many refusals with one reason get their own line at once; see package transport.
const burst = 10

func nobody() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}
}

// Refused handshakes are counted by reason, and the audit log has their addresses. Endless attempts fill neither disk
// nor memory, and omitted lines are counted.
func TestRefusedHandshakesAreCountedAndWrittenDown(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	c := newCluster(t, Options{}, change)
	foreign := filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, authority.Create(foreign))
	testkit.Must(t, authority.Issue(foreign, certs.RoleNode, "north", nil, time.Hour))
	files := certs.IssuedFiles(foreign, certs.RoleNode, "north")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	testkit.Must(t, err)
	stranger := nobody()
	stranger.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }

	const knocks = burst + 25
	for range knocks {
		c.knock(t, nobody())
	}
	c.knock(t, stranger)
	// A port probe is not a refusal.
	raw, err := net.Dial("tcp", c.server.Addr().String())
	testkit.Must(t, err)
	testkit.Must(t, raw.Close())

	counts := func(reason string) float64 {
		return scrape(t, c.server.MonitorAddr().String())[`conclave_tls_refused_total{reason="`+reason+`"}`]
	}
	testkit.Eventually(t, "all to be counted", func() bool {
		return counts(tlsconfig.RefusedNoCertificate) == knocks && counts(tlsconfig.RefusedAuthority) == 1
	})
	metrics := scrape(t, c.server.MonitorAddr().String())
	if n := metrics["conclave_tls_refusals_suppressed_total"]; n != knocks-burst {
		t.Errorf("%v are said to be left out, want %d", n, knocks-burst)
	}
	for _, reason := range tlsconfig.Refusals() {
		if _, ok := metrics[`conclave_tls_refused_total{reason="`+reason+`"}`]; !ok {
			t.Errorf("no count of %s", reason)
		}
	}
	if metrics["conclave_tls_accepting_state"] != 1 ||
		metrics["conclave_certificate_end_seconds"] < float64(time.Now().Unix()) {
		t.Errorf("state %v, end %v", metrics["conclave_tls_accepting_state"],
			metrics["conclave_certificate_end_seconds"])
	}
	written := func() (without, foreign int, suppressed uint64) {
		for _, e := range of(auditEntries(t, path), auditlog.Refused) {
			if e.Method != "TLS" || e.Peer != "" || e.Code == "" {
				t.Errorf("%+v", e)
			}
			suppressed += e.Suppressed
			switch {
			case e.Remote == "":
			case !strings.HasPrefix(e.Remote, "127.0.0.1:"):
				t.Errorf("from %s", e.Remote)
			case strings.HasPrefix(e.Reason, tlsconfig.RefusedNoCertificate+": "):
				without++
			case strings.HasPrefix(e.Reason, tlsconfig.RefusedAuthority+": "):
				foreign++
			}
		}
		return without, foreign, suppressed
	}
	if without, foreign, _ := written(); without != burst || foreign != 1 {
		t.Errorf("%d and %d lines", without, foreign)
	}
	testkit.Must(t, c.stop())
	if _, _, suppressed := written(); suppressed != knocks-burst {
		t.Errorf("the log says that %d were left out, want %d", suppressed, knocks-burst)
	}
}

// While the list is unusable no new peers are accepted, connected peers stay, and the log says so.
func TestNobodyIsLetInWithoutTheList(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	c := newCluster(t, Options{}, change, insisting)
	address := c.server.MonitorAddr().String()
	d := c.dataset()
	north := c.node(t, hello(d, "north", "a", 4), roundtest.Votes(4, roundtest.Alternating))
	student := c.student(t)
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum = 0.5 })
	raw, err := os.ReadFile(c.config.TLS.Revoked)
	testkit.Must(t, err)
	testkit.Must(t, os.Remove(c.config.TLS.Revoked))
	c.turnedAway(t, certs.IssuedFiles(c.certs, certs.RoleNode, "south"))
	if r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2)); r.GetTeachers() != 4 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	metrics := scrape(t, address)
	if metrics["conclave_tls_accepting_state"] != 0 || metrics[`conclave_tls_refused_total{reason="own_files"}`] < 1 {
		t.Errorf("it is not said: %v, %v", metrics["conclave_tls_accepting_state"],
			metrics[`conclave_tls_refused_total{reason="own_files"}`])
	}
	said := false
	for _, e := range of(auditEntries(t, path), auditlog.Refused) {
		said = said || strings.HasPrefix(e.Reason, "own_files: ") && strings.Contains(e.Reason, "revoked.crl")
	}
	if !said {
		t.Error("the audit log does not say why")
	}
	select {
	case <-north.ended:
		t.Errorf("north was disconnected: %v", north.err)
	default:
	}
	testkit.Must(t, os.WriteFile(c.config.TLS.Revoked, raw, 0o600))
	c.node(t, hello(d, "south", "a", 4), roundtest.Silent)
}
