package pemfile

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/conclave-dp/conclave/internal/certs"
)

// Read reads a whole file; the error matches ErrMissing.
func Read(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; check the path and the permissions", certs.ErrMissing, err)
	}
	return raw, nil
}

// Certificates returns the certificates in a PEM text that x509.CertPool.AppendCertsFromPEM accepts.
func Certificates(raw []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != Certificate || len(block.Headers) > 0 {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
	return all
}

// LoadPair reads a certificate and its key, which must belong together.
func LoadPair(certFile, keyFile string) (tls.Certificate, error) {
	certPEM, err := Read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := Read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		// crypto/tls distinguishes a mismatch from a parse error only by text.
		kind := certs.ErrMalformed
		if strings.Contains(err.Error(), "does not match") {
			kind = certs.ErrKeyMismatch
		}
		return tls.Certificate{}, fmt.Errorf("%s with %s: %w (%w); use the two files that were issued together",
			certFile, keyFile, kind, err)
	}
	return pair, nil
}

// LoadKey reads a private key in PKCS#8, as this package writes it, or in the forms of
// other programs.
func LoadKey(path string) (crypto.Signer, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w; there is nothing to renew: make a first request", certs.ErrMissing, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w; check the permissions", certs.ErrMissing, err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s: %w: no PEM block in it", path, certs.ErrMalformed)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, certs.ErrMalformed, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: %w: the key cannot sign", path, certs.ErrMalformed)
	}
	return signer, nil
}
