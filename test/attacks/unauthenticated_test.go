package attacks

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// dialTCP opens a connection and sends nothing.
func (w *world) dialTCP(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", w.address(), testkit.Patience)
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// preface is the start of an HTTP/2 client, with a call of the health service.
func preface() []byte {
	return bytes.Join([][]byte{[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), rawFrame(frameSettings, 0, 0, nil),
		call(1, "/grpc.health.v1.Health/Check"), message(1, 0, nil), rawFrame(frameData, flagEndStream, 1, nil)}, nil)
}

// words must not occur in bytes sent to a stranger.
var words = []string{"conclave", "health", "grpc", "agg", "Teacher", "Student", "SETTINGS"}

// strangers are certificates that the aggregator must refuse. Those of its own authority are made here with the
// authority's key.
func (w *world) strangers(t testing.TB) map[string]*tls.Certificate {
	t.Helper()
	all := map[string]*tls.Certificate{"none": nil}
	foreign := filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, authority.Create(foreign))
	testkit.Must(t, authority.Issue(foreign, certs.RoleNode, "mallory", nil, time.Hour))
	files := certs.IssuedFiles(foreign, certs.RoleNode, "mallory")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	testkit.Must(t, err)
	all["from another authority"] = &pair

	authority, err := tls.LoadX509KeyPair(filepath.Join(w.certs, "ca.crt"), filepath.Join(w.certs, "ca.key"))
	testkit.Must(t, err)
	ca, err := x509.ParseCertificate(authority.Certificate[0])
	testkit.Must(t, err)
	now := time.Now()
	for name, change := range map[string]func(*x509.Certificate){
		"expired": func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour)
		},
		"of tomorrow": func(c *x509.Certificate) { c.NotBefore = now.Add(24 * time.Hour) },
		"for servers alone": func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		},
		"without a role": func(c *x509.Certificate) { c.URIs = nil },
		"of an unknown role": func(c *x509.Certificate) {
			c.URIs = []*url.URL{{Scheme: "conclave", Host: "root", Path: "/mallory"}}
		},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		testkit.Must(t, err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "mallory"},
			NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			BasicConstraintsValid: true,
			URIs:                  []*url.URL{{Scheme: "conclave", Host: "node", Path: "/mallory"}},
		}
		change(template)
		raw, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), authority.PrivateKey)
		testkit.Must(t, err)
		all[name] = &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	}
	self, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Minute),
		NotAfter:    now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: "conclave", Host: "node", Path: "/mallory"}}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, self.Public(), self)
	testkit.Must(t, err)
	all["signed by itself"] = &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: self}
	return all
}

func (w *world) roots(t testing.TB) *x509.CertPool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.certs, "ca.crt"))
	testkit.Must(t, err)
	if block, _ := pem.Decode(raw); block == nil {
		t.Fatal("ca.crt has no PEM")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	return pool
}

// A peer without a valid certificate gets no application data, however the connection begins, and unencrypted bytes
// reveal no names.
func TestStrangersGetNothing(t *testing.T) {
	w := attacked(t)
	before := w.metrics(t)

	for name, certificate := range w.strangers(t) {
		t.Run("a certificate "+name, func(t *testing.T) {
			config := &tls.Config{RootCAs: w.roots(t), ServerName: "127.0.0.1", NextProtos: []string{"h2"},
				MinVersion: tls.VersionTLS13}
			if certificate != nil {
				// Sent whatever the server asks for.
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return certificate, nil
				}
			}
			raw := w.dialTCP(t)
			conn := tls.Client(raw, config)
			// In TLS 1.3 the client finishes before the server has checked its certificate.
			_ = conn.HandshakeContext(testkit.Within(t))
			_, _ = conn.Write(preface())
			got, err := drain(conn, testkit.Patience)
			if len(got) != 0 || !refusedBy(err) {
				t.Errorf("got %q, %v", got, err)
			}
			if !strings.Contains(err.Error(), "remote error: tls:") && !strings.Contains(err.Error(), "reset") &&
				!strings.Contains(err.Error(), "EOF") {
				t.Errorf("the end is %v", err)
			}
		})
	}
	for name, change := range map[string]func(*tls.Config){
		"TLS 1.2": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
		"TLS 1.0": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 },
		"another protocol within TLS": func(c *tls.Config) {
			c.NextProtos = []string{"spdy/3"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := tlsconfig.Client(w.files(certs.RoleNode, "mallory"), "127.0.0.1")
			testkit.Must(t, err)
			config = config.Clone()
			change(config)
			conn := tls.Client(w.dialTCP(t), config)
			err = conn.HandshakeContext(testkit.Within(t))
			if err == nil {
				_, _ = conn.Write(preface())
				got, _ := drain(conn, testkit.Patience)
				t.Errorf("shaken hands, got %q", got)
			}
		})
	}
	// Bytes that are not TLS get at most an alert, which shows the protocol version.
	for name, bytes := range map[string][]byte{
		"HTTP/2 in the clear": preface(),
		"HTTP/1":              []byte("GET / HTTP/1.1\r\nHost: agg\r\n\r\n"),
		"an upgrade to HTTP/2": []byte("GET / HTTP/1.1\r\nHost: agg\r\nConnection: Upgrade, " +
			"HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n"),
		"SSH":                       []byte("SSH-2.0-x\r\n"),
		"a TLS record of 64 KiB":    append([]byte{22, 3, 1, 0xff, 0xff}, make([]byte, 1<<16)...),
		"a TLS record of nothing":   {22, 3, 1, 0, 0},
		"data before a handshake":   {23, 3, 3, 0, 1, 0},
		"a greeting of SSL 2":       {0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10},
		"zeros":                     make([]byte, 4096),
		"the proxy protocol":        []byte("PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"),
		"an alert and nothing else": {21, 3, 3, 0, 2, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dialTCP(t)
			_, _ = conn.Write(bytes)
			if c, ok := conn.(*net.TCPConn); ok {
				_ = c.CloseWrite()
			}
			got, err := drain(conn, testkit.Patience)
			if !refusedBy(err) {
				t.Errorf("the connection stays: %v", err)
			}
			// An alert has 7 bytes: type 21, version, length 2, level, description. crypto/tls answers plain HTTP
			// with a text, but not here.
			if len(got) != 0 && (len(got) != 7 || got[0] != 21) {
				t.Errorf("got %q", got)
			}
			for _, word := range words {
				if strings.Contains(string(got), word) {
					t.Errorf("%q is in %q", word, got)
				}
			}
		})
	}
	t.Run("gRPC in the clear", func(t *testing.T) {
		conn, err := grpc.NewClient(w.address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		testkit.Must(t, err)
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
			t.Errorf("%v", err)
		}
	})

	after := w.metrics(t)
	for name, n := range after {
		if strings.HasPrefix(name, "conclave_grpc_calls_total") && strings.Contains(name, `method="Check"`) &&
			n != before[name] {
			t.Errorf("%s went from %v to %v", name, before[name], n)
		}
	}
	w.healthy(t)
}

