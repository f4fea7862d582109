package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCA returns a folder with an authority, an aggregator "agg" for localhost
// and 127.0.0.1, a node "north" and a student "lab".
func newCA(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	if err := CreateCA(dir); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role  Role
		name  string
		hosts []string
	}{
		{RoleAggregator, "agg", []string{"localhost", "127.0.0.1"}},
		{RoleNode, "north", nil},
		{RoleStudent, "lab", nil},
	} {
		if err := Issue(dir, c.role, c.name, c.hosts, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shake listens on loopback TCP with server, dials with client, sends a byte
// each way and returns both sides' errors and the server's view.
func shake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(5 * time.Second))
		conn := raw.(*tls.Conn)
		if err = conn.Handshake(); err == nil {
			state = conn.ConnectionState()
			if _, err = io.ReadFull(conn, make([]byte, 1)); err == nil {
				_, err = conn.Write([]byte{1})
			}
		}
		done <- err
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", listener.Addr().String(), client)
	if err == nil {
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err = conn.Write([]byte{1}); err == nil {
			// A client of TLS 1.3 learns with the first read that it was refused.
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		conn.Close()
	}
	return state, <-done, err
}

func TestMutualTLS(t *testing.T) {
	dir := newCA(t)
	server := testkit.Value(ServerTLS(IssuedFiles(dir, RoleAggregator, "agg")))
	for _, tc := range []struct {
		role Role
		name string
		host string
	}{
		{RoleNode, "north", "localhost"},
		{RoleStudent, "lab", "127.0.0.1"},
	} {
		client := testkit.Value(ClientTLS(IssuedFiles(dir, tc.role, tc.name), tc.host))
		state, serverErr, clientErr := shake(t, server, client)
		if serverErr != nil || clientErr != nil {
			t.Fatalf("%s: server: %v, client: %v", tc.role, serverErr, clientErr)
		}
		id, err := PeerIdentity(state)
		if want := (Identity{tc.role, tc.name}); err != nil || id != want {
			t.Errorf("identity %v, %v; want %v", id, err, want)
		}
		if state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
			t.Errorf("version %x, protocol %q", state.Version, state.NegotiatedProtocol)
		}
	}
}

func TestRefusedByClient(t *testing.T) {
	dir, other := newCA(t), newCA(t)
	nodeFiles := IssuedFiles(dir, RoleNode, "north")
	server := testkit.Value(ServerTLS(IssuedFiles(dir, RoleAggregator, "agg")))
	foreign := testkit.Value(ServerTLS(IssuedFiles(other, RoleAggregator, "agg")))

	// A node's certificate has no server usage; a listener that skips our
	// checks presents it all the same.
	pair := testkit.Value(tls.LoadX509KeyPair(nodeFiles.Cert, nodeFiles.Key))
	impostor := &tls.Config{Certificates: []tls.Certificate{pair}}

	for _, tc := range []struct {
		name   string
		server *tls.Config
		host   string
		want   error
	}{
		{"foreign CA", foreign, "localhost", ErrForeign},
		{"wrong hostname", server, "aggregator.example", ErrWrongHost},
		{"wrong address", server, "127.0.0.2", ErrWrongHost},
		{"a node plays the server", impostor, "localhost", ErrWrongRole},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := testkit.Value(ClientTLS(nodeFiles, tc.host))
			_, serverErr, clientErr := shake(t, tc.server, client)
			if !errors.Is(clientErr, tc.want) {
				t.Errorf("client: %v, want %v", clientErr, tc.want)
			}
			if serverErr == nil {
				t.Error("the server got through")
			}
		})
	}
}

