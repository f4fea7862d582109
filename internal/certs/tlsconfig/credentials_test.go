package tlsconfig

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/draws"
)

// listed are the files of an identity with the authority's list.
func listed(dir string, role certs.Role, name string) certs.Files {
	f := certs.IssuedFiles(dir, role, name)
	f.Revoked = certs.RevokedFile(dir)
	return f
}

func peerOf(t testing.TB, f certs.Files) *Peer {
	t.Helper()
	pair, err := pemfile.LoadPair(f.Cert, f.Key)
	testkit.Must(t, err)
	return NewPeer(pair.Leaf)
}

// With an unusable list neither side accepts anybody; the list is used again as soon as it is valid.
func TestListsFailClosed(t *testing.T) {
	dir, other := certstest.New(t), certstest.New(t)
	list := certs.RevokedFile(dir)
	good := testkit.Value(os.ReadFile(list))
	foreign := testkit.Value(os.ReadFile(certs.RevokedFile(other)))
	testkit.Value(authority.Revoke(dir, authority.Revocation{Serial: "77"}))
	newer := testkit.Value(os.ReadFile(list))
	server := testkit.Value(NewServerCredentials(listed(dir, certs.RoleAggregator, "agg")))
	client := testkit.Value(NewClientCredentials(listed(dir, certs.RoleNode, "north")))
	plain := testkit.Value(Client(certs.IssuedFiles(dir, certs.RoleNode, "north"), "localhost"))
	plainServer := testkit.Value(Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg")))

	ca, key := certstest.Load(t, dir)
	signed := func(change func(*x509.RevocationList)) []byte {
		l := &x509.RevocationList{Number: big.NewInt(1 << 60), ThisUpdate: time.Now().Add(-time.Hour),
			NextUpdate: time.Now().Add(time.Hour)}
		change(l)
		return testkit.Value(x509.CreateRevocationList(rand.Reader, l, ca, key))
	}
	write := func(raw []byte) func() {
		return func() {
			testkit.Must(t, pemfile.Replace(list, pemfile.RevocationList, raw))
		}
	}
	put := func(raw []byte) func() {
		return func() {
			testkit.Must(t, os.WriteFile(list+".new", raw, 0o600))
			testkit.Must(t, os.Rename(list+".new", list))
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func()
		says  string
	}{
		{"missing", func() { os.Remove(list) }, "no such file"},
		{"empty", put(nil), "no readable list"},
		{"not a list", put(testkit.Value(os.ReadFile(filepath.Join(dir, "ca.crt")))), `contains a "CERTIFICATE"`},
		{"cut off", put(newer[:len(newer)/2]), "no readable list"},
		{"from another authority", put(foreign), "certificate from another authority"},
		{"with one from another authority", put(slices.Concat(newer, foreign)), "certificate from another authority"},
		{"twice", put(slices.Concat(newer, newer)), "two lists"},
		{"older", put(good), "it is older"},
		{"a part", write(signed(func(l *x509.RevocationList) {
			l.ExtraExtensions = append(l.ExtraExtensions, deltaIndicator)
		})), "critical extension"},
		{"expired", write(signed(func(l *x509.RevocationList) { l.NextUpdate = time.Now().Add(-time.Minute) })),
			"it expired on"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spoil()
			_, serverErr, clientErr := shake(t, server.ServerTLS(), plain)
			if !errors.Is(serverErr, certs.ErrList) || !strings.Contains(serverErr.Error(), tc.says) ||
				Refusal(serverErr) != RefusedOwnFiles {
				t.Errorf("the server says %v, want %q", serverErr, tc.says)
			}
			if clientErr == nil {
				t.Error("a client was let in")
			}
			_, _, clientErr = shake(t, plainServer, client.ClientTLS("localhost"))
			if !errors.Is(clientErr, certs.ErrList) || !strings.Contains(clientErr.Error(), tc.says) {
				t.Errorf("the client says %v, want %q", clientErr, tc.says)
			}
			if err := server.Reload(); !errors.Is(err, certs.ErrList) {
				t.Errorf("Look says %v", err)
			}
			// Connected peers stay.
			if err := server.Check(peerOf(t, certs.IssuedFiles(dir, certs.RoleNode, "north"))); err != nil {
				t.Errorf("a peer that is connected: %v", err)
			}
			if tc.name == "expired" {
				return // it has the highest number
			}
			if _, err := NewServerCredentials(listed(dir, certs.RoleAggregator, "agg")); tc.name != "older" &&
				!errors.Is(err, certs.ErrList) {
				t.Errorf("a new process begins: %v", err)
			}
			put(newer)()
			if _, serverErr, clientErr := shake(t, server.ServerTLS(),
				client.ClientTLS("localhost")); serverErr != nil || clientErr != nil {
				t.Errorf("with a good list again: %v, %v", serverErr, clientErr)
			}
		})
	}
}

// Several authorities, while one replaces the other, need both lists.
func TestListsOfSeveralAuthorities(t *testing.T) {
	dir, other := certstest.New(t), certstest.New(t)
	both := func(a, b string) []byte {
		return slices.Concat(testkit.Value(os.ReadFile(a)), testkit.Value(os.ReadFile(b)))
	}
	f := listed(dir, certs.RoleAggregator, "agg")
	f.CA, f.Revoked = filepath.Join(t.TempDir(), "both.crt"), filepath.Join(t.TempDir(), "both.crl")
	write := func(path string, raw []byte) {
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	write(f.CA, both(filepath.Join(dir, "ca.crt"), filepath.Join(other, "ca.crt")))
	write(f.Revoked, testkit.Value(os.ReadFile(certs.RevokedFile(dir))))
	server := testkit.Value(Server(f))
	trusting := func(dir, name string) *tls.Config {
		n := certs.IssuedFiles(dir, certs.RoleNode, name)
		n.CA = f.CA
		return testkit.Value(Client(n, "localhost"))
	}
	if _, serverErr, _ := shake(t, server, trusting(other, "north")); !errors.Is(serverErr, certs.ErrList) ||
		!strings.Contains(serverErr.Error(), "no list from the authority") {
		t.Errorf("an authority without a list: %v", serverErr)
	}
	if _, serverErr, _ := shake(t, server, trusting(dir, "north")); serverErr != nil {
		t.Error(serverErr)
	}
	write(f.Revoked, both(certs.RevokedFile(dir), certs.RevokedFile(other)))
	if _, serverErr, _ := shake(t, server, trusting(other, "north")); serverErr != nil {
		t.Error(serverErr)
	}
	testkit.Value(authority.Revoke(other, authority.Revocation{Name: "north"}))
	write(f.Revoked, both(certs.RevokedFile(dir), certs.RevokedFile(other)))
	if _, serverErr, _ := shake(t, server, trusting(other, "north")); !errors.Is(serverErr, certs.ErrRevoked) {
		t.Errorf("revoked by the second list: %v", serverErr)
	}
	if _, serverErr, _ := shake(t, server, trusting(dir, "north")); serverErr != nil {
		t.Errorf("the same name of the first authority: %v", serverErr)
	}
}

// Revocation takes effect in handshakes of both sides at once, and for connected peers within lookEvery.
func TestRevocationTakesEffect(t *testing.T) {
	dir := certstest.New(t)
	server := testkit.Value(NewServerCredentials(listed(dir, certs.RoleAggregator, "agg")))
	client := testkit.Value(NewClientCredentials(listed(dir, certs.RoleNode, "north")))
	north, lab, agg := peerOf(t, certs.IssuedFiles(dir, certs.RoleNode, "north")), peerOf(t, certs.IssuedFiles(dir,
		certs.RoleStudent, "lab")), peerOf(t, certs.IssuedFiles(dir, certs.RoleAggregator, "agg"))
	for _, err := range []error{server.Check(north), server.Check(lab), client.Check(agg), server.Revoked(north)} {
		if err != nil {
			t.Error(err)
		}
	}
	testkit.Value(authority.Revoke(dir, authority.Revocation{Name: "north", Reason: certs.ReasonKeyCompromise}))
	took := testkit.Eventually(t, "the list to be read", func() bool { return server.Check(north) != nil })
	t.Logf("refused %v after the list was replaced", took)
	if err := server.Check(north); !errors.Is(err, certs.ErrRevoked) ||
		!strings.Contains(err.Error(), certs.ReasonKeyCompromise) {
		t.Errorf("north: %v", err)
	}
	if err := server.Revoked(north); !errors.Is(err, certs.ErrRevoked) {
		t.Errorf("north: %v", err)
	}
	if err := server.Check(lab); err != nil {
		t.Errorf("lab: %v", err)
	}
	_, serverErr, clientErr := shake(t, server.ServerTLS(), client.ClientTLS("localhost"))
	if !errors.Is(serverErr, certs.ErrRevoked) || Refusal(serverErr) != RefusedRevoked || clientErr == nil {
		t.Errorf("handshake: %v, %v", serverErr, clientErr)
	}
	if name, certificate := RefusedPeer(serverErr); name != "node/north" || len(certificate) != 64 {
		t.Errorf("it was %s, %s", name, certificate)
	}
	testkit.Value(authority.Revoke(dir, authority.Revocation{Name: "agg"}))
	if err := client.Reload(); !errors.Is(err, certs.ErrRevoked) || !strings.Contains(err.Error(), "own certificate") {
		t.Errorf("of the client's own certificate: %v", err)
	}
	if err := client.Check(agg); !errors.Is(err, certs.ErrRevoked) {
		t.Errorf("agg: %v", err)
	}
	_, _, clientErr = shake(t, testkit.Value(Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg"))),
		testkit.Value(Client(listed(dir, certs.RoleStudent, "lab"), "localhost")))
	if !errors.Is(clientErr, certs.ErrRevoked) {
		t.Errorf("a revoked server: %v", clientErr)
	}
}

// A process whose own certificate is revoked or expired notices: a client does not start, and a server accepts nobody
// until there is another certificate.
func TestTheOwnCertificateIsLookedAtToo(t *testing.T) {
	dir := certstest.New(t)
	server := testkit.Value(NewServerCredentials(listed(dir, certs.RoleAggregator, "agg")))
	north := testkit.Value(Client(certs.IssuedFiles(dir, certs.RoleNode, "north"), "localhost"))
	testkit.Value(authority.Revoke(dir, authority.Revocation{Name: "agg", Reason: certs.ReasonKeyCompromise}))
	testkit.Value(authority.Revoke(dir, authority.Revocation{Name: "lab"}))
	says := func(what string, err error, words ...string) {
		t.Helper()
		if !errors.Is(err, certs.ErrRevoked) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", what, err, word)
			}
		}
	}
	f := certs.IssuedFiles(dir, certs.RoleAggregator, "agg")
	says("a server that runs", server.Reload(), f.Cert, "own certificate", "revoked on 20",
		certs.ReasonKeyCompromise, "--new-key")
	again, err := NewServerCredentials(listed(dir, certs.RoleAggregator, "agg"))
	says("a server that begins", err, "own certificate")
	for name, credentials := range map[string]*Credentials{"running": server, "begun": again} {
		if credentials == nil {
			t.Fatalf("%s: there are no credentials", name)
		}
		if _, serverErr, clientErr := shake(t, credentials.ServerTLS(), north); Refusal(serverErr) != RefusedOwnFiles ||
			clientErr == nil {
			t.Errorf("%s, a handshake: %v, %v", name, serverErr, clientErr)
		}
	}
	_, err = Server(listed(dir, certs.RoleAggregator, "agg"))
	says("TLS of a server", err)
	credentials, err := NewClientCredentials(listed(dir, certs.RoleStudent, "lab"))
	says("a client that begins", err, "own certificate")
	if credentials != nil {
		t.Error("a client begins")
	}
	if _, err := NewServerCredentials(certs.IssuedFiles(dir, certs.RoleAggregator, "agg")); err != nil {
		t.Errorf("without a list: %v", err)
	}

	testkit.Must(t, errors.Join(os.Remove(f.Cert), os.Remove(f.Key), authority.Issue(dir, certs.RoleAggregator, "agg",
		[]string{"localhost"}, time.Hour)))
	for name, credentials := range map[string]*Credentials{"running": server, "begun": again} {
		if err := credentials.Reload(); err != nil {
			t.Errorf("%s, with another certificate: %v", name, err)
		}
		if _, serverErr, clientErr := shake(t, credentials.ServerTLS(), north); serverErr != nil || clientErr != nil {
			t.Errorf("%s, a handshake with another certificate: %v, %v", name, serverErr, clientErr)
		}
	}
	aged := certstest.Aged(t)
	old := certs.IssuedFiles(aged, certs.RoleAggregator, "old")
	if credentials, err := NewServerCredentials(old); !errors.Is(err, certs.ErrExpired) || credentials == nil ||
		!credentials.NotAfter().IsZero() {
		t.Errorf("a server whose certificate has ended: %v, %v", credentials, err)
	}
	old.Cert = filepath.Join(aged, "none.crt")
	if credentials, err := NewServerCredentials(old); !errors.Is(err, certs.ErrMissing) || credentials != nil {
		t.Errorf("a server without one: %v, %v", credentials, err)
	}
}

func TestCheckEndsWithTheCertificate(t *testing.T) {
	dir := certstest.New(t)
	server := testkit.Value(NewServerCredentials(certs.IssuedFiles(dir, certs.RoleAggregator, "agg")))
	north := peerOf(t, certs.IssuedFiles(dir, certs.RoleNode, "north"))
	if err := server.Check(north); err != nil {
		t.Error(err)
	}
	server.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if err := server.Check(north); !errors.Is(err, certs.ErrExpired) {
		t.Errorf("got %v", err)
	}
	if err := server.Revoked(north); err != nil {
		t.Errorf("expired is not revoked: %v", err)
	}
}

// Exactly the revoked certificates are refused, in whatever order they were revoked, and no later list forgets one,
// also if the register was lost.
func TestTheListIsWhatWasRevoked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ca")
	testkit.Must(t, authority.Create(dir))
	var files []certs.Files
	for i := range 6 {
		name := fmt.Sprintf("site-%d", i)
		testkit.Must(t, authority.Issue(dir, certs.RoleNode, name, nil, time.Hour))
		files = append(files, certs.IssuedFiles(dir, certs.RoleNode, name))
	}
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "agg", []string{"h"}, time.Hour))
	register := filepath.Join(dir, "issued.jsonl")
	registered := testkit.Value(os.ReadFile(register))
	draws.Costly(t, func(t *rapid.T) {
		if err := errors.Join(os.WriteFile(register, registered, 0o600),
			os.Remove(certs.RevokedFile(dir))); err != nil {
			t.Fatal(err)
		}
		testkit.Value(authority.WriteList(dir, 0))
		credentials := testkit.Value(NewServerCredentials(listed(dir, certs.RoleAggregator, "agg")))
		gone := map[int]bool{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(files)), 0, 5).Draw(t, "revoked") {
			if i == len(files) {
				if err := os.WriteFile(register, registered, 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			gone[i] = true
			pair := testkit.Value(pemfile.LoadPair(files[i].Cert, files[i].Key))
			testkit.Value(authority.Revoke(dir, authority.Revocation{Serial: pair.Leaf.SerialNumber.Text(16)}))
			if err := credentials.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		for i, f := range files {
			pair := testkit.Value(pemfile.LoadPair(f.Cert, f.Key))
			if got := credentials.Check(NewPeer(pair.Leaf)); gone[i] != errors.Is(got, certs.ErrRevoked) {
				t.Fatalf("site %d, revoked %v: %v", i, gone[i], got)
			}
		}
	})
}

// The file is replaced constantly while many check: the first revoked certificate stays revoked.
func TestCheckWhileTheListChanges(t *testing.T) {
	t.Parallel()
	dir := certstest.New(t)
	credentials := testkit.Value(NewServerCredentials(listed(dir, certs.RoleAggregator, "agg")))
	testkit.Value(authority.Revoke(dir, authority.Revocation{Name: "north"}))
	testkit.Must(t, credentials.Reload())
	north, lab := peerOf(t, certs.IssuedFiles(dir, certs.RoleNode, "north")), peerOf(t,
		certs.IssuedFiles(dir, certs.RoleStudent, "lab"))
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := credentials.Check(north); !errors.Is(err, certs.ErrRevoked) {
					t.Errorf("north: %v", err)
					return
				}
				if err := credentials.Check(lab); err != nil {
					t.Errorf("lab: %v", err)
					return
				}
			}
		})
	}
	for i := range 20 {
		testkit.Value(authority.Revoke(dir, authority.Revocation{Serial: fmt.Sprintf("%x", 1000+i)}))
		_ = credentials.Reload()
	}
	close(done)
	wg.Wait()
}

