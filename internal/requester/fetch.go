package requester

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/student"
)

// Fetching is a run to fetch, and the destination.
type Fetching struct {
	Run string
	// Out is a file that ends in .zip, or a folder for the files of the bundle.
	Out string
	// Authority is the path of the certificates of authorities.
	Authority string
	// Force replaces existing files, Unproven accepts a bundle that lacks a signature.
	Force, Unproven bool
	// Begin gets the size in bytes each time that the transfer starts from the beginning, and returns a writer that
	// sees the received bytes. It may be nil.
	Begin func(bytes int64) io.Writer
}

// Fetched is the result.
type Fetched struct {
	Files   int
	Bytes   int64
	Verdict proof.State // Proven, or Missing if a signature is missing
}

// Check checks everything that needs no request.
func (f Fetching) Check() error {
	if _, err := os.Lstat(f.Out); !f.Force && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out: %s already exists; give another path, or replace it with --force", f.Out)
	}
	return nil
}

func (f Fetching) packed() bool { return strings.HasSuffix(f.Out, ".zip") }

// Fetch fetches a run's bundle, and verifies it before it writes the destination.
func (f Fetching) Fetch(ctx context.Context, q *student.Queue) (Fetched, error) {
	none := Fetched{}
	at := f.Out
	if !f.packed() {
		at = strings.TrimRight(f.Out, "/") + ".zip" // next to the folder, and removed at the end
	}
	file, err := renameio.NewPendingFile(at, renameio.WithPermissions(0o644), renameio.WithTempDir(filepath.Dir(at)))
	if err != nil {
		return none, fmt.Errorf("--out: %w; give a path in a writable folder", err)
	}
	defer file.Cleanup() //nolint:errcheck // what is left is a file of no use
	size := int64(0)
	err = q.Fetch(ctx, f.Run, func(bytes int64) (io.Writer, error) {
		if bytes < 0 || bytes > proof.MaxBundle {
			return nil, fmt.Errorf("a bundle of %d bytes is not valid", bytes)
		}
		if err := file.Truncate(0); err != nil {
			return nil, err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		size = bytes
		if f.Begin == nil {
			return file, nil
		}
		return io.MultiWriter(file, f.Begin(bytes)), nil
	})
	if err != nil {
		return none, err
	}
	roots, err := proof.Authorities(f.Authority)
	if err != nil {
		return none, fmt.Errorf("tls.ca: %w", err)
	}
	known, err := q.Show(ctx, f.Run)
	if err != nil {
		return none, err
	}
	bundle, worst, err := genuine(file, size, roots, f.Run, known.GetRun().GetLedgerHead())
	if err != nil {
		return none, fmt.Errorf("the received files do not match run %q, and nothing was written: %w; have the "+
			"folder at its worker checked", f.Run, err)
	}
	if worst != proof.Proven && !f.Unproven {
		return none, fmt.Errorf("run %q is NOT PROVEN: a signature is missing, and nothing was written; ask its "+
			"sites, or accept it with --unproven", f.Run)
	}
	if f.packed() {
		err = f.place(file)
	} else {
		err = unpack(bundle, f.Out, f.Force)
	}
	if err != nil {
		return none, fmt.Errorf("write the received files: %w", err)
	}
	return Fetched{len(bundle), size, worst}, nil
}

// place moves the file to its destination. Without force it first creates an empty file there, so that a file created
// since the check is kept.
func (f Fetching) place(file *renameio.PendingFile) error {
	if f.Force {
		return file.CloseAtomicallyReplace()
	}
	free, err := os.OpenFile(f.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(free.Close(), file.CloseAtomicallyReplace()); err != nil {
		return errors.Join(err, os.Remove(f.Out))
	}
	return nil
}

// genuine parses the bundle if it belongs to a run whose last ledger entry has this hash.
func genuine(came io.ReaderAt, size int64, roots *x509.CertPool, run, head string) (proof.Bundle, proof.State, error) {
	bundle, err := proof.ReadBundle(came, size)
	if err != nil {
		return nil, "", err
	}
	found := proof.VerifyBundle(bundle, roots)
	switch {
	case found.Err() != nil:
		return nil, "", found.Err()
	case found.Run != run:
		return nil, "", fmt.Errorf("it is for run %q", found.Run)
	case found.Head != head:
		return nil, "", errors.New("its ledger ends the run with another entry than the aggregator's")
	}
	return bundle, found.Worst(), nil
}
