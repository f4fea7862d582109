package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// FuzzParseRequest parses bytes from outside. Whatever is accepted becomes a certificate that names only the identity
// shown, and is no authority.
func FuzzParseRequest(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "ca")
	testkit.Must(f, Create(dir))
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	basicConstraints := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{48, 3, 1, 1, 255}}
	node, student := testkit.Value(url.Parse("conclave://node/north")),
		testkit.Value(url.Parse("conclave://student/lab"))
	aggregator := testkit.Value(url.Parse("conclave://aggregator/a"))
	for _, q := range []*x509.CertificateRequest{
		{URIs: []*url.URL{node}},
		{URIs: []*url.URL{student}, Subject: pkix.Name{CommonName: "student-lab"}},
		{URIs: []*url.URL{aggregator}, DNSNames: []string{"a.example"}, IPAddresses: []net.IP{net.IPv6loopback}},
		{URIs: []*url.URL{node}, ExtraExtensions: []pkix.Extension{basicConstraints}},
		{URIs: []*url.URL{node, student}},
	} {
		der := testkit.Value(x509.CreateCertificateRequest(rand.Reader, q, key))
		raw := pem.EncodeToMemory(&pem.Block{Type: pemfile.CertificateRequest, Bytes: der})
		f.Add(raw)
		block, _ := pem.Decode(raw)
		f.Add(block.Bytes)
	}
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		// The DER bytes, and the content of the PEM text.
		for _, raw := range [][]byte{raw, pem.EncodeToMemory(&pem.Block{Type: pemfile.CertificateRequest,
			Bytes: raw})} {
			q, err := request.Parse(raw)
			if err != nil {
				if !errors.Is(err, request.ErrNotAcceptable) {
					t.Fatalf("%v", err)
				}
				continue
			}
			issued, err := newIssuance(dir, q.Identity, q.Hosts, time.Hour, time.Now())
			if err != nil {
				t.Fatalf("accepted and not issued: %v", err)
			}
			der, err := x509.CreateCertificate(rand.Reader, issued.template, issued.ca, q.PublicKey, issued.signer)
			if err != nil {
				t.Fatalf("accepted and not signed: %v", err)
			}
			c, err := x509.ParseCertificate(der)
			testkit.Must(t, err)
			id, err := certs.IdentityOf(c)
			if err != nil || id != q.Identity || c.IsCA || len(c.URIs) != 1 || len(c.EmailAddresses) > 0 ||
				len(c.DNSNames)+len(c.IPAddresses) != len(q.Hosts) {
				t.Fatalf("%+v became %v, %v: %v", q, id, c.Subject, err)
			}
		}
	})
}
