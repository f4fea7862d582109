package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// SiteFiles are the files of one identity at its site. Only Request leaves it, and Cert
// comes back.
type SiteFiles struct {
	Key     string `json:"key"`
	NextKey string `json:"next_key"` // of a renewal, until its certificate is installed
	Request string `json:"request"`
	Cert    string `json:"cert"`
	CA      string `json:"ca"`
}

// FilesAtSite names the files of an identity in a site's folder.
func FilesAtSite(dir string, role Role, name string) SiteFiles {
	base := filepath.Join(dir, string(role)+"-"+name)
	ca, _ := caFiles(dir)
	return SiteFiles{Key: base + ".key", NextKey: base + "-next.key", Request: base + ".csr", Cert: base + ".crt", CA: ca}
}

// KeyChoice says which key a request is for.
type KeyChoice int

const (
	// FirstKey makes a key; there must be none.
	FirstKey KeyChoice = iota
	// SameKey asks for a further certificate for the key that is there.
	SameKey
	// NextKey makes a further key, which takes the place of the first when its
	// certificate is installed.
	NextKey
)

// NewRequest writes a request for a certificate (PKCS#10) into dir, with a key of the
// choice, and returns what it asks for. The key is made here, with mode 0600, and is never
// overwritten; the error matches ErrExists then. A request that is there is replaced by
// another one of the same name.
func NewRequest(dir string, role Role, name string, hosts []string, choice KeyChoice) (*Request, error) {
	id := Identity{Role: role, Name: name}
	if err := errors.Join(id.validate(), id.checkSite()); err != nil {
		return nil, err
	}
	if role != RoleAggregator && len(hosts) > 0 {
		return nil, fmt.Errorf("hosts belong to an aggregator, nobody dials a %s; leave them out", role)
	}
	ips, names, err := splitHosts(role, hosts)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the site's certificate: %w", err)
	}
	files := FilesAtSite(dir, role, name)
	key, err := chosenKey(files, choice)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: id.subject(), URIs: []*url.URL{id.uri()}, IPAddresses: ips, DNSNames: names,
	}, key)
	if err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	if err := replacePEM(files.Request, requestBlock, der); err != nil {
		return nil, err
	}
	return parseRequest(der)
}

func chosenKey(files SiteFiles, choice KeyChoice) (crypto.Signer, error) {
	if choice == SameKey {
		return loadKey(files.Key)
	}
	path := files.Key
	if choice == NextKey {
		if _, err := os.Stat(files.Key); err != nil {
			return nil, fmt.Errorf("%w: %w; nothing is there to be renewed: make a first request", ErrMissing, err)
		}
		path = files.NextKey
	}
	if err := absent(path); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return key, writeKey(path, key)
}

// loadKey reads a private key in PKCS#8, as this package writes it, or in the forms of
// other programs.
func loadKey(path string) (crypto.Signer, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w; nothing is there to be renewed: make a first request", ErrMissing, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w; check that this user may read it", ErrMissing, err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s: %w: no PEM block in it", path, ErrMalformed)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrMalformed, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: %w: the key cannot sign", path, ErrMalformed)
	}
	return signer, nil
}
