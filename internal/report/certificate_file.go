package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxCertificateBytes bounds what is read: certificates are a few kilobytes.
const maxCertificateBytes = 1 << 20

// canonical is the one text of a certificate, as WriteFile writes it.
func (c Certificate) canonical() ([]byte, error) {
	if c.Mechanisms == nil {
		c.Mechanisms = []Mechanism{}
	}
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(raw, '\n'), nil
}

// WriteFile writes the certificate, complete or not at all: a file that was
// there before stays until the new one is whole.
func (c Certificate) WriteFile(path string) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	raw, err := c.canonical()
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := replaceFile(path, raw); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	return nil
}

// ReadCertificate reads a certificate file. It accepts the text that WriteFile
// writes and no other: JSON readers disagree about keys that are repeated or
// spelled with other capitals, so that one file could show two epsilons.
func ReadCertificate(path string) (Certificate, error) {
	f, err := os.Open(path)
	if err != nil {
		return Certificate{}, fmt.Errorf("read certificate: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxCertificateBytes+1))
	if err != nil {
		return Certificate{}, fmt.Errorf("read certificate: %w", err)
	}
	c, err := ParseCertificate(raw)
	if err != nil {
		return Certificate{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseCertificate is ReadCertificate for bytes.
func ParseCertificate(raw []byte) (Certificate, error) {
	if len(raw) > maxCertificateBytes {
		return Certificate{}, fmt.Errorf("%w: larger than %d bytes", ErrCertificate, maxCertificateBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var c Certificate
	if err := decoder.Decode(&c); err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Certificate{}, fmt.Errorf("%w: there is something after its end", ErrCertificate)
	}
	if err := c.Validate(); err != nil {
		return Certificate{}, err
	}
	canonical, err := c.canonical()
	if err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	if line := differingLine(raw, canonical); line > 0 {
		return Certificate{}, fmt.Errorf("%w: line %d is not as it was written: every key stands there once, spelled and ordered as in ARCHITECTURE.md, without further white space; ask for the file again", ErrCertificate, line)
	}
	return c, nil
}

// differingLine is the first line, from 1, in which two texts differ, 0 when
// they are equal.
func differingLine(a, b []byte) int {
	if bytes.Equal(a, b) {
		return 0
	}
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	return 1 + bytes.Count(a[:same], []byte("\n"))
}

// replaceFile writes beside path and renames.
func replaceFile(path string, raw []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".certificate-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(raw); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
