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

// SpellFingerprint formats a fingerprint in groups, for reading aloud.
func SpellFingerprint(fingerprint string) string {
	var groups []string
	for len(fingerprint) > 4 {
		groups = append(groups, fingerprint[:4])
		fingerprint = fingerprint[4:]
	}
	return strings.Join(append(groups, fingerprint), " ")
}

// LeastFingerprint is the smallest number of hex digits of a key's fingerprint to compare: 128 bits, too many to
// match with another key.
const LeastFingerprint = 32

// CheckFingerprint compares a fingerprint with one that a person read out: all of it, or at least LeastFingerprint
// hex digits from its start, with or without groups.
func CheckFingerprint(told, fingerprint string, least int) error {
	plain := strings.ToLower(strings.NewReplacer(" ", "", ":", "").Replace(told))
	if len(plain) < least || len(plain) > len(fingerprint) || strings.Trim(plain, "0123456789abcdef") != "" {
		want := fmt.Sprintf("at least the first %d of its %d hex digits", least, len(fingerprint))
		if least == len(fingerprint) {
			want = fmt.Sprintf("all its %d hex digits", least)
		}
		return fmt.Errorf("%q is not a fingerprint; give %s", told, want)
	}
	if !strings.HasPrefix(fingerprint, plain) {
		return fmt.Errorf("the fingerprint is %s, not %s; do not continue, and find out whose key this is",
			SpellFingerprint(fingerprint), SpellFingerprint(plain))
	}
	return nil
}