// recorded are the first bytes that a client sends.
func recorded(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() { _ = tls.Client(theirs, config).HandshakeContext(t.Context()) }()
	raw := make([]byte, 1<<14)
	n, err := ours.Read(raw)
	testkit.Must(t, err)
	ours.Close()
	theirs.Close()
	return raw[:n]
}

// Connections that were opened and dropped leave nothing behind, and open ones do not keep an honest node out.
func TestFiveThousandStrangers(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	w.checkUnharmed(t, s, 0)
	beforeBytes, beforeGoroutines := settled()
	config := &tls.Config{RootCAs: w.roots(t), ServerName: "127.0.0.1", NextProtos: []string{"h2"},
		MinVersion: tls.VersionTLS13}
	hello := recorded(t, config)
	open := make([]net.Conn, 0, 200)
	peak := int64(0)
	n := 5000
	if testing.Short() {
		n = 1000
	}
	for i := range n {
		conn, err := net.DialTimeout("tcp", w.address(), testkit.Patience)
		testkit.Must(t, err)
		switch i % 4 {
		case 1:
			_, _ = conn.Write(hello)
		case 2:
			_, _ = conn.Write(preface())
		case 3:
			_, _ = conn.Write(hello[:20])
		}
		if open = append(open, conn); len(open) == cap(open) {
			if i%1000 == 999 {
				now, _ := heap()
				peak = max(peak, now)
				w.checkUnharmed(t, s, uint64(i/1000+1))
			}
			for _, c := range open {
				c.Close()
			}
			open = open[:0]
		}
	}
	ends(t, beforeGoroutines+6)
	bytes, goroutines := settled()
	t.Logf("%d connections: the heap went from %d to %d KiB (at most %d KiB with 200 open), goroutines from %d to %d",
		n, beforeBytes>>10, bytes>>10, peak>>10, beforeGoroutines, goroutines)
	if grown := bytes - beforeBytes; grown > 2<<20 {
		t.Errorf("%d connections left %d KiB behind", n, grown>>10)
	}
	if held := peak - beforeBytes; held > 200*128<<10 {
		t.Errorf("200 open connections hold %d KiB each", held>>10/200)
	}
}

// Too many connections without a certificate close only the oldest of their kind: an honest node can still join.
func TestAStormOfStrangersClosesItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("opens 4,000 connections")
	}
	const most, more = 4096, 150
	var limit syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur < 2*(most+more)+500 {
		t.Skipf("only %d files may be open", limit.Cur)
	}
	w := attacked(t)
	s := w.scene(t, votes())
	w.checkUnharmed(t, s, 0)
	before, goroutines := settled()
	conns := make([]net.Conn, most+more)
	for i := range conns {
		conns[i] = w.dialTCP(t)
	}
	for i, c := range conns[:more] {
		if _, err := drain(c, testkit.Patience); !refusedBy(err) {
			t.Errorf("connection %d of %d stays: %v", i, len(conns), err)
		}
	}
	_ = conns[most].SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := conns[most].Read(make([]byte, 1)); refusedBy(err) {
		t.Errorf("a younger connection was closed: %v", err)
	}
	held, _ := heap()
	w.checkUnharmed(t, s, 1)
	s.mallory(t).leave()
	for _, c := range conns {
		c.Close()
	}
	ends(t, goroutines+16) // the connection of the node that joined stays open
	t.Logf("%d connections without a certificate hold %d KiB of heap", most, (held-before)>>10)
}
