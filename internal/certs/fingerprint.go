package certs

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"
)

// Fingerprint is the SHA-256 of a public key, as SubjectPublicKeyInfo in DER, in hex.
func Fingerprint(public crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// SpellFingerprint writes a fingerprint in groups, to be read out.
func SpellFingerprint(fingerprint string) string {
	var groups []string
	for len(fingerprint) > 4 {
		groups = append(groups, fingerprint[:4])
		fingerprint = fingerprint[4:]
	}
	return strings.Join(append(groups, fingerprint), " ")
}