func TestRefusedByServer(t *testing.T) {
	dir, other := newCA(t), newCA(t)
	server := testkit.Value(ServerTLS(IssuedFiles(dir, RoleAggregator, "agg")))
	if err := issue(dir, Identity{RoleNode, "old"}, nil, time.Hour, time.Now().Add(-2*time.Hour)); err == nil {
		t.Fatal("an authority issued before it began")
	}
	aged := filepath.Join(t.TempDir(), "aged")
	if err := createCA(aged, time.Now().Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := issue(aged, Identity{RoleNode, "old"}, nil, time.Hour, time.Now().Add(-47*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := Issue(aged, RoleAggregator, "agg", []string{"localhost"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	agedServer := testkit.Value(ServerTLS(IssuedFiles(aged, RoleAggregator, "agg")))

	present := func(f Files) *tls.Config {
		pair := testkit.Value(tls.LoadX509KeyPair(f.Cert, f.Key))
		return &tls.Config{
			InsecureSkipVerify:   true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
		}
	}
	old := testkit.Value(ClientTLS(IssuedFiles(dir, RoleNode, "north"), "localhost"))
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for _, tc := range []struct {
		name   string
		server *tls.Config
		client *tls.Config
		want   string // in what the server says
	}{
		{"foreign CA", server, present(IssuedFiles(other, RoleNode, "north")), "unknown authority"},
		{"expired", agedServer, present(IssuedFiles(aged, RoleNode, "old")), "expired"},
		{"no certificate", server, &tls.Config{InsecureSkipVerify: true}, "didn't provide a certificate"},
		{"no identity", server, present(Files{Cert: filepath.Join(dir, "ca.crt"), Key: filepath.Join(dir, "ca.key")}), "without identity"},
		{"TLS 1.2", server, old, "unsupported versions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, serverErr, clientErr := shake(t, tc.server, tc.client)
			if clientErr == nil {
				t.Error("the client got through")
			}
			if serverErr == nil || !strings.Contains(serverErr.Error(), tc.want) {
				t.Errorf("server: %v, want %q", serverErr, tc.want)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	dir, other := newCA(t), newCA(t)
	agg, node := IssuedFiles(dir, RoleAggregator, "agg"), IssuedFiles(dir, RoleNode, "north")
	garbage := filepath.Join(t.TempDir(), "garbage.crt")
	if err := os.WriteFile(garbage, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	aged := filepath.Join(t.TempDir(), "aged")
	if err := createCA(aged, time.Now().Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []Identity{{RoleAggregator, "old"}, {RoleNode, "old"}} {
		if err := issue(aged, id, []string{"localhost"}, time.Hour, time.Now().Add(-47*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := issue(dir, Identity{RoleNode, "early"}, nil, time.Hour, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}

	server := func(f Files) error { _, err := ServerTLS(f); return err }
	client := func(f Files) error { _, err := ClientTLS(f, "localhost"); return err }
	for _, tc := range []struct {
		name string
		load func(Files) error
		f    Files
		want error
		says string // the file named
	}{
		{"unset", server, Files{CA: agg.CA, Cert: agg.Cert}, ErrMissing, "key is not set"},
		{"missing CA", server, Files{CA: "nowhere.crt", Cert: agg.Cert, Key: agg.Key}, ErrMissing, "nowhere.crt"},
		{"missing cert", client, Files{CA: node.CA, Cert: "nowhere.crt", Key: node.Key}, ErrMissing, "nowhere.crt"},
		{"missing key", client, Files{CA: node.CA, Cert: node.Cert, Key: "nowhere.key"}, ErrMissing, "nowhere.key"},
		{"garbage CA", client, Files{CA: garbage, Cert: node.Cert, Key: node.Key}, ErrMalformed, garbage},
		{"garbage cert", client, Files{CA: node.CA, Cert: garbage, Key: node.Key}, ErrMalformed, garbage},
		{"mismatch", client, Files{CA: node.CA, Cert: node.Cert, Key: agg.Key}, ErrKeyMismatch, node.Cert},
		{"expired client", client, IssuedFiles(aged, RoleNode, "old"), ErrExpired, "node-old.crt"},
		{"expired server", server, IssuedFiles(aged, RoleAggregator, "old"), ErrExpired, "aggregator-old.crt"},
		{"not yet valid", client, IssuedFiles(dir, RoleNode, "early"), ErrExpired, "node-early.crt"},
		{"foreign", client, Files{CA: filepath.Join(other, "ca.crt"), Cert: node.Cert, Key: node.Key}, ErrForeign, node.Cert},
		{"node as server", server, node, ErrWrongRole, node.Cert},
		{"authority as client", client, Files{CA: node.CA, Cert: node.CA, Key: filepath.Join(dir, "ca.key")}, ErrNoIdentity, node.CA},
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
	if _, err := ClientTLS(node, ""); err == nil {
		t.Error("a client without a server name was accepted")
	}
}

func TestPeerIdentityNeedsVerification(t *testing.T) {
	dir := newCA(t)
	node := IssuedFiles(dir, RoleNode, "north")
	pair := testkit.Value(tls.LoadX509KeyPair(node.Cert, node.Key))
	state := tls.ConnectionState{HandshakeComplete: true}
	state.PeerCertificates = append(state.PeerCertificates, pair.Leaf)
	if _, err := PeerIdentity(state); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("an unverified certificate gave %v", err)
	}
}

func TestReload(t *testing.T) {
	first, second := newCA(t), newCA(t)
	live := t.TempDir()
	install := func(from string, names ...string) {
		t.Helper()
		for _, name := range names {
			raw := testkit.Value(os.ReadFile(filepath.Join(from, name)))
			next := filepath.Join(live, "next")
			if err := os.WriteFile(next, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(next, filepath.Join(live, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := []string{"ca.crt", "aggregator-agg.crt", "aggregator-agg.key", "node-north.crt", "node-north.key"}
	install(first, all...)
	server := testkit.Value(ServerTLS(IssuedFiles(live, RoleAggregator, "agg")))
	client := testkit.Value(ClientTLS(IssuedFiles(live, RoleNode, "north"), "localhost"))
	oldClient := testkit.Value(ClientTLS(IssuedFiles(first, RoleNode, "north"), "localhost"))
	newClient := testkit.Value(ClientTLS(IssuedFiles(second, RoleNode, "north"), "localhost"))

	works := func(what string, c *tls.Config, want bool) {
		t.Helper()
		_, serverErr, clientErr := shake(t, server, c)
		if got := serverErr == nil && clientErr == nil; got != want {
			t.Fatalf("%s: works %v, want %v (server: %v, client: %v)", what, got, want, serverErr, clientErr)
		}
	}
	works("before", client, true)
	works("new client before", newClient, false)

	// Half replaced: certificate and key do not fit; the old ones stay in use.
	install(second, "aggregator-agg.crt", "node-north.crt")
	works("halfway", client, true)

	install(second, all...)
	works("after", client, true)
	works("new client after", newClient, true)
	works("old client after", oldClient, false)
}

func TestReloadKeepsOldOnlyWhileValid(t *testing.T) {
	dir := newCA(t)
	files := IssuedFiles(dir, RoleNode, "north")
	s := newSource(files, x509.ExtKeyUsageClientAuth, RoleNode)
	testkit.Value(s.inOrder())
	if err := os.WriteFile(files.Cert, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.current(); err != nil {
		t.Fatalf("a broken file ended a valid certificate: %v", err)
	}
	s.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := s.current(); !errors.Is(err, ErrMalformed) {
		t.Fatalf("got %v, want the file's error once the old certificate expired", err)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := newCA(t)
	read := func() string {
		var all strings.Builder
		for _, f := range testkit.Value(filepath.Glob(filepath.Join(dir, "*"))) {
			all.WriteString(f)
			all.Write(testkit.Value(os.ReadFile(f)))
		}
		return all.String()
	}
	before := read()
	for _, err := range []error{CreateCA(dir), Issue(dir, RoleNode, "north", nil, time.Hour)} {
		if !errors.Is(err, ErrExists) {
			t.Errorf("got %v, want %v", err, ErrExists)
		}
	}
	if read() != before {
		t.Error("files changed")
	}
	// A key alone is reason enough.
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	if err := CreateCA(dir); !errors.Is(err, ErrExists) {
		t.Errorf("with ca.key alone: %v, want %v", err, ErrExists)
	}
	if info := testkit.Value(os.Stat(filepath.Join(dir, "node-north.key"))); info.Mode().Perm() != 0o600 {
		t.Errorf("key mode %v", info.Mode())
	}
	if info := testkit.Value(os.Stat(dir)); info.Mode().Perm() != 0o700 {
		t.Errorf("folder mode %v", info.Mode())
	}
}

func TestIssueRefuses(t *testing.T) {
	dir := newCA(t)
	hosts := []string{"localhost"}
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"no authority", Issue(t.TempDir(), RoleNode, "a", nil, time.Hour)},
		{"unknown role", Issue(dir, "auditor", "a", nil, time.Hour)},
		{"path in name", Issue(dir, RoleNode, "../a", nil, time.Hour)},
		{"empty name", Issue(dir, RoleNode, "", nil, time.Hour)},
		{"aggregator without hosts", Issue(dir, RoleAggregator, "a", nil, time.Hour)},
		{"empty host", Issue(dir, RoleAggregator, "a", []string{""}, time.Hour)},
		{"no validity", Issue(dir, RoleAggregator, "a", hosts, 0)},
		{"longer than the authority", Issue(dir, RoleAggregator, "a", hosts, 2*caValidity)},
	} {
		if tc.err == nil {
			t.Errorf("%s: accepted", tc.name)
		}
	}
	for _, host := range []string{"bad host", " localhost", "1.2.3", "10.0.0.256", "agg:7443", "[::1]", "a..b", "agg.", "-a", "a-",
		"*", "*.org", "b.*.org", "größe.example", "agg\x00", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a"} {
		err := Issue(dir, RoleAggregator, "a", []string{"localhost", host}, time.Hour)
		if err == nil || !strings.Contains(err.Error(), "not a DNS name or IP address") {
			t.Errorf("host %q: got %v", host, err)
		}
	}
	for _, site := range []string{"NORTH", "North", "north_1", "north-", strings.Repeat("a", 65)} {
		if err := Issue(dir, RoleNode, site, nil, time.Hour); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("site %q: got %v", site, err)
		}
	}
	// Other roles' names are nobody's site.
	if err := Issue(dir, RoleStudent, "Lab_1", nil, time.Hour); err != nil {
		t.Error(err)
	}
	if left := testkit.Value(filepath.Glob(filepath.Join(dir, "*-a.*"))); len(left) > 0 {
		t.Errorf("files of refused certificates: %v", left)
	}
	if left := testkit.Value(filepath.Glob(filepath.Join(dir, "node-[Nn]orth[^.]*"))); len(left) > 0 {
		t.Errorf("files of refused certificates: %v", left)
	}
}

func TestHostsThatCanBeDialled(t *testing.T) {
	dir := newCA(t)
	hosts := []string{"agg", "agg.example.org", "*.example.org", "my_agg", "3com.example", "xn--gre-6ka8i.example", "10.0.0.7", "::1", "fd00::7"}
	if err := Issue(dir, RoleAggregator, "all", hosts, time.Hour); err != nil {
		t.Fatal(err)
	}
	pair := testkit.Value(loadPair(filepath.Join(dir, "aggregator-all.crt"), filepath.Join(dir, "aggregator-all.key")))
	if len(pair.Leaf.DNSNames) != 6 || len(pair.Leaf.IPAddresses) != 3 {
		t.Errorf("names %v, addresses %v", pair.Leaf.DNSNames, pair.Leaf.IPAddresses)
	}
	for _, host := range []string{"agg", "agg.example.org", "b1.example.org", "10.0.0.7", "::1"} {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestIdentityURI(t *testing.T) {
	for _, tc := range []struct {
		uris []string
		want Identity // zero: refused
	}{
		{[]string{"conclave://node/north"}, Identity{RoleNode, "north"}},
		{[]string{"spiffe://other/x", "conclave://student/lab-1.b"}, Identity{RoleStudent, "lab-1.b"}},
		{nil, Identity{}},
		{[]string{"conclave://node/north", "conclave://student/north"}, Identity{}},
		{[]string{"conclave://auditor/north"}, Identity{}},
		{[]string{"conclave://node"}, Identity{}},
		{[]string{"conclave://node/a/b"}, Identity{}},
		{[]string{"conclave://node:1/north"}, Identity{}},
		{[]string{"conclave://me@node/north"}, Identity{}},
		{[]string{"conclave://node/north?role=student"}, Identity{}},
		{[]string{"conclave://node/n%6Frth%2F"}, Identity{}},
	} {
		cert := new(x509.Certificate)
		for _, raw := range tc.uris {
			cert.URIs = append(cert.URIs, testkit.Value(url.Parse(raw)))
		}
		got, err := identityOf(cert)
		if got != tc.want || (err == nil) != (tc.want != Identity{}) || err != nil && !errors.Is(err, ErrNoIdentity) {
			t.Errorf("%v: got %v, %v; want %v", tc.uris, got, err, tc.want)
		}
	}
}

func FuzzIdentityURI(f *testing.F) {
	for _, seed := range []string{"conclave://node/north", "conclave://student/a%2Fb", "conclave:node/x", "CONCLAVE://node/x", "conclave://node/x#y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		id, err := identityOf(&x509.Certificate{URIs: []*url.URL{u}})
		if err == nil && id.uri().String() != u.String() {
			t.Errorf("%q was read as %v, which is %q", raw, id, id.uri())
		}
	})
}
