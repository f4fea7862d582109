package pemfile

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/conclave-dp/conclave/internal/certs"
)

// Absent returns an error that matches ErrExists if one of the files exists.
func Absent(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return existsError(path)
		}
	}
	return nil
}

// CreatePair writes a certificate in DER and its key, both or neither.
func CreatePair(der []byte, key crypto.Signer, certFile, keyFile string) error {
	if err := CreateKey(keyFile, key); err != nil {
		return err
	}
	if err := Create(certFile, Certificate, der, 0o644); err != nil {
		return errors.Join(err, os.Remove(keyFile))
	}
	return nil
}

// CreateKey writes a private key as PKCS#8, for the owner only.
func CreateKey(path string, key crypto.Signer) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return Create(path, PrivateKey, pkcs8, 0o600)
}

func existsError(path string) error {
	return fmt.Errorf("%s: %w; to replace it, move it away first", path, certs.ErrExists)
}

// Create writes a new file. If the file exists, even because another process was faster, the error matches
// ErrExists.
func Create(path, kind string, der []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return existsError(path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(path)))
		}
	}()
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: der}); err != nil {
		return err
	}
	return f.Sync()
}
