package queue

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
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/proof"
)

// fetching is a run that is fetched, and where to.
type fetching struct {
	run, out string
	force    bool
	unproven bool // takes what lacks a signature
}

func fetchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fetch --config student.yaml --out FILE.zip|DIR [--force] NAME",
		Short: "get the results of one of your runs from its worker",
		Long: `Gets the bundle of a finished run: rows, model, schema, certificate, ledger, signatures and the
report without real rows, from the worker that has them. Only the submitter of the run can fetch it.

The bundle is verified, as by conclave verify, before any file is written to its place: with the authority of the
configuration (tls.ca), and against the run's last entry in the aggregator's ledger.`,
		Args:              cli.OneArgument("the name of a run"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := fetching{}
	c.Flags().StringVar(&f.out, "out", "", "`path` of the bundle, ending in .zip, or of a folder for its files")
	c.Flags().BoolVar(&f.force, "force", false, "replace a file, or the files of a bundle in a folder")
	c.Flags().BoolVar(&f.unproven, "unproven", false, "accept a bundle without a signature")
	c.PreRunE = func(*cobra.Command, []string) error { return f.check() }
	return connected(c, func(ctx context.Context, q *client, name string) error {
		f.run = name
		return f.fetch(ctx, q)
	})
}

// check reports mistakes that are visible before the aggregator is asked.
func (f *fetching) check() error {
	if f.out == "" {
		return cli.Misuse("--out: name a file that ends in .zip, or a folder")
	}
	if _, err := os.Lstat(f.out); !f.force && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out: %s exists; name another path, or replace it with --force", f.out)
	}
	return nil
}

func (f *fetching) packed() bool { return strings.HasSuffix(f.out, ".zip") }

func (f *fetching) fetch(ctx context.Context, q *client) error {
	at := f.out
	if !f.packed() {
		at = strings.TrimRight(f.out, "/") + ".zip" // beside the folder, and gone at the end
	}
	file, err := renameio.NewPendingFile(at, renameio.WithPermissions(0o644), renameio.WithTempDir(filepath.Dir(at)))
	if err != nil {
		return fmt.Errorf("--out: %w; name a path in a folder that you may write to", err)
	}
	defer file.Cleanup() //nolint:errcheck // what is left is a file of no use
	var shown *progress.Bytes
	defer func() { shown.Close() }()
	size := int64(0)
	err = q.Fetch(ctx, f.run, func(bytes int64) (io.Writer, error) {
		shown.Close()
		if bytes < 0 || bytes > proof.MaxBundle {
			return nil, fmt.Errorf("a bundle of %d bytes is none", bytes)
		}
		if err := file.Truncate(0); err != nil {
			return nil, err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		size, shown = bytes, progress.NewBytes(os.Stderr, bytes)
		return io.MultiWriter(file, shown), nil
	})
	if err != nil {
		return cli.Interrupted(ctx, err, "interrupted; nothing was written")
	}
	shown.Close()
	roots, err := proof.Authorities(q.authority)
	if err != nil {
		return fmt.Errorf("tls.ca: %w", err)
	}
	known, err := q.Show(ctx, f.run)
	if err != nil {
		return err
	}
	bundle, worst, err := genuine(file, size, roots, f.run, known.GetRun().GetLedgerHead())
	if err != nil {
		return fmt.Errorf("what came is not what run %q gave out, and nothing was written: %w; have the folder at its "+
			"worker looked at", f.run, err)
	}
	if worst != proof.Proven && !f.unproven {
		return fmt.Errorf("run %q is NOT PROVEN: a signature is missing, and nothing was written; ask its sites, or "+
			"take it all the same with --unproven", f.run)
	}
	if f.packed() {
		err = f.place(file)
	} else {
		err = unpack(bundle, f.out, f.force)
	}
	if err != nil {
		return fmt.Errorf("write what came: %w", err)
	}
	return f.tell(q, len(bundle), size, worst)
}

// place puts the file where it belongs. Without force an empty one takes the place first: what somebody else put
// there since the check stays.
func (f *fetching) place(file *renameio.PendingFile) error {
	if f.force {
		return file.CloseAtomicallyReplace()
	}
	free, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(free.Close(), file.CloseAtomicallyReplace()); err != nil {
		return errors.Join(err, os.Remove(f.out))
	}
	return nil
}

// genuine returns the received bundle, if its run's last entry in the ledger has the given hash.
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
		return nil, "", fmt.Errorf("it is of run %q", found.Run)
	case found.Head != head:
		return nil, "", errors.New("its ledger ends the run with another entry than that of the aggregator")
	}
	return bundle, found.Worst(), nil
}

func (f *fetching) tell(q *client, files int, bytes int64, worst proof.State) error {
	if q.json {
		return cli.PrintJSON(struct {
			Run     string      `json:"run"`
			Files   int         `json:"files"`
			Bytes   int64       `json:"bytes"`
			Out     string      `json:"out"`
			Verdict proof.State `json:"verdict"`
		}{f.run, files, bytes, f.out, worst})
	}
	fmt.Printf("%s: %d files of run %s, %s\n", f.out, files, f.run, map[proof.State]string{
		proof.Proven:  "all of it holds",
		proof.Missing: "NOT PROVEN: a signature is missing; conclave verify says whose",
	}[worst])
	return nil
}
