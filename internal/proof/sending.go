package proof

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/conclave-dp/conclave/internal/certificate"
)

// Sending is the bundle of a run's folder, sent to a recipient that verifies it. Only the lists are read first,
// and little of it is in memory at a time. Its bytes are those of [Pack].
type Sending struct {
	folder fs.FS
	texts  Bundle          // files that are already read
	files  map[string]File // the others, as listed
}

// NewSending reads the lists of a folder. The errors match [ErrManifest] or [ErrSignatures], or say which file cannot
// be read.
func NewSending(folder fs.FS) (*Sending, error) {
	s := &Sending{folder: folder, texts: Bundle{}, files: map[string]File{}}
	var found Findings
	raw, err := readFile(folder, certFile, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("read the run's certificate: %w", err)
	}
	c, err := certificate.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	s.texts[certFile], found.Certificate = raw, &c
	if found.manifest, raw, err = ReadManifest(folder, c); err != nil {
		return nil, err
	}
	s.texts[ManifestFile] = raw
	if raw, err = readFile(folder, SignaturesFile, maxSignatures); err != nil {
		return nil, fmt.Errorf("read the run's signatures: %w", err)
	}
	if found.signatures, err = ParseSignatures(raw); err != nil {
		return nil, err
	}
	s.texts[SignaturesFile], s.texts[readmeFile] = raw, readme(found)
	for _, f := range slices.Concat(found.manifest.Files, found.signatures.Reports) {
		s.files[f.Name] = f
	}
	// The ledger is in no list: the certificate names its end, which the recipient compares.
	ledger, err := folder.Open(ledgerFile)
	if err != nil {
		return nil, fmt.Errorf("read the run's ledger: %w", err)
	}
	info, err := ledger.Stat()
	if err = errors.Join(err, ledger.Close()); err != nil {
		return nil, fmt.Errorf("read the run's ledger: %w", err)
	}
	s.files[ledgerFile] = File{Name: ledgerFile, Bytes: info.Size()}
	if s.Bytes() > MaxBundle {
		return nil, fmt.Errorf("the bundle would have more than %d bytes; copy the folder itself", int64(MaxBundle))
	}
	return s, nil
}

// Bytes is the size of the bundle. A zip file has, for each of its files, headers of 110 bytes with the name twice, and
// 22 bytes at its end.
func (s *Sending) Bytes() int64 {
	all := int64(22)
	for name, text := range s.texts {
		all += 110 + 2*int64(len(name)) + int64(len(text))
	}
	for name, f := range s.files {
		all += 110 + 2*int64(len(name)) + f.Bytes
	}
	return all
}

// Write writes the bundle. It fails if a file's length has changed, or if its content differs from its list.
func (s *Sending) Write(w io.Writer) error {
	names := s.texts.names()
	for name := range s.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return writeZip(w, names, s.put)
}

func (s *Sending) put(name string, w io.Writer) error {
	r := io.Reader(bytes.NewReader(s.texts[name]))
	f, listed := s.files[name]
	if !listed {
		_, err := io.Copy(w, r)
		return err
	}
	file, err := s.folder.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	r = io.TeeReader(io.LimitReader(file, f.Bytes), w)
	sum, n, err := digest(r)
	if err == nil && (n != f.Bytes || f.SHA256 != "" && sum != f.SHA256) {
		err = fmt.Errorf("%w: it was altered or replaced", ErrManifest)
	}
	return err
}
