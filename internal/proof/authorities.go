package proof

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Authorities reads the certificates of the authorities that a reader trusts, from a PEM file.
func Authorities(path string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; give the ca.crt of the study, which each site has", path)
	}
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s has no PEM certificate; give the ca.crt of the study", path)
	}
	return roots, nil
}
