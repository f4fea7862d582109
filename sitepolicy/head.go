package sitepolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// head names the last entry before whose end no answer left. It lies in a file of its own
// and is written after each entry and before the answer goes: a ledger that ends before it
// was shortened, and what follows it was never answered for.
type head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// readHead returns nil where there is no file.
func readHead(path string) (*head, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w; let this process read it", ErrLedger, err)
	}
	h := new(head)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(h); err != nil || h.Seq == 0 || !isSHA256(h.Hash) || d.More() {
		return nil, fmt.Errorf("%w: %s does not name an entry; restore it together with the ledger from one backup", ErrLedger, path)
	}
	return h, nil
}

// write replaces the file, so that a crash leaves the old one or the new one.
func (h head) write(path string, sync func(*os.File) error) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	aside, err := os.CreateTemp(filepath.Dir(path), ".head-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(aside.Name())
	_, err = aside.Write(append(raw, '\n'))
	if err = errors.Join(err, sync(aside), aside.Close()); err != nil {
		return err
	}
	return os.Rename(aside.Name(), path)
}
