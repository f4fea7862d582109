package certs

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

func TestPeerRecordNamesTheCertificate(t *testing.T) {
	dir := t.TempDir()
	if err := CreateCA(dir); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, site := range []string{"north", "south"} {
		if err := Issue(dir, RoleNode, site, nil, time.Hour); err != nil {
			t.Fatal(err)
		}
		files := IssuedFiles(dir, RoleNode, site)
		pair, err := loadPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		name, certificate := PeerRecord(tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}})
		if name != "node/"+site || len(certificate) != 64 || seen[certificate] {
			t.Errorf("%s is recorded as %s, %s", site, name, certificate)
		}
		seen[certificate] = true
	}
	if name, certificate := PeerRecord(tls.ConnectionState{}); name != "" || certificate != "" {
		t.Errorf("a peer without a certificate is %q, %q", name, certificate)
	}
	if name, certificate := PeerRecord(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte("x")}}}); name != "" || certificate == "" {
		t.Errorf("a certificate without a role is %q, %q", name, certificate)
	}
}
