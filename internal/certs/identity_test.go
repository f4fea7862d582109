package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestIdentityURI(t *testing.T) {
	for _, tc := range []struct {
		uris []string
		want certs.Identity // zero means refused
	}{
		{[]string{"conclave://node/north"}, certs.Identity{Role: certs.RoleNode, Name: "north"}},
		{[]string{"spiffe://other/x", "conclave://student/lab-1.b"},
			certs.Identity{Role: certs.RoleStudent, Name: "lab-1.b"}},
		{nil, certs.Identity{}},
		{[]string{"conclave://node/north", "conclave://student/north"}, certs.Identity{}},
		{[]string{"conclave://auditor/north"}, certs.Identity{}},
		{[]string{"conclave://node"}, certs.Identity{}},
		{[]string{"conclave://node/a/b"}, certs.Identity{}},
		{[]string{"conclave://node:1/north"}, certs.Identity{}},
		{[]string{"conclave://me@node/north"}, certs.Identity{}},
		{[]string{"conclave://node/north?role=student"}, certs.Identity{}},
		{[]string{"conclave://node/n%6Frth%2F"}, certs.Identity{}},
	} {
		cert := new(x509.Certificate)
		for _, raw := range tc.uris {
			cert.URIs = append(cert.URIs, testkit.Value(url.Parse(raw)))
		}
		got, err := certs.IdentityOf(cert)
		if got != tc.want || (err == nil) != (tc.want != certs.Identity{}) ||
			err != nil && !errors.Is(err, certs.ErrNoIdentity) {
			t.Errorf("%v: got %v, %v; want %v", tc.uris, got, err, tc.want)
		}
	}
}

func FuzzIdentityURI(f *testing.F) {
	for _, seed := range []string{"conclave://node/north", "conclave://student/a%2Fb", "conclave:node/x",
		"CONCLAVE://node/x", "conclave://node/x#y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		id, err := certs.IdentityOf(&x509.Certificate{URIs: []*url.URL{u}})
		if err == nil && id.URI().String() != u.String() {
			t.Errorf("%q was read as %v, which is %q", raw, id, id.URI())
		}
	})
}

func TestPeerIdentityNeedsVerification(t *testing.T) {
	dir := certstest.New(t)
	node := certs.IssuedFiles(dir, certs.RoleNode, "north")
	pair := testkit.Value(tls.LoadX509KeyPair(node.Cert, node.Key))
	state := tls.ConnectionState{HandshakeComplete: true}
	state.PeerCertificates = append(state.PeerCertificates, pair.Leaf)
	if _, err := certs.PeerIdentity(state); !errors.Is(err, certs.ErrNoIdentity) {
		t.Errorf("an unverified certificate gave %v", err)
	}
}

func TestPeerRecordNamesTheCertificate(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, authority.Create(dir))
	seen := map[string]bool{}
	for _, site := range []string{"north", "south"} {
		testkit.Must(t, authority.Issue(dir, certs.RoleNode, site, nil, time.Hour))
		files := certs.IssuedFiles(dir, certs.RoleNode, site)
		pair, err := pemfile.LoadPair(files.Cert, files.Key)
		testkit.Must(t, err)
		name, certificate := certs.PeerName(tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}})
		if name != "node/"+site || len(certificate) != 64 || seen[certificate] {
			t.Errorf("%s is recorded as %s, %s", site, name, certificate)
		}
		seen[certificate] = true
	}
	if name, certificate := certs.PeerName(tls.ConnectionState{}); name != "" || certificate != "" {
		t.Errorf("a peer without a certificate is %q, %q", name, certificate)
	}
	if name, certificate := certs.PeerName(tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{{Raw: []byte("x")}}}); name != "" || certificate == "" {
		t.Errorf("a certificate without a role is %q, %q", name, certificate)
	}
}
