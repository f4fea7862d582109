package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shake listens on loopback TCP with server, dials with client, sends a byte
// each way and returns both sides' errors and the server's view.
func shake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	testkit.Must(t, err)
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(testkit.Patience))
		conn := raw.(*tls.Conn)
		if err = conn.Handshake(); err == nil {
			state = conn.ConnectionState()
			if _, err = io.ReadFull(conn, make([]byte, 1)); err == nil {
				_, err = conn.Write([]byte{1})
			}
		}
		done <- err
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: testkit.Patience}, "tcp", listener.Addr().String(), client)
	if err == nil {
		conn.SetDeadline(time.Now().Add(testkit.Patience))
		if _, err = conn.Write([]byte{1}); err == nil {
			// A TLS 1.3 client learns of a refusal with the first read.
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		conn.Close()
	}
	return state, testkit.Receive(t, done), err
}

func TestMutualTLS(t *testing.T) {
	dir := certstest.New(t)
	server := testkit.Value(Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg")))
	for _, tc := range []struct {
		role certs.Role
		name string
		host string
	}{
		{certs.RoleNode, "north", "localhost"},
		{certs.RoleStudent, "lab", "127.0.0.1"},
	} {
		client := testkit.Value(Client(certs.IssuedFiles(dir, tc.role, tc.name), tc.host))
		state, serverErr, clientErr := shake(t, server, client)
		if serverErr != nil || clientErr != nil {
			t.Fatalf("%s: server: %v, client: %v", tc.role, serverErr, clientErr)
		}
		id, err := certs.PeerIdentity(state)
		if want := (certs.Identity{Role: tc.role, Name: tc.name}); err != nil || id != want {
			t.Errorf("identity %v, %v; want %v", id, err, want)
		}
		if state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
			t.Errorf("version %x, protocol %q", state.Version, state.NegotiatedProtocol)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	dir, other := certstest.New(t), certstest.New(t)
	agg, node := certs.IssuedFiles(dir, certs.RoleAggregator, "agg"), certs.IssuedFiles(dir, certs.RoleNode, "north")
	garbage := filepath.Join(t.TempDir(), "garbage.crt")
	testkit.Must(t, os.WriteFile(garbage, []byte("not PEM"), 0o600))
	aged := certstest.Aged(t)
	testkit.Must(t, authority.Issue(dir, certs.RoleNode, "early", nil, time.Hour))
	certstest.SignAgain(t, dir, certs.IssuedFiles(dir, certs.RoleNode, "early").Cert, func(c *x509.Certificate) {
		c.NotBefore = time.Now().Add(30 * time.Minute)
	})

	server := func(f certs.Files) error { _, err := Server(f); return err }
	client := func(f certs.Files) error { _, err := Client(f, "localhost"); return err }
	for _, tc := range []struct {
		name string
		load func(certs.Files) error
		f    certs.Files
		want error
		says string // the file named
	}{
		{"unset", server, certs.Files{CA: agg.CA, Cert: agg.Cert}, certs.ErrMissing, "key is not set"},
		{"missing CA", server, certs.Files{CA: "nowhere.crt", Cert: agg.Cert, Key: agg.Key}, certs.ErrMissing,
			"nowhere.crt"},
		{"missing cert", client, certs.Files{CA: node.CA, Cert: "nowhere.crt", Key: node.Key}, certs.ErrMissing,
			"nowhere.crt"},
		{"missing key", client, certs.Files{CA: node.CA, Cert: node.Cert, Key: "nowhere.key"}, certs.ErrMissing,
			"nowhere.key"},
		{"garbage CA", client, certs.Files{CA: garbage, Cert: node.Cert, Key: node.Key}, certs.ErrMalformed, garbage},
		{"garbage cert", client, certs.Files{CA: node.CA, Cert: garbage, Key: node.Key}, certs.ErrMalformed, garbage},
		{"mismatch", client, certs.Files{CA: node.CA, Cert: node.Cert, Key: agg.Key}, certs.ErrKeyMismatch, node.Cert},
		{"expired client", client, certs.IssuedFiles(aged, certs.RoleNode, "old"), certs.ErrExpired, "node-old.crt"},
		{"expired server", server, certs.IssuedFiles(aged, certs.RoleAggregator, "old"), certs.ErrExpired,
			"aggregator-old.crt"},
		{"not yet valid", client, certs.IssuedFiles(dir, certs.RoleNode, "early"), certs.ErrExpired, "node-early.crt"},
		{"foreign", client, certs.Files{CA: filepath.Join(other, "ca.crt"), Cert: node.Cert, Key: node.Key},
			certs.ErrForeign, node.Cert},
		{"node as server", server, node, certs.ErrWrongRole, node.Cert},
		{"authority as client", client, certs.Files{CA: node.CA, Cert: node.CA, Key: filepath.Join(dir, "ca.key")},
			certs.ErrNoIdentity, node.CA},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.load(tc.f)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not name %q", err, tc.says)
			}
		})
	}
	if _, err := Client(node, ""); err == nil {
		t.Error("a client without a server name was accepted")
	}
}

func TestReload(t *testing.T) {
	first, second := certstest.New(t), certstest.New(t)
	live := t.TempDir()
	install := func(from string, names ...string) {
		t.Helper()
		for _, name := range names {
			raw := testkit.Value(os.ReadFile(filepath.Join(from, name)))
			next := filepath.Join(live, "next")
			testkit.Must(t, os.WriteFile(next, raw, 0o600))
			testkit.Must(t, os.Rename(next, filepath.Join(live, name)))
		}
	}
	all := []string{"ca.crt", "aggregator-agg.crt", "aggregator-agg.key", "node-north.crt", "node-north.key"}
	install(first, all...)
	server := testkit.Value(Server(certs.IssuedFiles(live, certs.RoleAggregator, "agg")))
	client := testkit.Value(Client(certs.IssuedFiles(live, certs.RoleNode, "north"), "localhost"))
	oldClient := testkit.Value(Client(certs.IssuedFiles(first, certs.RoleNode, "north"), "localhost"))
	newClient := testkit.Value(Client(certs.IssuedFiles(second, certs.RoleNode, "north"), "localhost"))

	works := func(what string, c *tls.Config, want bool) {
		t.Helper()
		_, serverErr, clientErr := shake(t, server, c)
		if got := serverErr == nil && clientErr == nil; got != want {
			t.Fatalf("%s: works %v, want %v (server: %v, client: %v)", what, got, want, serverErr, clientErr)
		}
	}
	works("before", client, true)
	works("new client before", newClient, false)

	// Half replaced: certificate and key do not match, so the old ones stay in use.
	install(second, "aggregator-agg.crt", "node-north.crt")
	works("halfway", client, true)

	install(second, all...)
	works("after", client, true)
	works("new client after", newClient, true)
	works("old client after", oldClient, false)
}

func TestReloadKeepsOldOnlyWhileValid(t *testing.T) {
	dir := certstest.New(t)
	files := certs.IssuedFiles(dir, certs.RoleNode, "north")
	s := newCredentials(files, x509.ExtKeyUsageClientAuth, certs.RoleNode)
	testkit.Value(s.inOrder())
	testkit.Must(t, os.WriteFile(files.Cert, []byte("broken"), 0o600))
	if _, err := s.current(); err != nil {
		t.Fatalf("a broken file ended a valid certificate: %v", err)
	}
	s.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := s.current(); !errors.Is(err, certs.ErrMalformed) {
		t.Fatalf("got %v, want the file's error once the old certificate expired", err)
	}
}