// The end of a handshake has one of few reasons, and is not a refusal if the other side only left.
func TestRefusalsHaveNames(t *testing.T) {
	dir, other := certstest.New(t), certstest.New(t)
	server := testkit.Value(Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg")))
	aged := certstest.Aged(t)
	agedServer := testkit.Value(Server(certs.IssuedFiles(aged, certs.RoleAggregator, "agg")))
	two := certificateOf(t, dir, func(c *x509.Certificate) {
		c.URIs = append(c.URIs,
			testkit.Value(url.Parse("conclave://node/south")))
	})
	unfit := certificateOf(t, dir, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	authorityOf := certs.IssuedFiles(dir, certs.RoleNode, "north")
	authorityOf.Cert, authorityOf.Key = certs.AuthorityFiles(dir)
	oldProtocol := unchecked(t, certs.IssuedFiles(dir, certs.RoleNode, "north"))
	oldProtocol.MinVersion, oldProtocol.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for _, tc := range []struct {
		name   string
		server *tls.Config
		say    func(net.Conn)
		want   string
	}{
		{"no certificate", server, handshakes(&tls.Config{InsecureSkipVerify: true, NextProtos: protocols}),
			RefusedNoCertificate},
		{"other authority", server, handshakes(unchecked(t, certs.IssuedFiles(other, certs.RoleNode, "north"))),
			RefusedAuthority},
		{"expired", agedServer, handshakes(unchecked(t, certs.IssuedFiles(aged, certs.RoleNode, "old"))),
			RefusedExpired},
		{"two URIs", server, handshakes(unchecked(t, two)), RefusedIdentity},
		{"no URI", server, handshakes(unchecked(t, authorityOf)), RefusedIdentity},
		{"for servers", server, handshakes(unchecked(t, unfit)), RefusedCertificate},
		{"TLS 1.2", server, handshakes(oldProtocol), RefusedProtocol},
		{"no TLS", server, says("GET / HTTP/1.1\r\n\r\n"), RefusedProtocol},
		{"another application", server, handshakes(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"imap"}}),
			RefusedProtocol},
		{"the client refuses", server, handshakes(testkit.Value(Client(certs.IssuedFiles(other, certs.RoleNode,
			"north"), "localhost"))), RefusedByPeer},
		{"silence", server, func(net.Conn) {}, ""},
		{"a few bytes", server, says("\x16\x03\x01"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := make(chan error, 1)
			address := listen(t, func(c net.Conn) {
				c.SetDeadline(time.Now().Add(testkit.Patience))
				got <- tls.Server(c, tc.server).Handshake()
			})
			conn := testkit.Value(net.Dial("tcp", address))
			tc.say(conn)
			conn.(*net.TCPConn).CloseWrite()
			err := testkit.Receive(t, got)
			conn.Close()
			if reason := Refusal(err); err == nil || reason != tc.want {
				t.Errorf("%v is %q, want %q", err, reason, tc.want)
			}
			if name, _ := RefusedPeer(err); name != "" {
				t.Errorf("it is said to be %s", name)
			}
			if tc.want != "" && !slices.Contains(Refusals(), tc.want) {
				t.Errorf("%s is not in the list", tc.want)
			}
		})
	}
}

