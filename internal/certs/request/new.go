package request

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// KeyChoice says which key a request is for.
type KeyChoice int

const (
	// FirstKey makes a key; none may exist.
	FirstKey KeyChoice = iota
	// SameKey asks for another certificate for the existing key.
	SameKey
	// NextKey makes another key, which replaces the first when its certificate is installed.
	NextKey
)

// New writes a request for a certificate (PKCS#10) into dir, with a key of the choice, and returns its content. The
// key is made here, with mode 0600, and is never overwritten; the error then matches ErrExists. An existing request
// of the same name is replaced.
func New(dir string, role certs.Role, name string, hosts []string, choice KeyChoice) (*Request, error) {
	id := certs.Identity{Role: role, Name: name}
	if err := errors.Join(id.Validate(), id.CheckSite()); err != nil {
		return nil, err
	}
	if role != certs.RoleAggregator && len(hosts) > 0 {
		return nil, fmt.Errorf("hosts are for aggregators only, and this is a %s; leave them out", role)
	}
	ips, names, err := certs.SplitHosts(role, hosts)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder for the site's certificate: %w", err)
	}
	files := certs.FilesAtSite(dir, role, name)
	key, err := chosenKey(files, choice)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: id.Subject(), URIs: []*url.URL{id.URI()}, IPAddresses: ips, DNSNames: names,
	}, key)
	if err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	if err := pemfile.Replace(files.Request, pemfile.CertificateRequest, der); err != nil {
		return nil, err
	}
	return parse(der)
}

func chosenKey(files certs.SiteFiles, choice KeyChoice) (crypto.Signer, error) {
	if choice == SameKey {
		return pemfile.LoadKey(files.Key)
	}
	path := files.Key
	if choice == NextKey {
		if _, err := os.Stat(files.Key); err != nil {
			return nil, fmt.Errorf("%w: %w; there is nothing to renew: make a first request",
				certs.ErrMissing, err)
		}
		path = files.NextKey
	}
	if err := pemfile.Absent(path); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return key, pemfile.CreateKey(path, key)
}
