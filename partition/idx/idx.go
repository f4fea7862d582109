// Package idx has labelled images and their idx file format, known from the MNIST database. [Images.Table] and
// [FromTable] convert between images and tables with a schema of images.
package idx

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// The magic numbers of idx files of unsigned bytes in one, three and four
// dimensions (LeCun, Cortes, Burges: the MNIST database).
const (
	idxLabels = 0x0801
	idxGrey   = 0x0803
	idxColour = 0x0804 // images, rows, columns, channels
)

// maxImageBytes bounds how much image data is read into memory.
const maxImageBytes = 4 << 30

// Read reads a file of images and one of their labels, gzipped or not, according to the schema. Errors are
// *InputError.
func Read(s *partition.Schema, images, labels string) (*Images, error) {
	if s.Format != "idx" {
		return nil, &partition.InputError{File: images, Problem: fmt.Sprintf("the schema's format is %s, not idx",
			s.Format), Fix: "give rows as the schema says", SchemaFix: "use a schema of images"}
	}
	x := &Images{Shape: *s.Image}
	var err error
	if x.Pixels, err = readFile(images, "images", "check path and permissions", x.Shape, decodeImages); err != nil {
		return nil, err
	}
	if x.Classes, err = readFile(labels, "labels", "put the labels of the images there", len(s.Classes()),
		decodeLabels); err != nil {
		return nil, err
	}
	if n := len(x.Pixels) / x.Shape.Size(); n != len(x.Classes) {
		return nil, &partition.InputError{File: labels, Problem: fmt.Sprintf("%d labels for %d images",
			len(x.Classes), n), Fix: "give the labels of these images"}
	}
	return x, nil
}

// readFile decodes a file according to the schema; what names it in errors.
func readFile[T, S any](path, what, fix string, schema S, decode func(io.Reader, string, S) ([]T, error)) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &partition.InputError{File: path, Problem: "cannot read the " + what, Fix: fix,
			Err: partition.WithoutPath(err)}
	}
	defer f.Close()
	plain, err := partition.OpenPlain(f, path)
	if err != nil {
		return nil, err
	}
	return decode(plain, path, schema)
}

func decodeImages(r io.Reader, name string, shape partition.Image) ([]byte, error) {
	magic, n, err := idxStart(r, name)
	if err != nil {
		return nil, err
	}
	dimensions := map[uint32]int{idxGrey: 2, idxColour: 3}[magic]
	if dimensions == 0 {
		return nil, notIDX(name, "images")
	}
	got := partition.Image{Channels: 1}
	for _, d := range []*int{&got.Height, &got.Width, &got.Channels}[:dimensions] {
		var v uint32
		if err := binary.Read(r, binary.BigEndian, &v); err != nil {
			return nil, cutIDX(name, err)
		}
		*d = int(v)
	}
	if got != shape {
		return nil, &partition.InputError{
			File: name, Problem: fmt.Sprintf("images of %d x %d with %d channels; the schema says %d x %d with %d",
				got.Height, got.Width, got.Channels, shape.Height, shape.Width, shape.Channels),
			Fix: "give images as the schema says", SchemaFix: "use the schema of these images",
		}
	}
	return idxBytes(r, name, n*uint64(shape.Size()))
}

func decodeLabels(r io.Reader, name string, classes int) ([]int, error) {
	magic, n, err := idxStart(r, name)
	if err != nil {
		return nil, err
	}
	if magic != idxLabels {
		return nil, notIDX(name, "labels")
	}
	raw, err := idxBytes(r, name, n)
	if err != nil {
		return nil, err
	}
	labels := make([]int, len(raw))
	for i, v := range raw {
		if int(v) >= classes {
			return nil, &partition.InputError{File: name, Row: i + 1,
				Problem: fmt.Sprintf("a label beyond the schema's %d classes", classes),
				Fix:     "give images as the schema says", SchemaFix: "use the schema of these images"}
		}
		labels[i] = int(v)
	}
	return labels, nil
}

