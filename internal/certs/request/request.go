// Package request lets a site ask an authority for a certificate: [New] makes a key and a request, [Read] checks a
// request at the authority, and [Install] installs the issued certificate. The key never leaves the site.
package request

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// ErrNotAcceptable: a file is not a certificate request, or asks for something that is not allowed.
var ErrNotAcceptable = errors.New("request not acceptable")

// refuse says why a request is not acceptable.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotAcceptable}, args...)...)
}

// maxRequest bounds a file from outside; a request has some 500 bytes.
const maxRequest = 64 << 10

// Request is a site's request: a certificate for its identity and its key, and nothing else.
type Request struct {
	Identity certs.Identity
	// Hosts are the hosts at which an aggregator is reached; nil for other roles.
	Hosts []string
	// Fingerprint is the SHA-256 of the public key in hex. The requester sees the same, so that people can compare
	// them.
	Fingerprint string

	PublicKey crypto.PublicKey
}

// Read reads and checks a request in a file. The error matches ErrNotAcceptable if it asks for anything but an
// identity.
func Read(path string) (*Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; check the path", certs.ErrMissing, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	q, err := Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return q, nil
}

// Parse is [Read] for PEM text with exactly one block.
func Parse(raw []byte) (*Request, error) {
	if len(raw) > maxRequest {
		return nil, refuse("more than %d bytes", maxRequest)
	}
	block, rest := pem.Decode(raw)
	switch {
	case block == nil:
		return nil, refuse("it has no PEM block; send the file that `conclave site request` wrote")
	case block.Type != pemfile.CertificateRequest:
		return nil, refuse("it is a %q, not a %q; send the file that `conclave site request` wrote, never a "+
			"key", block.Type, pemfile.CertificateRequest)
	case len(bytes.TrimSpace(rest)) > 0 || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("-----BEGIN")):
		return nil, refuse("it has extra content; send the file as `conclave site request` wrote it")
	}
	return parse(block.Bytes)
}

func parse(der []byte) (*Request, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAcceptable, err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: it is not signed by its own key: %w", ErrNotAcceptable, err)
	}
	if err := onlyExtensions(csr.RawTBSCertificateRequest); err != nil {
		return nil, err
	}
	q := &Request{PublicKey: csr.PublicKey}
	if err := q.readNames(csr.Extensions); err != nil {
		return nil, err
	}
	if err := q.checkSubject(csr.Subject); err != nil {
		return nil, err
	}
	switch key := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize < 256 {
			return nil, refuse("its key is on the curve %s; use P-256, P-384 or P-521", key.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return nil, refuse("its key is %s; use ECDSA with P-256, P-384 or P-521, or Ed25519", csr.PublicKeyAlgorithm)
	}
	q.Fingerprint, err = certs.Fingerprint(csr.PublicKey)
	return q, err
}

var (
	oidExtensionRequest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}
	oidSubjectAltName   = asn1.ObjectIdentifier{2, 5, 29, 17}
	// extensionNames are extensions that a person may ask for by mistake. Errors show others by number.
	extensionNames = map[string]string{
		"2.5.29.19":         "basic constraints (to be an authority)",
		"2.5.29.15":         "key usage",
		"2.5.29.37":         "extended key usage",
		"2.5.29.30":         "name constraints",
		"2.5.29.18":         "issuer alternative names",
		"2.5.29.31":         "distribution points of revocation lists",
		"2.5.29.32":         "certificate policies",
		"1.3.6.1.5.5.7.1.1": "authority information access",
	}
	attributeNames = map[string]string{
		"1.2.840.113549.1.9.7": "a challenge password",
		"1.2.840.113549.1.9.2": "an unstructured name",
	}
)

// onlyExtensions refuses all attributes of a request except one list of extensions. The x509 package ignores unknown
// ones, which would pass unseen.
func onlyExtensions(tbs []byte) error {
	var info struct {
		Raw        asn1.RawContent
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	if _, err := asn1.Unmarshal(tbs, &info); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAcceptable, err)
	}
	for i, raw := range info.Attributes {
		var a struct {
			ID     asn1.ObjectIdentifier
			Values []asn1.RawValue `asn1:"set"`
		}
		if rest, err := asn1.Unmarshal(raw.FullBytes, &a); err != nil || len(rest) > 0 {
			return refuse("attribute %d is malformed", i+1)
		}
		if !a.ID.Equal(oidExtensionRequest) {
			return refuse("it has %s; request only an identity",
				named(attributeNames, "attribute", a.ID))
		}
		if i > 0 || len(a.Values) != 1 {
			return refuse("it has several lists of extensions")
		}
	}
	return nil
}

