package request

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// csr signs a request as a foreign program might.
func csr(t testing.TB, q *x509.CertificateRequest, key any) []byte {
	t.Helper()
	if key == nil {
		key = testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, q, key)
	testkit.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: pemfile.CertificateRequest, Bytes: der})
}

func uris(texts ...string) (all []*url.URL) {
	for _, text := range texts {
		all = append(all, testkit.Value(url.Parse(text)))
	}
	return all
}

// sans is an extension of names in wire form: a tag and its bytes each.
func sans(t testing.TB, names ...asn1.RawValue) pkix.Extension {
	t.Helper()
	for i := range names {
		names[i].Class = asn1.ClassContextSpecific
	}
	value, err := asn1.Marshal(names)
	testkit.Must(t, err)
	return pkix.Extension{Id: oidSubjectAltName, Value: value}
}

func uriName(text string) asn1.RawValue { return asn1.RawValue{Tag: 6, Bytes: []byte(text)} }

// attributed is a request with more attributes, signed again.
func attributed(t testing.TB, attributes ...asn1.RawValue) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	block, _ := pem.Decode(csr(t, &x509.CertificateRequest{URIs: uris("conclave://node/north")}, key))
	var whole struct {
		Info struct {
			Version            int
			Subject, PublicKey asn1.RawValue
			Attributes         []asn1.RawValue `asn1:"tag:0"`
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(block.Bytes, &whole); err != nil {
		t.Fatal(err)
	}
	whole.Info.Attributes = append(whole.Info.Attributes, attributes...)
	info, err := asn1.Marshal(whole.Info)
	testkit.Must(t, err)
	digest := sha256.Sum256(info)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	testkit.Must(t, err)
	whole.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	der, err := asn1.Marshal(whole)
	testkit.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: pemfile.CertificateRequest, Bytes: der})
}

