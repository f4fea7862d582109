package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// listed are the files of an identity with the authority's list.
func listed(dir string, role Role, name string) Files {
	f := IssuedFiles(dir, role, name)
	f.Revoked = RevokedFile(dir)
	return f
}

func serialOf(t testing.TB, f Files) string {
	t.Helper()
	pair, err := loadPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return serialText(pair.Leaf.SerialNumber)
}

func peerOf(t testing.TB, f Files) *Peer {
	t.Helper()
	pair, err := loadPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return NewPeer(pair.Leaf)
}

// A list that cannot be relied on lets nobody in, on either side, and is used again as soon
// as it can.
func TestListsFailClosed(t *testing.T) {
	dir, other := newCA(t), newCA(t)
	list := RevokedFile(dir)
	good := testkit.Value(os.ReadFile(list))
	foreign := testkit.Value(os.ReadFile(RevokedFile(other)))
	testkit.Value(Revoke(dir, Revocation{Serial: "77"}))
	newer := testkit.Value(os.ReadFile(list))
	server := testkit.Value(NewServerGuard(listed(dir, RoleAggregator, "agg")))
	client := testkit.Value(NewClientGuard(listed(dir, RoleNode, "north")))
	plain := testkit.Value(ClientTLS(IssuedFiles(dir, RoleNode, "north"), "localhost"))
	plainServer := testkit.Value(ServerTLS(IssuedFiles(dir, RoleAggregator, "agg")))

	ca, key := must2(loadCA(dir, time.Now()))(t)
	signed := func(change func(*x509.RevocationList)) []byte {
		l := &x509.RevocationList{Number: big.NewInt(1 << 60), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour)}
		change(l)
		return testkit.Value(x509.CreateRevocationList(rand.Reader, l, ca, key))
	}
	write := func(raw []byte) func() {
		return func() {
			if err := replacePEM(list, listBlock, raw); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(raw []byte) func() {
		return func() {
			if err := os.WriteFile(list+".new", raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(list+".new", list); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func()
		says  string
	}{
		{"missing", func() { os.Remove(list) }, "no such file"},
		{"empty", put(nil), "no list can be read"},
		{"not a list", put(testkit.Value(os.ReadFile(filepath.Join(dir, "ca.crt")))), `holds a "CERTIFICATE"`},
		{"cut off", put(newer[:len(newer)/2]), "no list can be read"},
		{"of another authority", put(foreign), "certificate of another authority"},
		{"with one of another authority", put(slices.Concat(newer, foreign)), "certificate of another authority"},
		{"twice", put(slices.Concat(newer, newer)), "two lists"},
		{"older", put(good), "an older one"},
		{"a part", write(signed(func(l *x509.RevocationList) {
			l.ExtraExtensions = append(l.ExtraExtensions, deltaIndicator)
		})), "critical extension"},
		{"expired", write(signed(func(l *x509.RevocationList) { l.NextUpdate = time.Now().Add(-time.Minute) })), "was to be replaced by"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spoil()
			_, serverErr, clientErr := shake(t, server.ServerTLS(), plain)
			if !errors.Is(serverErr, ErrList) || !strings.Contains(serverErr.Error(), tc.says) || Refusal(serverErr) != RefusedOwnFiles {
				t.Errorf("the server says %v, want %q", serverErr, tc.says)
			}
			if clientErr == nil {
				t.Error("a client was let in")
			}
			_, _, clientErr = shake(t, plainServer, client.ClientTLS("localhost"))
			if !errors.Is(clientErr, ErrList) || !strings.Contains(clientErr.Error(), tc.says) {
				t.Errorf("the client says %v, want %q", clientErr, tc.says)
			}
			if err := server.Look(); !errors.Is(err, ErrList) {
				t.Errorf("Look says %v", err)
			}
			// Who is in stays.
			if err := server.Check(peerOf(t, IssuedFiles(dir, RoleNode, "north"))); err != nil {
				t.Errorf("a peer that is connected: %v", err)
			}
			if tc.name == "expired" {
				return // it has the highest number of all
			}
			if _, err := NewServerGuard(listed(dir, RoleAggregator, "agg")); tc.name != "older" && !errors.Is(err, ErrList) {
				t.Errorf("a new process begins: %v", err)
			}
			put(newer)()
			if _, serverErr, clientErr := shake(t, server.ServerTLS(), client.ClientTLS("localhost")); serverErr != nil || clientErr != nil {
				t.Errorf("with a good list again: %v, %v", serverErr, clientErr)
			}
		})
	}
}

func must2[A, B any](a A, b B, err error) func(*testing.T) (A, B) {
	return func(t *testing.T) (A, B) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a, b
	}
}

// Several authorities, while one takes the other's place, need the lists of both.
func TestListsOfSeveralAuthorities(t *testing.T) {
	dir, other := newCA(t), newCA(t)
	both := func(a, b string) []byte {
		return slices.Concat(testkit.Value(os.ReadFile(a)), testkit.Value(os.ReadFile(b)))
	}
	f := listed(dir, RoleAggregator, "agg")
	f.CA, f.Revoked = filepath.Join(t.TempDir(), "both.crt"), filepath.Join(t.TempDir(), "both.crl")
	write := func(path string, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(f.CA, both(filepath.Join(dir, "ca.crt"), filepath.Join(other, "ca.crt")))
	write(f.Revoked, testkit.Value(os.ReadFile(RevokedFile(dir))))
	server := testkit.Value(ServerTLS(f))
	trusting := func(dir, name string) *tls.Config {
		n := IssuedFiles(dir, RoleNode, name)
		n.CA = f.CA
		return testkit.Value(ClientTLS(n, "localhost"))
	}
	if _, serverErr, _ := shake(t, server, trusting(other, "north")); !errors.Is(serverErr, ErrList) || !strings.Contains(serverErr.Error(), "no list of the authority") {
		t.Errorf("an authority without a list: %v", serverErr)
	}
	if _, serverErr, _ := shake(t, server, trusting(dir, "north")); serverErr != nil {
		t.Error(serverErr)
	}
	write(f.Revoked, both(RevokedFile(dir), RevokedFile(other)))
	if _, serverErr, _ := shake(t, server, trusting(other, "north")); serverErr != nil {
		t.Error(serverErr)
	}
	testkit.Value(Revoke(other, Revocation{Name: "north"}))
	write(f.Revoked, both(RevokedFile(dir), RevokedFile(other)))
	if _, serverErr, _ := shake(t, server, trusting(other, "north")); !errors.Is(serverErr, ErrRevoked) {
		t.Errorf("revoked by the second list: %v", serverErr)
	}
	if _, serverErr, _ := shake(t, server, trusting(dir, "north")); serverErr != nil {
		t.Errorf("the same name of the first authority: %v", serverErr)
	}
}

// Revocation holds in handshakes of both sides at once, and for who is connected within
// lookEvery.
func TestRevocationTakesEffect(t *testing.T) {
	dir := newCA(t)
	server := testkit.Value(NewServerGuard(listed(dir, RoleAggregator, "agg")))
	client := testkit.Value(NewClientGuard(listed(dir, RoleNode, "north")))
	north, lab, agg := peerOf(t, IssuedFiles(dir, RoleNode, "north")), peerOf(t, IssuedFiles(dir, RoleStudent, "lab")), peerOf(t, IssuedFiles(dir, RoleAggregator, "agg"))
	for _, err := range []error{server.Check(north), server.Check(lab), client.Check(agg), server.Revoked(north)} {
		if err != nil {
			t.Error(err)
		}
	}
	testkit.Value(Revoke(dir, Revocation{Name: "north", Reason: ReasonKeyCompromise}))
	replaced := time.Now()
	for server.Check(north) == nil {
		if time.Since(replaced) > 5*time.Second {
			t.Fatal("nothing happens")
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("refused %v after the list was replaced", time.Since(replaced))
	if err := server.Check(north); !errors.Is(err, ErrRevoked) || !strings.Contains(err.Error(), ReasonKeyCompromise) {
		t.Errorf("north: %v", err)
	}
	if err := server.Revoked(north); !errors.Is(err, ErrRevoked) {
		t.Errorf("north: %v", err)
	}
	if err := server.Check(lab); err != nil {
		t.Errorf("lab: %v", err)
	}
	_, serverErr, clientErr := shake(t, server.ServerTLS(), client.ClientTLS("localhost"))
	if !errors.Is(serverErr, ErrRevoked) || Refusal(serverErr) != RefusedRevoked || clientErr == nil {
		t.Errorf("handshake: %v, %v", serverErr, clientErr)
	}
	if name, certificate := RefusedPeer(serverErr); name != "node/north" || len(certificate) != 64 {
		t.Errorf("it was %s, %s", name, certificate)
	}
	testkit.Value(Revoke(dir, Revocation{Name: "agg"}))
	if err := client.Look(); !errors.Is(err, ErrRevoked) || !strings.Contains(err.Error(), "own certificate") {
		t.Errorf("of the client's own certificate: %v", err)
	}
	if err := client.Check(agg); !errors.Is(err, ErrRevoked) {
		t.Errorf("agg: %v", err)
	}
	_, _, clientErr = shake(t, testkit.Value(ServerTLS(IssuedFiles(dir, RoleAggregator, "agg"))),
		testkit.Value(ClientTLS(listed(dir, RoleStudent, "lab"), "localhost")))
	if !errors.Is(clientErr, ErrRevoked) {
		t.Errorf("a revoked server: %v", clientErr)
	}
}

// A process whose own certificate is revoked, or has ended, hears so: a client does not begin,
// a server lets nobody in until another certificate is there.
func TestTheOwnCertificateIsLookedAtToo(t *testing.T) {
	dir := newCA(t)
	server := testkit.Value(NewServerGuard(listed(dir, RoleAggregator, "agg")))
	north := testkit.Value(ClientTLS(IssuedFiles(dir, RoleNode, "north"), "localhost"))
	testkit.Value(Revoke(dir, Revocation{Name: "agg", Reason: ReasonKeyCompromise}))
	testkit.Value(Revoke(dir, Revocation{Name: "lab"}))
	says := func(what string, err error, words ...string) {
		t.Helper()
		if !errors.Is(err, ErrRevoked) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", what, err, word)
			}
		}
	}
	f := IssuedFiles(dir, RoleAggregator, "agg")
	says("a server that runs", server.Look(), f.Cert, "own certificate", "revoked on 20", ReasonKeyCompromise, "--new-key")
	again, err := NewServerGuard(listed(dir, RoleAggregator, "agg"))
	says("a server that begins", err, "own certificate")
	for name, guard := range map[string]*Guard{"running": server, "begun": again} {
		if guard == nil {
			t.Fatalf("%s: there is no guard", name)
		}
		if _, serverErr, clientErr := shake(t, guard.ServerTLS(), north); Refusal(serverErr) != RefusedOwnFiles || clientErr == nil {
			t.Errorf("%s, a handshake: %v, %v", name, serverErr, clientErr)
		}
	}
	_, err = ServerTLS(listed(dir, RoleAggregator, "agg"))
	says("TLS of a server", err)
	guard, err := NewClientGuard(listed(dir, RoleStudent, "lab"))
	says("a client that begins", err, "own certificate")
	if guard != nil {
		t.Error("a client begins")
	}
	if _, err := NewServerGuard(IssuedFiles(dir, RoleAggregator, "agg")); err != nil {
		t.Errorf("without a list: %v", err)
	}

	if err := errors.Join(os.Remove(f.Cert), os.Remove(f.Key), Issue(dir, RoleAggregator, "agg", []string{"localhost"}, time.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, guard := range map[string]*Guard{"running": server, "begun": again} {
		if err := guard.Look(); err != nil {
			t.Errorf("%s, with another certificate: %v", name, err)
		}
		if _, serverErr, clientErr := shake(t, guard.ServerTLS(), north); serverErr != nil || clientErr != nil {
			t.Errorf("%s, a handshake with another certificate: %v, %v", name, serverErr, clientErr)
		}
	}
	aged := agedCA(t)
	old := IssuedFiles(aged, RoleAggregator, "old")
	if guard, err := NewServerGuard(old); !errors.Is(err, ErrExpired) || guard == nil || !guard.Until().IsZero() {
		t.Errorf("a server whose certificate has ended: %v, %v", guard, err)
	}
	old.Cert = filepath.Join(aged, "none.crt")
	if guard, err := NewServerGuard(old); !errors.Is(err, ErrMissing) || guard != nil {
		t.Errorf("a server without one: %v, %v", guard, err)
	}
}

func TestCheckEndsWithTheCertificate(t *testing.T) {
	dir := newCA(t)
	server := testkit.Value(NewServerGuard(IssuedFiles(dir, RoleAggregator, "agg")))
	north := peerOf(t, IssuedFiles(dir, RoleNode, "north"))
	if err := server.Check(north); err != nil {
		t.Error(err)
	}
	server.source.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if err := server.Check(north); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v", err)
	}
	if err := server.Revoked(north); err != nil {
		t.Errorf("expired is not revoked: %v", err)
	}
}

// Whatever is revoked in whatever order, the guard refuses these and no others, and no list
// that was written later forgets one, also where the register was lost.
func TestTheListIsWhatWasRevoked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	if err := CreateCA(dir); err != nil {
		t.Fatal(err)
	}
	var files []Files
	for i := range 6 {
		name := fmt.Sprintf("site-%d", i)
		if err := Issue(dir, RoleNode, name, nil, time.Hour); err != nil {
			t.Fatal(err)
		}
		files = append(files, IssuedFiles(dir, RoleNode, name))
	}
	if err := Issue(dir, RoleAggregator, "agg", []string{"h"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	registered := testkit.Value(os.ReadFile(registerFile(dir)))
	rapid.Check(t, func(t *rapid.T) {
		if err := errors.Join(os.WriteFile(registerFile(dir), registered, 0o600), os.Remove(RevokedFile(dir))); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteList(dir, 0); err != nil {
			t.Fatal(err)
		}
		guard, err := NewServerGuard(listed(dir, RoleAggregator, "agg"))
		if err != nil {
			t.Fatal(err)
		}
		gone := map[int]bool{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(files)), 0, 5).Draw(t, "revoked") {
			if i == len(files) {
				if err := os.WriteFile(registerFile(dir), registered, 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			gone[i] = true
			pair, err := loadPair(files[i].Cert, files[i].Key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Revoke(dir, Revocation{Serial: pair.Leaf.SerialNumber.Text(16)}); err != nil {
				t.Fatal(err)
			}
			if err := guard.Look(); err != nil {
				t.Fatal(err)
			}
		}
		for i, f := range files {
			pair, err := loadPair(f.Cert, f.Key)
			if err != nil {
				t.Fatal(err)
			}
			if got := guard.Check(NewPeer(pair.Leaf)); gone[i] != errors.Is(got, ErrRevoked) {
				t.Fatalf("site %d, revoked %v: %v", i, gone[i], got)
			}
		}
	})
}

// The file is replaced all the time while many ask: whoever was revoked first stays so.
func TestGuardWhileTheListChanges(t *testing.T) {
	dir := newCA(t)
	guard := testkit.Value(NewServerGuard(listed(dir, RoleAggregator, "agg")))
	testkit.Value(Revoke(dir, Revocation{Name: "north"}))
	if err := guard.Look(); err != nil {
		t.Fatal(err)
	}
	north, lab := peerOf(t, IssuedFiles(dir, RoleNode, "north")), peerOf(t, IssuedFiles(dir, RoleStudent, "lab"))
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
				if err := guard.Check(north); !errors.Is(err, ErrRevoked) {
					t.Errorf("north: %v", err)
					return
				}
				if err := guard.Check(lab); err != nil {
					t.Errorf("lab: %v", err)
					return
				}
			}
		})
	}
	for i := range 20 {
		testkit.Value(Revoke(dir, Revocation{Serial: fmt.Sprintf("%x", 1000+i)}))
		_ = guard.Look()
	}
	close(done)
	wg.Wait()
}

// What ended a handshake has one of few names, and is nobody's refusal where the other side
// only went away.
func TestRefusalsHaveNames(t *testing.T) {
	dir, other := newCA(t), newCA(t)
	server := testkit.Value(ServerTLS(IssuedFiles(dir, RoleAggregator, "agg")))
	aged := agedCA(t)
	agedServer := testkit.Value(ServerTLS(IssuedFiles(aged, RoleAggregator, "agg")))
	two := certificateOf(t, dir, func(c *x509.Certificate) { c.URIs = uris("conclave://node/north", "conclave://node/south") })
	unfit := certificateOf(t, dir, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	oldProtocol := unchecked(t, IssuedFiles(dir, RoleNode, "north"))
	oldProtocol.MinVersion, oldProtocol.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for _, tc := range []struct {
		name   string
		server *tls.Config
		say    func(net.Conn)
		want   string
	}{
		{"no certificate", server, handshakes(&tls.Config{InsecureSkipVerify: true, NextProtos: protocols}), RefusedNoCertificate},
		{"other authority", server, handshakes(unchecked(t, IssuedFiles(other, RoleNode, "north"))), RefusedAuthority},
		{"expired", agedServer, handshakes(unchecked(t, IssuedFiles(aged, RoleNode, "old"))), RefusedExpired},
		{"two URIs", server, handshakes(unchecked(t, two)), RefusedIdentity},
		{"for servers", server, handshakes(unchecked(t, unfit)), RefusedCertificate},
		{"TLS 1.2", server, handshakes(oldProtocol), RefusedProtocol},
		{"no TLS", server, says("GET / HTTP/1.1\r\n\r\n"), RefusedProtocol},
		{"another application", server, handshakes(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"imap"}}), RefusedProtocol},
		{"the client refuses", server,
			handshakes(testkit.Value(ClientTLS(IssuedFiles(other, RoleNode, "north"), "localhost"))), RefusedByPeer},
		{"silence", server, func(net.Conn) {}, ""},
		{"a few bytes", server, says("\x16\x03\x01"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := make(chan error, 1)
			address := listen(t, func(c net.Conn) {
				c.SetDeadline(time.Now().Add(5 * time.Second))
				got <- tls.Server(c, tc.server).Handshake()
			})
			conn := testkit.Value(net.Dial("tcp", address))
			tc.say(conn)
			conn.(*net.TCPConn).CloseWrite()
			err := <-got
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
func certificateOf(t *testing.T, dir string, change func(*x509.Certificate)) Files {
	t.Helper()
	terms := testkit.Value(newTerms(dir, Identity{RoleNode, "odd"}, nil, time.Minute, time.Now()))
	change(terms.template)
	key := testkit.Value(loadKey(IssuedFiles(dir, RoleNode, "north").Key))
	der := testkit.Value(x509.CreateCertificate(rand.Reader, terms.template, terms.ca, key.Public(), terms.signer))
	f := IssuedFiles(dir, RoleNode, "north")
	f.Cert = filepath.Join(t.TempDir(), "odd.crt")
	if err := writePEM(f.Cert, "CERTIFICATE", der, 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// BenchmarkCheck is what a message costs.
func BenchmarkCheck(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "ca")
	if err := CreateCA(dir); err != nil {
		b.Fatal(err)
	}
	for _, role := range []Role{RoleAggregator, RoleNode} {
		if err := Issue(dir, role, "x", []string{"h"}, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
	// A thousand that left.
	err := withRegister(dir, func(r *register) error {
		for i := range 1000 {
			r.entries = append(r.entries, Entry{Time: moment(time.Now()), Event: EventRevoked, Serial: fmt.Sprintf("%x", i+1)})
		}
		l, err := newLister(dir, time.Now())
		if err != nil {
			return err
		}
		_, err = l.write(r, 0)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	north := peerOf(b, IssuedFiles(dir, RoleNode, "x"))
	for name, f := range map[string]Files{"without a list": IssuedFiles(dir, RoleAggregator, "x"), "1000 revoked": listed(dir, RoleAggregator, "x")} {
		guard, err := NewServerGuard(f)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := guard.Check(north); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	guard, err := NewServerGuard(listed(dir, RoleAggregator, "x"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("looking at the file each time", func(b *testing.B) {
		for b.Loop() {
			if err := guard.source.revoked.refresh(guard.source.held.authorities); err != nil {
				b.Fatal(err)
			}
			if err := guard.Check(north); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("the file was replaced", func(b *testing.B) {
		for b.Loop() {
			guard.source.revoked.read = nil
			if err := guard.source.revoked.refresh(guard.source.held.authorities); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// deltaIndicator makes a list one of changes only (RFC 5280, section 5.2.4).
var deltaIndicator = pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}
