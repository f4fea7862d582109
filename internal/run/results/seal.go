package results

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Sealing closes a run and signs its files.
type Sealing struct {
	// Closed is the SHA-256 of the list of files with which the run was closed before; nil if it was not.
	Closed []byte
	// Close closes the run with the SHA-256 of the list of its files. It returns the hash with which the run was
	// first closed, its ledger, and signatures of the last entry.
	Close func(ctx context.Context, manifest []byte) (Ended, error)
	// Sign signs as the student; nil if the results are made without a cluster.
	Sign func(attest.Statement) (attest.Signature, error)
}

// Ended is what is known about a closed run.
type Ended struct {
	// Manifest is the hash with which the run was closed; nil if it was closed without one. It is ignored if
	// Free is set.
	Manifest   []byte
	Ledger     [][]byte
	Signatures []attest.Signature
	// Free says that the results are made from a run that was closed before, at no cost.
	Free bool
}

// sealed is a run that was closed with the list of files in its folder.
type sealed struct {
	Ended
	manifest []byte // the list
	sum      []byte // its SHA-256
}

// seal writes rows and model, lists them, and closes the run with the list. If the student was stopped after it
// closed the run with a list, and all files of that list are there, it keeps them: new files may differ in the
// last bits.
func (r *Release) seal(ctx context.Context, out map[string]string, synthetic *partition.Table) (sealed,
	*partition.Table, error) {
	if r.Sealing.Closed != nil {
		if kept, manifest := r.kept(out); kept != nil {
			ended, err := r.Sealing.Close(ctx, r.Sealing.Closed)
			return sealed{ended, manifest, r.Sealing.Closed}, kept, err
		}
	}
	if err := r.writeRows(out, synthetic); err != nil {
		return sealed{}, nil, err
	}
	m, err := proof.MakeManifest(r.Run, synthetic.Len(), r.Out, givenOut(r.Out, out))
	if err != nil {
		return sealed{}, nil, err
	}
	manifest, err := m.Canonical()
	if err != nil {
		return sealed{}, nil, err
	}
	if err := writeText(out["manifest"], manifest); err != nil {
		return sealed{}, nil, err
	}
	sum := sha256.Sum256(manifest)
	ended, err := r.Sealing.Close(ctx, sum[:])
	if err == nil && !ended.Free && len(ended.Manifest) > 0 && !bytes.Equal(ended.Manifest, sum[:]) {
		err = fmt.Errorf("run %q was closed with other files than those now in %s, which cannot be rebuilt; restore "+
			"the original %s, model and %s", r.Run, r.Out, filepath.Base(out["synthetic"]), proof.ManifestFile)
	}
	return sealed{ended, manifest, sum[:]}, synthetic, err
}

// kept returns the rows in the folder and the list of its files, if the run was closed with that list and all
// files match it; otherwise nil.
func (r *Release) kept(out map[string]string) (*partition.Table, []byte) {
	raw, err := os.ReadFile(out["manifest"])
	if sum := sha256.Sum256(raw); err != nil || !bytes.Equal(sum[:], r.Sealing.Closed) {
		return nil, nil
	}
	m, err := proof.ParseManifest(raw)
	if err != nil || m.Check(os.DirFS(r.Out)) != nil {
		return nil, nil
	}
	table, err := tabular.Read(r.Schema, out["synthetic"], tabular.Options{Weights: true})
	if err != nil {
		return nil, nil
	}
	return table, raw
}

// givenOut returns the names, in the run's folder, of the published files: rows, images and the model.
func givenOut(folder string, out map[string]string) (names []string) {
	for _, what := range []string{"synthetic", "images", "labels", "samples"} {
		if path, ok := out[what]; ok {
			names = append(names, filepath.Base(path))
		}
	}
	for _, path := range pipeline.ModelFiles(out["model"]) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			names = append(names, "model/"+filepath.Base(path))
		}
	}
	return names
}

// sign writes the signatures of the ledger's end and of manifest, certificate and reports.
func (s Sealing) sign(path string, of sealed, c certificate.Certificate, reports []proof.File) error {
	signatures := proof.Signatures{Ledger: of.Signatures, Reports: reports}
	if s.Sign != nil {
		text, err := c.Canonical()
		if err != nil {
			return err
		}
		g, err := s.Sign(proof.ReleaseOf(c.Run, of.manifest, text, reports))
		if err != nil {
			return fmt.Errorf("sign the released files: %w", err)
		}
		signatures.Release = &g
	}
	text, err := signatures.Canonical()
	if err != nil {
		return err
	}
	return writeText(path, text)
}

// EndedIn returns the end of the run whose results are in a folder.
func EndedIn(folder string) (Ended, error) {
	files := Files(folder, nil, tabular.CSV) // for any form of the rows
	raw, err := os.ReadFile(files["ledger"])
	if err != nil {
		return Ended{}, fmt.Errorf("read the ledger: %w", err)
	}
	text, err := os.ReadFile(files["signatures"])
	if err != nil {
		return Ended{}, fmt.Errorf("read the signatures of the ledger: %w", err)
	}
	signatures, err := proof.ParseSignatures(text)
	return Ended{Ledger: LedgerLines(raw), Signatures: signatures.Ledger, Free: true}, err
}