func idxStart(r io.Reader, name string) (magic uint32, n uint64, err error) {
	var head [2]uint32
	if err := binary.Read(r, binary.BigEndian, &head); err != nil {
		return 0, 0, cutIDX(name, err)
	}
	return head[0], uint64(head[1]), nil
}

// idxBytes reads n bytes and checks that nothing follows. It allocates as it reads, whatever the file claims.
func idxBytes(r io.Reader, name string, n uint64) ([]byte, error) {
	if n > maxImageBytes {
		return nil, &partition.InputError{File: name, Problem: fmt.Sprintf("%d bytes of images are more than %d GiB",
			n, maxImageBytes>>30), Fix: "split the file"}
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(n)+1))
	switch {
	case err != nil:
		return nil, cutIDX(name, err)
	case uint64(len(raw)) < n:
		return nil, cutIDX(name, io.ErrUnexpectedEOF)
	case uint64(len(raw)) > n:
		return nil, &partition.InputError{File: name, Problem: "the file is longer than its header " +
			"says", Fix: "copy it again"}
	}
	return raw, nil
}

func notIDX(name, what string) error {
	return &partition.InputError{File: name, Problem: "not an idx file of " + what,
		Fix: "name the file of " + what + " in the idx format of unsigned bytes"}
}

func cutIDX(name string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &partition.InputError{File: name, Problem: "the file is truncated", Fix: "copy it again"}
	}
	return &partition.InputError{File: name, Problem: "broken gzip data", Fix: partition.FixGzip, Err: err}
}

// Write writes the images and their classes in the idx format.
func Write(images, labels io.Writer, x *Images) error {
	head := []uint32{idxGrey, uint32(x.Len()), uint32(x.Shape.Height), uint32(x.Shape.Width)}
	if x.Shape.Channels != 1 {
		head[0] = idxColour
		head = append(head, uint32(x.Shape.Channels))
	}
	if err := writeFile(images, head, x.Pixels); err != nil {
		return err
	}
	classes := make([]byte, x.Len())
	for i, c := range x.Classes {
		if c < 0 || c > 255 {
			return fmt.Errorf("write idx: class %d does not fit a byte", c)
		}
		classes[i] = byte(c)
	}
	return writeFile(labels, []uint32{idxLabels, uint32(x.Len())}, classes)
}

func writeFile(w io.Writer, head []uint32, body []byte) error {
	b := bufio.NewWriter(w) // bufio keeps the first error
	_ = binary.Write(b, binary.BigEndian, head)
	_, _ = b.Write(body)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write idx: %w", err)
	}
	return nil
}

// Encode returns the two files of images, gzipped or not. The same images give the same bytes.
func Encode(x *Images, zip bool) (images, labels []byte, err error) {
	var files [2]bytes.Buffer
	if !zip {
		err = Write(&files[0], &files[1], x)
		return files[0].Bytes(), files[1].Bytes(), err
	}
	var zipped [2]*gzip.Writer
	for i := range zipped {
		zipped[i] = gzip.NewWriter(&files[i])
	}
	err = Write(zipped[0], zipped[1], x)
	for _, z := range []io.Closer{zipped[0], zipped[1]} {
		err = errors.Join(err, z.Close())
	}
	return files[0].Bytes(), files[1].Bytes(), err
}

// LabelsPath is the path of the labels of an image file: next to it, with labels instead of the last images in its
// name, and idx1 instead of idx3 or idx4. Names look like train-images-idx3-ubyte.gz.
func LabelsPath(images string) (string, error) {
	dir, base := filepath.Split(images)
	at := strings.LastIndex(base, "images")
	if at < 0 {
		return "", &partition.InputError{
			File: images, Problem: `the file's name does not contain "images", so its labels cannot be found`,
			Fix: "name the files like train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz," +
				" or a CSV file like train.csv",
		}
	}
	base = base[:at] + "labels" + base[at+len("images"):]
	if at := max(strings.LastIndex(base, "idx3"), strings.LastIndex(base, "idx4")); at >= 0 {
		base = base[:at] + "idx1" + base[at+len("idx1"):]
	}
	return dir + base, nil
}
