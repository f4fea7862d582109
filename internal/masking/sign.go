package masking

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
)

// sign signs an encoding with the key of a certificate.
func sign(key crypto.Signer, e encoding) ([]byte, error) {
	digest := e.digest()
	switch key.Public().(type) {
	case *ecdsa.PublicKey:
		return key.Sign(rand.Reader, digest[:], crypto.SHA256)
	case ed25519.PublicKey:
		return key.Sign(rand.Reader, digest[:], crypto.Hash(0))
	}
	return nil, errKeyType
}

var errKeyType = errors.New("masked runs need a certificate with an ECDSA or Ed25519 key; request one")

// verify checks a signature of an encoding by a public key (PKIX, DER).
func verify(identity []byte, e encoding, signature []byte) error {
	public, err := x509.ParsePKIXPublicKey(identity)
	if err != nil {
		return fmt.Errorf("its certificate's key cannot be read: %w", err)
	}
	digest := e.digest()
	good := false
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(k, digest[:], signature)
	case ed25519.PublicKey:
		good = ed25519.Verify(k, digest[:], signature)
	default:
		return errKeyType
	}
	if !good {
		return errors.New("the signature does not match its certificate's key")
	}
	return nil
}
