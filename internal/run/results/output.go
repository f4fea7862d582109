package results

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Files names the files in a run's output folder. image is the schema's, nil for tables. form is the format of
// the rows.
func Files(out string, image *partition.Image, form string) map[string]string {
	files := map[string]string{
		"synthetic":   rowsPath(out, form),
		"model":       filepath.Join(out, "model"),
		"ledger":      filepath.Join(out, "ledger.jsonl"),
		"certificate": filepath.Join(out, "certificate.json"),
		"manifest":    filepath.Join(out, proof.ManifestFile),
		"signatures":  filepath.Join(out, proof.SignaturesFile),
		"report":      filepath.Join(out, "report.html"),
		"report_md":   filepath.Join(out, "report.md"),
		"report_json": filepath.Join(out, "report.json"),
	}
	if image != nil {
		kind := "idx3"
		if image.Channels != 1 {
			kind = "idx4"
		}
		files["images"] = filepath.Join(out, "synthetic-images-"+kind+"-ubyte.gz")
		files["labels"] = filepath.Join(out, "synthetic-labels-idx1-ubyte.gz")
		files["samples"] = filepath.Join(out, "samples.png")
	}
	return files
}

func rowsPath(out, form string) string { return filepath.Join(out, "synthetic."+form) }

// otherForm is the form in which the rows are not written.
func otherForm(form string) string {
	if form == tabular.CSV {
		return tabular.Parquet
	}
	return tabular.CSV
}

func StateDir(out string) string { return filepath.Join(out, "state") }

func CheckpointPath(out string) string { return filepath.Join(StateDir(out), "student.safetensors") }

// part is the path under which a file is written before it gets its name.
func part(path string) string { return path + ".part" }

// MakeOutput makes the output folder and finds anything that would prevent writing the results, before a run is
// open: afterwards its budget is spent.
func MakeOutput(out string, image *partition.Image, form string) error {
	if err := checkForeign(out, image, form); err != nil {
		return err
	}
	if err := os.MkdirAll(StateDir(out), 0o755); err != nil {
		return fmt.Errorf("create the output folder: %w; give a writable folder", err)
	}
	files := append(pipeline.ModelFiles(filepath.Join(out, "model")), CheckpointPath(out))
	folders := []string{out, StateDir(out)}
	for name, path := range Files(out, image, form) {
		if name != "model" {
			files = append(files, path, part(path))
			continue
		}
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist): // it is made at the end
		case err != nil:
			return fmt.Errorf("read the output folder: %w", err)
		case !info.IsDir():
			return fmt.Errorf("%s is a file, but must be the model's folder; move it away, or give another output "+
				"folder", path)
		default:
			folders = append(folders, path)
		}
	}
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder, but must be a file; move it away, or give another output folder",
				path)
		}
	}
	for _, dir := range folders {
		if err := probe(dir); err != nil {
			return fmt.Errorf("write to the output folder: %w; give a writable folder", err)
		}
	}
	return nil
}

// checkForeign refuses to overwrite results that no run in this folder wrote: a run makes the state folder
// before anything else.
func checkForeign(out string, image *partition.Image, form string) error {
	if _, err := os.Lstat(StateDir(out)); err == nil {
		return nil
	}
	files := Files(out, image, form)
	files["in the other form"] = rowsPath(out, otherForm(form))
	for _, path := range files {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists and does not belong to a run in this folder; move it away, or give another "+
				"output folder", path)
		}
	}
	return nil
}

// probe writes a file to a folder and removes it.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func writeText(path string, text []byte) error {
	return WriteFile(path, func(b *bytes.Buffer) error { _, err := b.Write(text); return err })
}

// File modes. Files that compare with real rows are for their owner only.
const (
	forAll  fs.FileMode = 0o644
	private fs.FileMode = 0o600
)

// WriteFile writes a file that everybody may read. A crash leaves the old or the new one.
func WriteFile(path string, fill func(*bytes.Buffer) error) error {
	return writeFile(path, forAll, fill)
}

func writeFile(path string, mode fs.FileMode, fill func(*bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// An old part may have another mode, which writing to it would keep.
	if err := os.Remove(part(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.WriteFile(part(path), b.Bytes(), mode); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.Rename(part(path), path); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