func named(names map[string]string, kind string, id asn1.ObjectIdentifier) string {
	if name, ok := names[id.String()]; ok {
		return name
	}
	return kind + " " + id.String()
}

// readNames reads the identity, and an aggregator's hosts, from the only extension that a request may have.
func (q *Request) readNames(extensions []pkix.Extension) error {
	var names []asn1.RawValue
	for _, e := range extensions {
		if !e.Id.Equal(oidSubjectAltName) {
			return refuse("it asks for %s; request only an identity",
				named(extensionNames, "extension", e.Id))
		}
		if rest, err := asn1.Unmarshal(e.Value, &names); err != nil || len(rest) > 0 {
			return refuse("its names are malformed")
		}
	}
	var uris, hosts []string
	for _, n := range names {
		if n.Class != asn1.ClassContextSpecific {
			return refuse("its names are malformed")
		}
		switch n.Tag {
		case 6:
			uris = append(uris, string(n.Bytes))
		case 2:
			hosts = append(hosts, string(n.Bytes))
		case 7:
			if len(n.Bytes) != net.IPv4len && len(n.Bytes) != net.IPv6len {
				return refuse("an IP address of %d bytes", len(n.Bytes))
			}
			hosts = append(hosts, net.IP(n.Bytes).String())
		case 1:
			return refuse("it has the mail address %q; request only an identity", n.Bytes)
		default:
			return refuse("it has a name of kind %d, which is neither URI nor host; request only an identity", n.Tag)
		}
	}
	if len(uris) != 1 {
		return refuse("it has %d URIs %q; want one, %s://<role>/<name>", len(uris), uris, certs.Scheme)
	}
	return q.setNames(uris[0], hosts)
}

func (q *Request) setNames(uri string, hosts []string) error {
	u, err := url.Parse(uri)
	if err != nil {
		return fmt.Errorf("%w: its URI %q: %w", ErrNotAcceptable, uri, err)
	}
	if q.Identity, err = certs.IdentityOf(&x509.Certificate{URIs: []*url.URL{u}}); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAcceptable, err)
	}
	// Exactly: equivalent URIs may be written in several ways.
	if want := q.Identity.URI().String(); uri != want {
		return refuse("its URI is %q; write %q", uri, want)
	}
	if err := q.Identity.CheckSite(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAcceptable, err)
	}
	if q.Identity.Role != certs.RoleAggregator && len(hosts) > 0 {
		return refuse("it has the host %q, but hosts are for aggregators only, and this is a %s", hosts[0],
			q.Identity.Role)
	}
	if _, _, err := certs.SplitHosts(q.Identity.Role, hosts); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAcceptable, err)
	}
	q.Hosts = hosts
	return nil
}

// checkSubject accepts no subject, or the one that is issued.
func (q *Request) checkSubject(s pkix.Name) error {
	if len(s.Names) == 0 {
		return nil
	}
	want := q.Identity.Subject()
	if len(s.Names) == 1 && slices.ContainsFunc(s.Names, func(n pkix.AttributeTypeAndValue) bool {
		return n.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) && n.Value == want.CommonName
	}) {
		return nil
	}
	return refuse("its subject is %q; leave it empty, or write CN=%s", s.String(), want.CommonName)
}

// CheckFingerprint compares the request's fingerprint with one that somebody read out: 64 hex digits, with or without
// groups.
func (q *Request) CheckFingerprint(told string) error {
	plain := strings.ToLower(strings.NewReplacer(" ", "", ":", "").Replace(told))
	if len(plain) != len(q.Fingerprint) || strings.Trim(plain, "0123456789abcdef") != "" {
		return fmt.Errorf("%q is not a fingerprint; give all %d hex digits that `conclave site request` printed",
			told, len(q.Fingerprint))
	}
	if plain != q.Fingerprint {
		return fmt.Errorf("the request has another key, with the fingerprint %s; do not approve it",
			certs.SpellFingerprint(q.Fingerprint))
	}
	return nil
}
