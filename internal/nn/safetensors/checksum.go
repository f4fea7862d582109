package safetensors

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
)

// ErrDamaged marks tensors that are not what was sealed.
var ErrDamaged = errors.New("the file is damaged")

// checksumKey is the metadata that holds the SHA-256 of everything else.
const checksumKey = "sha256"

// Seal puts a checksum over tensors and metadata into the metadata.
func (t *Set) Seal() error {
	sum, err := t.checksum()
	if err != nil {
		return err
	}
	t.Metadata[checksumKey] = sum
	return nil
}

// CheckSeal compares tensors and metadata with their checksum. The error
// matches [ErrDamaged] when they differ or there is none.
func (t *Set) CheckSeal() error {
	sum, err := t.checksum()
	if err != nil {
		return err
	}
	if t.Metadata[checksumKey] != sum {
		return fmt.Errorf("%w: its checksum does not agree with what it holds", ErrDamaged)
	}
	return nil
}

// checksum hashes what would be written without the checksum itself: equal sets
// give equal bytes.
func (t *Set) checksum() (string, error) {
	bare := &Set{Metadata: maps.Clone(t.Metadata), ByName: t.ByName}
	delete(bare.Metadata, checksumKey)
	h := sha256.New()
	if err := Write(h, bare); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
