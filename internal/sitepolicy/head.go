package sitepolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// LedgerHead names an entry of a ledger, in a file of its own. That of a site's ledger names the
// last entry before whose end no answer left. It is written after each entry and before the
// answer goes: a ledger that ends before it was shortened, and what follows it was never
// answered for.
type LedgerHead struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// ReadLedgerHead reads such a file; nil where there is none.
func ReadLedgerHead(path string) (*LedgerHead, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w; let this process read it", err)
	}
	h := new(LedgerHead)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err = d.Decode(h)
	if _, more := d.Token(); err != nil || h.Seq == 0 || !isSHA256(h.Hash) || !errors.Is(more, io.EOF) {
		return nil, fmt.Errorf("%s does not name an entry of a ledger; restore all files of its folder from one backup",
			path)
	}
	return h, nil
}

// Write replaces the file, so that a crash leaves the old one or the new one.
func (h LedgerHead) Write(path string, sync func(*os.File) error) error {
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
