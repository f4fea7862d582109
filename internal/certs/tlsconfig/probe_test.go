package tlsconfig

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// listen serves every connection with serve until the test ends, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// speaks is a server that sends a byte after the handshake, as an HTTP/2 server does, and then waits for the client
// to leave.
func speaks(config *tls.Config) func(net.Conn) {
	return func(raw net.Conn) {
		conn := tls.Server(raw, config)
		if conn.Handshake() == nil {
			_, _ = conn.Write([]byte{0})
			awaitEnd(conn)
		}
	}
}

// awaitEnd returns when the other side closes.
func awaitEnd(conn net.Conn) {
	for buffer := make([]byte, 1024); ; {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
	}
}

// unchecked presents any certificate to any server.
func unchecked(t *testing.T, f certs.Files) *tls.Config {
	t.Helper()
	pair := testkit.Value(tls.LoadX509KeyPair(f.Cert, f.Key))
	return &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: protocols,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	dir, other, aged := certstest.New(t), certstest.New(t), certstest.Aged(t)
	client := testkit.Value(Client(certs.IssuedFiles(dir, certs.RoleNode, "north"), "127.0.0.1"))
	good := testkit.Value(Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg")))
	foreign := testkit.Value(Server(certs.IssuedFiles(other, certs.RoleAggregator, "agg")))
	elsewhere := testkit.Value(Client(certs.IssuedFiles(dir, certs.RoleNode, "north"), "aggregator.example"))
	old := testkit.Value(Server(certs.IssuedFiles(aged, certs.RoleAggregator, "agg")))

	// A certificate that was valid when it was loaded, two hours ago.
	f := certs.IssuedFiles(dir, certs.RoleNode, "north")
	expiring := newCredentials(f, 0, certs.RoleNode)
	testkit.Value(expiring.inOrder())
	expiring.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	expired := client.Clone()
	expired.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		m, err := expiring.current()
		if err != nil {
			return nil, err
		}
		return &m.pair, nil
	}

	expiredPair := certs.IssuedFiles(aged, certs.RoleAggregator, "old")
	oldServer := unchecked(t, expiredPair)
	oldServer.Certificates = []tls.Certificate{testkit.Value(tls.LoadX509KeyPair(expiredPair.Cert, expiredPair.Key))}
	agedClient := testkit.Value(Client(newNode(t, aged), "127.0.0.1"))
	impostor := &tls.Config{Certificates: []tls.Certificate{testkit.Value(tls.LoadX509KeyPair(f.Cert, f.Key))}}
	broken := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return nil,
			errors.New("no files")
	}}
	tls12 := &tls.Config{Certificates: impostor.Certificates, MaxVersion: tls.VersionTLS12}

	for _, tc := range []struct {
		name   string
		serve  func(net.Conn)
		client *tls.Config
		want   error  // nil accepts any error, or none if says is empty
		says   string // part of the error
	}{
		{"good", speaks(good), client, nil, ""},
		{"good, for a student", speaks(good), testkit.Value(Client(certs.IssuedFiles(dir, certs.RoleStudent, "lab"),
			"127.0.0.1")), nil, ""},

		{"our certificate expired since it was loaded", speaks(good), expired, certs.ErrExpired, "issue a new one"},
		{"our certificate expired, says the server", speaks(old),
			unchecked(t, certs.IssuedFiles(aged, certs.RoleNode, "old")), ErrRejected, "expired certificate"},
		{"our certificate is of another authority", speaks(good),
			unchecked(t, certs.IssuedFiles(other, certs.RoleNode, "north")), ErrRejected, "operator"},
		{"no certificate", speaks(good), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
			NextProtos: protocols}, ErrRejected, "certificate required"},

		{"server of another authority", speaks(foreign), client, certs.ErrForeign, "the same authority on both sides"},
		{"server's certificate expired", speaks(oldServer), agedClient, certs.ErrExpired, "127.0.0.1"},
		{"server of another address", speaks(good), testkit.Value(Client(f, "127.0.0.2")), certs.ErrWrongHost,
			"127.0.0.2"},
		{"server of another name", speaks(good), elsewhere, certs.ErrWrongHost, "aggregator.example"},
		{"a node plays the server", speaks(impostor), client, certs.ErrWrongRole, ""},

		{"no TLS", func(c net.Conn) {
			_, _ = bufio.NewReader(c).Peek(1)
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			awaitEnd(c)
		}, client, nil, "does not use TLS"},
		{"TLS 1.2 only", speaks(tls12), client, nil, "refused the connection"},

		{"server with troubles of its own", speaks(broken), client, nil, ""},
		{"server that hangs up", func(net.Conn) {}, client, nil, ""},
		{"server that hangs up after the handshake", func(c net.Conn) { _ = tls.Server(c, good).Handshake() },
			client, nil, ""},
		// These two return only because Probe gives up.
		{"server that is silent after the handshake", func(c net.Conn) {
			conn := tls.Server(c, good)
			_ = conn.Handshake()
			awaitEnd(conn)
		}, client, nil, ""},
		{"server that says nothing", awaitEnd, client, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := Probe(t.Context(), listen(t, tc.serve), tc.client)
			switch {
			case tc.want == nil && tc.says == "":
				if err != nil {
					t.Errorf("got %v", err)
				}
			case err == nil:
				t.Error("no error")
			case tc.want != nil && !errors.Is(err, tc.want), !strings.Contains(err.Error(), tc.says):
				t.Errorf("got %v, want %v that says %q", err, tc.want, tc.says)
			}
		})
	}
}

// newNode issues a node "north" and returns its files.
func newNode(t *testing.T, dir string) certs.Files {
	t.Helper()
	testkit.Must(t, authority.Issue(dir, certs.RoleNode, "north", nil, time.Hour))
	return certs.IssuedFiles(dir, certs.RoleNode, "north")
}

func TestProbeServerDown(t *testing.T) {
	client := testkit.Value(Client(certs.IssuedFiles(certstest.New(t), certs.RoleNode, "north"), "127.0.0.1"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	closed := l.Addr().String()
	l.Close()
	for _, address := range []string{closed, "nowhere.invalid:1", "no port"} {
		if err := Probe(t.Context(), address, client); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A silent server does not delay a caller that cancels, before the handshake or after it. With these limits nothing
// else would end the probe.
func TestProbeEndsWithItsContext(t *testing.T) {
	dir := certstest.New(t)
	client := testkit.Value(Client(certs.IssuedFiles(dir, certs.RoleNode, "north"), "127.0.0.1"))
	good := testkit.Value(Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg")))
	for name, serve := range map[string]func(net.Conn) net.Conn{
		"before": func(c net.Conn) net.Conn { return c },
		"after": func(c net.Conn) net.Conn {
			conn := tls.Server(c, good)
			_ = conn.Handshake()
			return conn
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		address := listen(t, func(c net.Conn) {
			conn := serve(c)
			cancel()
			awaitEnd(conn)
		})
		if err := probe(ctx, address, client, limits{time.Hour, time.Hour, time.Hour}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