func attribute(t testing.TB, id asn1.ObjectIdentifier, values ...any) asn1.RawValue {
	t.Helper()
	var a struct {
		ID     asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
	a.ID = id
	for _, v := range values {
		der, err := asn1.Marshal(v)
		testkit.Must(t, err)
		a.Values = append(a.Values, asn1.RawValue{FullBytes: der})
	}
	der, err := asn1.Marshal(a)
	testkit.Must(t, err)
	return asn1.RawValue{FullBytes: der}
}

// Whatever a request asks for besides its identity is refused by name.
func TestRequestsAskForAnIdentityAndNothingElse(t *testing.T) {
	north := uris("conclave://node/north")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	testkit.Must(t, err)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	testkit.Must(t, err)
	good := csr(t, &x509.CertificateRequest{URIs: north}, nil)
	extension := func(id ...int) *x509.CertificateRequest {
		return &x509.CertificateRequest{URIs: north, ExtraExtensions: []pkix.Extension{{Id: id, Value: []byte{5, 0}}}}
	}
	of := func(names ...string) []byte { return csr(t, &x509.CertificateRequest{URIs: uris(names...)}, nil) }
	written := func(names ...asn1.RawValue) []byte { // in wire form
		return csr(t, &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{sans(t, names...)}}, nil)
	}
	forged := slices.Clone(decode(good))
	at := strings.Index(string(forged), "//node/north")
	forged[at+len("//node/")] = 's'
	for name, tc := range map[string]struct {
		raw  []byte
		says string
	}{
		"CA flag":           {csr(t, extension(2, 5, 29, 19), nil), "to be an authority"},
		"key usage":         {csr(t, extension(2, 5, 29, 15), nil), "key usage"},
		"extended usage":    {csr(t, extension(2, 5, 29, 37), nil), "extended key usage"},
		"unknown extension": {csr(t, extension(1, 2, 3, 4), nil), "extension 1.2.3.4"},
		"challenge password": {attributed(t, attribute(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7},
			"secret")), "a challenge password"},
		"unknown attribute": {attributed(t, attribute(t, asn1.ObjectIdentifier{1, 2, 3}, 1)), "attribute 1.2.3"},
		"second list": {attributed(t, attribute(t, oidExtensionRequest,
			[]pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{5, 0}}})), "several lists"},
		"malformed attribute": {attributed(t, asn1.RawValue{FullBytes: []byte{4, 1, 0}}), "attribute 2 is malformed"},

		"no name":        {csr(t, &x509.CertificateRequest{}, nil), "0 URIs"},
		"two URIs":       {of("conclave://node/north", "conclave://node/south"), "2 URIs"},
		"a URI besides":  {of("conclave://node/north", "https://north.example"), "2 URIs"},
		"another scheme": {of("spiffe://node/north"), "0 URIs of the form"},
		"a host": {csr(t, &x509.CertificateRequest{URIs: north, DNSNames: []string{"agg.example"}}, nil),
			`the host "agg.example"`},
		"an address": {csr(t, &x509.CertificateRequest{URIs: north, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 7)}},
			nil), `the host "10.0.0.7"`},
		"mail": {csr(t, &x509.CertificateRequest{URIs: north, EmailAddresses: []string{"a@b"}}, nil),
			`mail address "a@b"`},
		"a name unseen": {written(uriName("conclave://node/north"), asn1.RawValue{Tag: 8, Bytes: []byte{42}}),
			"name of kind 8"},
		"unknown role":      {of("conclave://king/north"), `"king" is unknown`},
		"role in capital":   {of("conclave://NODE/north"), `"NODE" is unknown`},
		"site in capital":   {of("conclave://node/North"), "not a site name"},
		"scheme in capital": {written(uriName("CONCLAVE://node/north")), `write "conclave://node/north"`},
		"escaped":           {written(uriName("conclave://node/%6eorth")), "not of the form"},
		"fragment":          {written(uriName("conclave://node/north#")), `write "conclave://node/north"`},
		"query":             {of("conclave://node/north?x=1"), "not of the form"},
		"user":              {of("conclave://a@node/north"), "not of the form"},
		"port":              {of("conclave://node:1/north"), `"node:1" is unknown`},
		"folder":            {of("conclave://node/north/x"), "is not valid"},
		"two slashes":       {written(uriName("conclave://node//north")), "is not valid"},
		"no hosts":          {of("conclave://aggregator/a"), "needs its host names"},
		"subject": {csr(t, &x509.CertificateRequest{URIs: north, Subject: pkix.Name{CommonName: "aggregator-a"}},
			nil), "CN=node-north"},
		"subject more": {csr(t, &x509.CertificateRequest{URIs: north, Subject: pkix.Name{CommonName: "node-north",
			Organization: []string{"x"}}}, nil), "subject"},

		"RSA":   {csr(t, &x509.CertificateRequest{URIs: north}, rsaKey), "RSA"},
		"P-224": {csr(t, &x509.CertificateRequest{URIs: north}, p224), "P-224"},
		"not its key's": {pem.EncodeToMemory(&pem.Block{Type: pemfile.CertificateRequest, Bytes: forged}),
			"not signed by its own key"},
		"a key":          {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "never a key"},
		"two requests":   {slices.Concat(good, good), "extra content"},
		"text before":    {slices.Concat([]byte("north says:\n"), good), "extra content"},
		"nothing":        {nil, "no PEM block"},
		"not a request":  {pem.EncodeToMemory(&pem.Block{Type: pemfile.CertificateRequest, Bytes: []byte{48, 0}}), ""},
		"without an end": {good[:len(good)-40], "no PEM block"},
		"too large":      {make([]byte, maxRequest+1), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := Parse(tc.raw)
			if !errors.Is(err, ErrNotAcceptable) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %+v, %v; want an error that says %q", q, err, tc.says)
			}
		})
	}
	for name, want := range map[string]*x509.CertificateRequest{
		"without a subject": {URIs: north},
		"with the subject":  {URIs: north, Subject: pkix.Name{CommonName: "node-north"}},
	} {
		if q, err := Parse(csr(t, want, nil)); err != nil ||
			q.Identity != (certs.Identity{Role: certs.RoleNode, Name: "north"}) || len(q.Fingerprint) != 64 {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
}

func decode(raw []byte) []byte {
	block, _ := pem.Decode(raw)
	return block.Bytes
}

// A request's key stays where it was made and is never overwritten.
func TestRequestKeepsTheKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "north")
	first := testkit.Value(New(dir, certs.RoleNode, "north", nil, FirstKey))
	files := certs.FilesAtSite(dir, certs.RoleNode, "north")
	info := testkit.Value(os.Stat(files.Key))
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v", info.Mode())
	}
	key := testkit.Value(os.ReadFile(files.Key))
	raw := testkit.Value(os.ReadFile(files.Request))
	if strings.Contains(string(raw), "PRIVATE") {
		t.Error("a key left the site")
	}
	if q := testkit.Value(Read(files.Request)); q.Fingerprint != first.Fingerprint {
		t.Errorf("fingerprints %s and %s", q.Fingerprint, first.Fingerprint)
	}
	if _, err := New(dir, certs.RoleNode, "north", nil, FirstKey); !errors.Is(err, certs.ErrExists) {
		t.Errorf("a second first request: %v", err)
	}
	if q := testkit.Value(New(dir, certs.RoleNode, "north", nil, SameKey)); q.Fingerprint != first.Fingerprint {
		t.Error("a renewal with the same key has another one")
	}
	if q := testkit.Value(New(dir, certs.RoleNode, "north", nil, NextKey)); q.Fingerprint == first.Fingerprint {
		t.Error("a renewal with a new key has the same one")
	}
	if _, err := New(dir, certs.RoleNode, "north", nil, NextKey); !errors.Is(err, certs.ErrExists) {
		t.Errorf("the next key made twice: %v", err)
	}
	if !slices.Equal(key, testkit.Value(os.ReadFile(files.Key))) {
		t.Error("the key was overwritten")
	}
	for _, choice := range []KeyChoice{SameKey, NextKey} {
		if _, err := New(dir, certs.RoleNode, "south", nil, choice); !errors.Is(err, certs.ErrMissing) {
			t.Errorf("a renewal of nothing: %v", err)
		}
	}
	for _, bad := range []struct {
		role  certs.Role
		name  string
		hosts []string
	}{{certs.RoleNode, "North", nil}, {certs.RoleNode, "../x", nil}, {"king", "x", nil}, {certs.RoleNode, "x",
		[]string{"h"}}, {certs.RoleAggregator, "x", nil}, {certs.RoleAggregator, "x", []string{"a b"}}} {
		if _, err := New(dir, bad.role, bad.name, bad.hosts, FirstKey); err == nil {
			t.Errorf("%v: a request was made", bad)
		}
	}
}
