package authority

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/statelock"
)

// Events of the register.
const (
	EventIssued  = "issued"
	EventRevoked = "revoked"
)

// Entry is a line of an authority's register, issued.jsonl in its folder. Lines are only
// ever appended.
type Entry struct {
	Time  time.Time `json:"time"` // in UTC, to the second
	Event string    `json:"event"`
	// Serial is the certificate's number in hex, without leading zeros.
	Serial string     `json:"serial"`
	Role   certs.Role `json:"role,omitempty"`
	Name   string     `json:"name,omitempty"`
	Hosts  []string   `json:"hosts,omitempty"`
	// Fingerprint is the SHA-256 of its public key in hex.
	Fingerprint string    `json:"fingerprint,omitempty"`
	NotBefore   time.Time `json:"not_before,omitzero"`
	NotAfter    time.Time `json:"not_after,omitzero"`
	Reason      string    `json:"reason,omitempty"` // for a revocation
}

// moment is a time with the register's precision.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func serialText(n *big.Int) string { return n.Text(16) }

// parseSerial reads a number in hex, with or without colons.
func parseSerial(text string) (*big.Int, error) {
	n, ok := new(big.Int).SetString(strings.ReplaceAll(text, ":", ""), 16)
	if !ok || n.Sign() <= 0 || n.BitLen() > 160 {
		return nil, fmt.Errorf("serial %q is not valid; give hex digits, as printed by `conclave site list`", text)
	}
	return n, nil
}

// register is the register of an authority, open in one process at a time.
type register struct {
	path    string
	entries []Entry
	whole   int64 // length of the complete lines in bytes
}

func registerFile(dir string) string { return filepath.Join(dir, "issued.jsonl") }

// withRegister reads the register of the authority in dir and lets f append to it, while no other process can.
func withRegister(dir string, f func(*register) error) error {
	file, err := os.OpenFile(filepath.Join(dir, "issued.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		defer file.Close()
		err = statelock.Lock(file, false)
	}
	// Without locks only one person at a time may issue.
	if err != nil && !errors.Is(err, statelock.ErrUnsupported) {
		return fmt.Errorf("lock the register in %s: %w", dir, err)
	}
	r, err := readRegister(dir)
	if err != nil {
		return err
	}
	return f(r)
}

// readRegister reads a register; a missing one is empty. Text after the last newline is an incomplete write, which
// issued nothing.
func readRegister(dir string) (*register, error) {
	r := &register{path: registerFile(dir)}
	raw, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the register: %w", err)
	}
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	r.whole = int64(len(raw))
	for number := 1; len(raw) > 0; number++ {
		end := bytes.IndexByte(raw, '\n')
		var e Entry
		if err := json.Unmarshal(raw[:end], &e); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w: %w; restore the file from a backup",
				r.path, number, certs.ErrMalformed, err)
		}
		if _, err := parseSerial(e.Serial); err != nil || e.Event != EventIssued && e.Event != EventRevoked {
			return nil, fmt.Errorf("%s, line %d: %w: event %q of serial %q; restore the file from a backup, or use "+
				"the program version that wrote it", r.path, number, certs.ErrMalformed, e.Event, e.Serial)
		}
		r.entries = append(r.entries, e)
		raw = raw[end+1:]
	}
	return r, nil
}

// append writes a line to disk.
func (r *register) append(e Entry) (err error) {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode a line of the register: %w", err)
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the register: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write the register %s: %w", r.path, err)
		}
	}()
	if err := f.Truncate(r.whole); err != nil { // a truncated line
		return err
	}
	n, err := f.WriteAt(append(line, '\n'), r.whole)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	r.whole += int64(n)
	r.entries = append(r.entries, e)
	return nil
}

func (r *register) revocation(serial string) (Entry, bool) {
	for _, e := range r.entries {
		if e.Event == EventRevoked && e.Serial == serial {
			return e, true
		}
	}
	return Entry{}, false
}

// mayHold refuses a key that belongs to another identity, or that was revoked.
func (r *register) mayHold(id certs.Identity, fingerprint string) error {
	for _, e := range r.entries {
		if e.Event != EventIssued || e.Fingerprint != fingerprint {
			continue
		}
		if e.Role != id.Role || e.Name != id.Name {
			return fmt.Errorf("the key of the request belongs to %s; each name needs its own key: make a new request "+
				"with --new-key", certs.Identity{Role: e.Role, Name: e.Name})
		}
		if gone, ok := r.revocation(e.Serial); ok && gone.Reason != certs.ReasonSuperseded {
			return fmt.Errorf("%w: certificate %s of this key was revoked on %s (%s), and so was the key; make a new "+
				"request with --new-key",
				certs.ErrRevoked, e.Serial, gone.Time.Format(time.DateOnly), gone.Reason)
		}
	}
	return nil
}