func handshakes(c *tls.Config) func(net.Conn) {
	return func(conn net.Conn) { _ = tls.Client(conn, c).Handshake() }
}

func says(text string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = conn.Write([]byte(text)) }
}

// certificateOf is a certificate of the authority that Issue would not make.
func certificateOf(t *testing.T, dir string, change func(*x509.Certificate)) certs.Files {
	t.Helper()
	f := certs.IssuedFiles(dir, certs.RoleNode, "north")
	odd := filepath.Join(t.TempDir(), "odd.crt")
	testkit.Must(t, os.WriteFile(odd, testkit.Value(os.ReadFile(f.Cert)), 0o600))
	f.Cert = odd
	certstest.SignAgain(t, dir, odd, change)
	return f
}

// BenchmarkCheck measures the cost per message.
func BenchmarkCheck(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "ca")
	testkit.Must(b, authority.Create(dir))
	for _, role := range []certs.Role{certs.RoleAggregator, certs.RoleNode} {
		testkit.Must(b, authority.Issue(dir, role, "x", []string{"h"}, time.Hour))
	}
	// A thousand sites that left.
	register := testkit.Value(os.OpenFile(filepath.Join(dir, "issued.jsonl"), os.O_WRONLY|os.O_APPEND, 0))
	for i := range 1000 {
		line := authority.Entry{Time: time.Now().UTC(), Event: authority.EventRevoked, Serial: fmt.Sprintf("%x", i+1)}
		testkit.Must(b, json.NewEncoder(register).Encode(line))
	}
	testkit.Must(b, register.Close())
	testkit.Value(authority.WriteList(dir, 0))
	north := peerOf(b, certs.IssuedFiles(dir, certs.RoleNode, "x"))
	for name, f := range map[string]certs.Files{"without a list": certs.IssuedFiles(dir, certs.RoleAggregator, "x"),
		"1000 revoked": listed(dir, certs.RoleAggregator, "x")} {
		credentials, err := NewServerCredentials(f)
		testkit.Must(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testkit.Must(b, credentials.Check(north))
			}
		})
	}
	credentials, err := NewServerCredentials(listed(dir, certs.RoleAggregator, "x"))
	testkit.Must(b, err)
	b.Run("looking at the file each time", func(b *testing.B) {
		for b.Loop() {
			testkit.Must(b, credentials.revoked.refresh(credentials.loaded.authorities))
			testkit.Must(b, credentials.Check(north))
		}
	})
	b.Run("the file was replaced", func(b *testing.B) {
		for b.Loop() {
			credentials.revoked.read = nil
			testkit.Must(b, credentials.revoked.refresh(credentials.loaded.authorities))
		}
	})
}

// deltaIndicator makes a list one of changes only (RFC 5280, section 5.2.4).
var deltaIndicator = pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}
