package certs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A foreign signer is named in plain words, and the cause can still be found.
func TestAForeignSignerIsExplained(t *testing.T) {
	dir := certstest.New(t)
	node := certs.IssuedFiles(dir, certs.RoleNode, "north")
	chain := []*x509.Certificate{testkit.Value(tls.LoadX509KeyPair(node.Cert, node.Key)).Leaf}
	ca, _ := certstest.Load(t, dir)
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	like := &x509.Certificate{SerialNumber: ca.SerialNumber, RawSubject: ca.RawSubject, NotBefore: ca.NotBefore,
		NotAfter: ca.NotAfter, IsCA: true, BasicConstraintsValid: true, KeyUsage: ca.KeyUsage}
	raw := testkit.Value(x509.CreateCertificate(rand.Reader, like, like, key.Public(), key))
	namesake := x509.NewCertPool()
	namesake.AddCert(testkit.Value(x509.ParseCertificate(raw)))
	for says, roots := range map[string]*x509.CertPool{
		"with another key by an authority of the same name":   namesake,
		"by an authority whose certificate is not given here": x509.NewCertPool(),
	} {
		err := certs.VerifyChain(chain, roots, x509.ExtKeyUsageClientAuth, time.Now())
		if !errors.Is(err, certs.ErrForeign) || !errors.As(err, new(x509.UnknownAuthorityError)) {
			t.Errorf("the error is %v", err)
		}
		if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "x509") {
			t.Errorf("it says %q, want %q", err, says)
		}
	}
}
