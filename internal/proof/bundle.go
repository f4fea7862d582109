package proof

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

// packedAt is the date of all files: the first that a zip file can state.
var packedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Bundle has the files of a run for a recipient, by their names.
type Bundle map[string][]byte

// MaxBundle bounds a bundle and its content, in bytes: the limit of a plain zip file.
const MaxBundle = 4<<30 - 1

// ErrBundle matches, with errors.Is, the error that a file is not a bundle that [Bundle.Write] wrote.
var ErrBundle = errors.New("the bundle was changed")

// Write writes a bundle as a zip file. The same files always give the same bytes: files are in the order of their
// names, uncompressed, all of one date, without owners or comments. So packing the files again detects a bundle with
// any other content.
func (b Bundle) Write(w io.Writer) error {
	return writeZip(w, b.names(), func(name string, w io.Writer) error {
		_, err := w.Write(b[name])
		return err
	})
}

// writeZip packs files in the order of their names; put writes each of them.
func writeZip(w io.Writer, names []string, put func(name string, w io.Writer) error) error {
	z := zip.NewWriter(w)
	for _, name := range names {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: packedAt})
		if err == nil {
			err = put(name, f)
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return z.Close()
}

func (b Bundle) names() []string {
	names := make([]string, 0, len(b))
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ReadBundle reads a bundle of a size, and refuses it if packing its files again would give other bytes.
func ReadBundle(r io.ReaderAt, size int64) (Bundle, error) {
	if size > MaxBundle {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrBundle, int64(MaxBundle))
	}
	if err := boundedList(r, size); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	b := Bundle{}
	left := size // files are uncompressed: together they are no larger than the zip file
	for _, f := range z.File {
		if b[f.Name] != nil || !fs.ValidPath(f.Name) || f.Method != zip.Store {
			return nil, fmt.Errorf("%w: %q appears twice, or another program packed it: unpack it, and verify the "+
				"folder", ErrBundle, f.Name)
		}
		content, err := readAll(f, left)
		if err != nil {
			return nil, fmt.Errorf("%w: %q was altered: %w", ErrBundle, f.Name, err)
		}
		b[f.Name], left = content, left-int64(len(content))
	}
	again := &comparing{with: io.NewSectionReader(r, 0, size)}
	if err := b.Write(again); err != nil {
		return nil, fmt.Errorf("%w: the zip file's own entries were altered: %w", ErrBundle, err)
	}
	if again.n != size {
		return nil, fmt.Errorf("%w: the zip file has %d bytes more than its files need", ErrBundle, size-again.n)
	}
	return b, nil
}

// boundedList refuses a zip file whose directory, at its end, is larger than a manifest's files need. Reading
// it takes several times its size in memory.
func boundedList(r io.ReaderAt, size int64) error {
	const endBytes = 22 // without a comment
	end := make([]byte, endBytes)
	if _, err := r.ReadAt(end, max(0, size-endBytes)); err != nil {
		return fmt.Errorf("it is incomplete: %w", err)
	}
	list, from := binary.LittleEndian.Uint32(end[12:]), binary.LittleEndian.Uint32(end[16:])
	if list > maxManifest || int64(list)+int64(from)+endBytes != size {
		return errors.New("its list of files is too long or misplaced")
	}
	return nil
}

func readAll(f *zip.File, most int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(content)) > most {
		err = errors.New("it is larger than the zip file")
	}
	if content == nil {
		content = []byte{}
	}
	return content, err
}

// comparing is a writer that fails if the bytes written differ from the bytes that it reads.
type comparing struct {
	with io.Reader
	n    int64
}

func (c *comparing) Write(p []byte) (int, error) {
	have := make([]byte, len(p))
	if _, err := io.ReadFull(c.with, have); err != nil || !bytes.Equal(p, have) {
		return 0, fmt.Errorf("the bytes differ near byte %d", c.n)
	}
	c.n += int64(len(p))
	return len(p), nil
}

// Open opens a file of the bundle.
func (b Bundle) Open(name string) (fs.File, error) {
	content, ok := b[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &packed{Reader: bytes.NewReader(content), name: name}, nil
}

// packed is an open file of a bundle.
type packed struct {
	*bytes.Reader
	name string
}

func (p *packed) Stat() (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: p.name, Err: errors.ErrUnsupported}
}
func (p *packed) Close() error { return nil }
