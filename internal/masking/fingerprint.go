package masking

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Fingerprint is the SHA-256 of the public key of a certificate (PKIX, DER), written as hex.
type Fingerprint [sha256.Size]byte

// ParseFingerprint reads hex, also in groups and in upper case, as people read it aloud.
func ParseFingerprint(text string) (f Fingerprint, err error) {
	raw, err := hex.DecodeString(strings.ToLower(strings.Join(strings.Fields(text), "")))
	if err != nil || len(raw) != len(f) {
		return f, fmt.Errorf("%q is not a SHA-256 in hex; use the fingerprint that `conclave certs fingerprint` "+
			"shows for the certificate", text)
	}
	return Fingerprint(raw), nil
}

// Hex returns the fingerprint as one string of hex digits.
func (f Fingerprint) Hex() string { return hex.EncodeToString(f[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.Hex()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (f *Fingerprint) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFingerprint(string(text))
	return err
}
