package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// The files of a proof, apart from the released ones.
const (
	ManifestFile   = "manifest.json"
	SignaturesFile = "signatures.json"
	ledgerFile     = "ledger.jsonl"
	certFile       = "certificate.json"
	schemaFile     = "model/schema.yaml"
)

// rowsFiles are the names of a run's rows in each form. A run has one of them.
var rowsFiles = []string{"synthetic." + tabular.CSV, "synthetic." + tabular.Parquet}

// maxManifest bounds the size of a manifest, in bytes: it has a line of about 150 bytes for each file.
const maxManifest = 1 << 20

// Manifest lists the files that a run releases.
type Manifest struct {
	Run   string `json:"run"`
	Rows  int    `json:"rows"`
	Files []File `json:"files"` // in the order of their names
}

// File is a released file. Name is its path in the folder, with slashes.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hex
}

// ErrManifest matches, with errors.Is, the error that a manifest is malformed, or that a file differs from its line.
var ErrManifest = errors.New("not the files of the manifest")

// MakeManifest reads files, by their names in a folder, and lists them.
func MakeManifest(run string, rows int, folder string, names []string) (Manifest, error) {
	m := Manifest{Run: run, Rows: rows}
	names = slices.Clone(names)
	slices.Sort(names)
	for _, name := range names {
		f, err := listed(name, filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil {
			return m, fmt.Errorf("list the files of the run: %w", err)
		}
		m.Files = append(m.Files, f)
	}
	return m, m.validate()
}

// listed returns a file on disk under its name in a list.
func listed(name, path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	sum, n, err := digest(f)
	return File{Name: name, Bytes: n, SHA256: sum}, errors.Join(err, f.Close())
}

func digest(r io.Reader) (sum string, n int64, err error) {
	h := sha256.New()
	n, err = io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// Canonical returns the only valid text of a manifest.
func (m Manifest) Canonical() ([]byte, error) {
	raw, err := json.MarshalIndent(m, "", "  ")
	return append(raw, '\n'), err
}

// ParseManifest reads the text of a manifest, and refuses any other text with the same meaning.
func ParseManifest(raw []byte) (Manifest, error) {
	m, err := parse[Manifest](raw)
	if err != nil {
		return m, fmt.Errorf("%w: %s: %w; get the file again", ErrManifest, ManifestFile, err)
	}
	return m, nil
}

func (m Manifest) validate() error {
	switch {
	case m.Run == "" || m.Rows < 1:
		return fmt.Errorf("%d rows of run %q", m.Rows, m.Run)
	case len(m.Files) == 0:
		return errors.New("it lists no file")
	}
	return validFiles(m.Files)
}

// validFiles refuses a list of files that is not in the order of names, or has invalid names or digests.
func validFiles(files []File) error {
	for i, f := range files {
		switch raw, err := hex.DecodeString(f.SHA256); {
		case !fs.ValidPath(f.Name) || strings.ContainsAny(f.Name, "\\:") || f.Name == "." || !printable(f.Name):
			return fmt.Errorf("%q is not the name of a file in a folder", f.Name)
		case i > 0 && files[i-1].Name >= f.Name:
			return fmt.Errorf("%q is listed twice, or not in sorted order", f.Name)
		case f.Bytes < 0 || err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != f.SHA256:
			return fmt.Errorf("%q has an invalid length or SHA-256", f.Name)
		}
	}
	return nil
}

// printable tells whether a name is one line, and looks to a reader as it is.
func printable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// ReadManifest reads the manifest of a folder, which must be the one that the certificate names. It does not
// read the files. It also returns the manifest's text.
func ReadManifest(folder fs.FS, c certificate.Certificate) (m Manifest, raw []byte, err error) {
	raw, err = readFile(folder, ManifestFile, maxManifest)
	if err == nil {
		m, err = ParseManifest(raw)
	}
	switch {
	case err != nil:
	case sumOf(raw) != c.ManifestSHA256:
		err = fmt.Errorf("%w: %s does not match the certificate: one of the two was altered or replaced; get the "+
			"folder again", ErrManifest, ManifestFile)
	case m.Run != c.Run || m.Rows != c.Rows:
		err = fmt.Errorf("%w: %d rows of run %q, but the certificate says %d of run %q", ErrManifest, m.Rows, m.Run,
			c.Rows, c.Run)
	case !m.Has(schemaFile) || m.RowsFile() == "":
		err = fmt.Errorf("%w: it must list %s and one of %s", ErrManifest, schemaFile,
			strings.Join(rowsFiles, " and "))
	}
	return m, raw, err
}

// RowsFile is the name of the file with the rows, empty if there is none, or if there are two forms.
func (m Manifest) RowsFile() string {
	listed := slices.DeleteFunc(slices.Clone(rowsFiles), func(name string) bool { return !m.Has(name) })
	if len(listed) != 1 {
		return ""
	}
	return listed[0]
}

// Has says whether a file is listed.
func (m Manifest) Has(name string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == name })
}

// Check compares the files of a folder with the list.
func (m Manifest) Check(folder fs.FS) error {
	for _, f := range m.Files {
		if err := f.Check(folder); err != nil {
			return err
		}
	}
	return nil
}

// Check compares a file of a folder with its line in the manifest.
func (f File) Check(folder fs.FS) error {
	r, err := folder.Open(f.Name)
	if err != nil {
		return fmt.Errorf("%w: %s is missing: %w", ErrManifest, f.Name, err)
	}
	defer r.Close()
	sum, n, err := digest(io.LimitReader(r, f.Bytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: read %s: %w", ErrManifest, f.Name, err)
	case n != f.Bytes || sum != f.SHA256:
		return fmt.Errorf("%w: %s was altered or replaced; it is not the file that the run released", ErrManifest,
			f.Name)
	}
	return nil
}
