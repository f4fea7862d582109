package certificate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/renameio/v2"

	"github.com/conclave-dp/conclave/internal/ledger"
)

// maxBytes bounds the size of a certificate file; certificates have a few kilobytes.
const maxBytes = 1 << 20

// written is the content of a certificate's file.
type written struct {
	Certificate
	Note string `json:"note"`
}

// Canonical returns the only valid text of a certificate, as WriteFile writes it.
func (c Certificate) Canonical() ([]byte, error) {
	if c.Mechanisms == nil {
		c.Mechanisms = []Mechanism{}
	}
	if c.Roster == nil {
		c.Roster = []ledger.Site{}
	}
	note := SpentNote
	if c.Masked != nil {
		note += " " + MaskedNote
	}
	raw, err := json.MarshalIndent(written{c, note}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(raw, '\n'), nil
}

// WriteFile writes the certificate, readable by everybody, completely or not at all: an existing file stays
// until the new one is complete.
func (c Certificate) WriteFile(path string) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	raw, err := c.Canonical()
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// renameio.WriteFile would keep the mode of the existing file, which others may be allowed to write.
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(0o644))
	if err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	if _, err = f.Write(raw); err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err = errors.Join(err, f.Cleanup()); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	return nil
}

// Read reads a certificate file. It accepts only the text that WriteFile writes: JSON readers disagree about
// keys that are repeated or differ in capitals, so one file could show two epsilons.
func Read(path string) (Certificate, error) {
	f, err := os.Open(path)
	if err != nil {
		return Certificate{}, fmt.Errorf("read certificate: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return Certificate{}, fmt.Errorf("read certificate: %w", err)
	}
	c, err := Parse(raw)
	if err != nil {
		return Certificate{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse is Read for bytes.
func Parse(raw []byte) (Certificate, error) {
	if len(raw) > maxBytes {
		return Certificate{}, fmt.Errorf("%w: larger than %d bytes", ErrCertificate, maxBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var file written
	if err := decoder.Decode(&file); err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	c := file.Certificate
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Certificate{}, fmt.Errorf("%w: there is data after its end", ErrCertificate)
	}
	if err := c.Validate(); err != nil {
		return Certificate{}, err
	}
	canonical, err := c.Canonical()
	if err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	if line := differingLine(raw, canonical); line > 0 {
		return Certificate{}, fmt.Errorf(
			"%w: line %d was changed: keys must appear once, spelled and ordered as in docs/formats-ledger.md, "+
				"without extra white space; get the file again", ErrCertificate, line)
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
