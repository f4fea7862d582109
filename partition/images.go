package partition

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Images are labelled images of one shape. Image i's pixels, row by row with the
// channels of a pixel together, are Pixels[i*size:(i+1)*size].
type Images struct {
	Shape   Image
	Pixels  []byte
	Classes []int
}

// Size returns the number of bytes of an image.
func (s Image) Size() int { return s.Height * s.Width * s.Channels }

// Len returns the number of images.
func (x *Images) Len() int { return len(x.Classes) }

// Image returns image i. The slice is x's own.
func (x *Images) Image(i int) []byte {
	size := x.Shape.Size()
	return x.Pixels[i*size : (i+1)*size]
}

// Subset returns copies of the given images, in that order.
func (x *Images) Subset(rows []int) *Images {
	out := &Images{Shape: x.Shape, Pixels: make([]byte, 0, len(rows)*x.Shape.Size()), Classes: make([]int, 0, len(rows))}
	for _, i := range rows {
		out.Pixels = append(out.Pixels, x.Image(i)...)
		out.Classes = append(out.Classes, x.Classes[i])
	}
	return out
}

// The magic numbers of idx files of unsigned bytes in one, three and four
// dimensions (LeCun, Cortes, Burges: the MNIST database).
const (
	idxLabels = 0x0801
	idxGrey   = 0x0803
	idxColour = 0x0804 // images, rows, columns, channels
)

// maxIDXClasses is how many classes a byte can tell apart.
const maxIDXClasses = 256

// maxImageBytes bounds what is read of images into memory.
const maxImageBytes = 4 << 30

// ReadIDX reads a file of images and one of their labels, gzipped or not, as the
// schema describes them. Errors are *InputError.
func ReadIDX(s *Schema, images, labels string) (*Images, error) {
	if s.Format != "idx" {
		return nil, &InputError{File: images, Problem: fmt.Sprintf("the schema's format is %s, not idx", s.Format), Mend: "use a schema of images"}
	}
	x := &Images{Shape: *s.Image}
	if err := readIDX(images, "images", "check path and permissions", func(r io.Reader, name string) (err error) {
		x.Pixels, err = decodeImages(r, name, x.Shape)
		return err
	}); err != nil {
		return nil, err
	}
	classes := len(s.Classes())
	if err := readIDX(labels, "labels", "put the labels of the images there", func(r io.Reader, name string) (err error) {
		x.Classes, err = decodeLabels(r, name, classes)
		return err
	}); err != nil {
		return nil, err
	}
	if n := len(x.Pixels) / x.Shape.Size(); n != len(x.Classes) {
		return nil, &InputError{File: labels, Problem: fmt.Sprintf("%d labels for %d images", len(x.Classes), n), Mend: "name the labels that belong to the images"}
	}
	return x, nil
}

func readIDX(path, what, mend string, decode func(r io.Reader, name string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return &InputError{File: path, Problem: "cannot read the " + what, Mend: mend, Err: withoutPath(err)}
	}
	defer f.Close()
	plain, err := openPlain(f, path)
	if err != nil {
		return err
	}
	return decode(plain, path)
}

// decodeImages reads images of the given shape.
func decodeImages(r io.Reader, name string, shape Image) ([]byte, error) {
	magic, n, err := idxStart(r, name)
	if err != nil {
		return nil, err
	}
	dimensions := map[uint32]int{idxGrey: 2, idxColour: 3}[magic]
	if dimensions == 0 {
		return nil, notIDX(name, "images")
	}
	got := Image{Channels: 1}
	for _, d := range []*int{&got.Height, &got.Width, &got.Channels}[:dimensions] {
		var v uint32
		if err := binary.Read(r, binary.BigEndian, &v); err != nil {
			return nil, cutIDX(name, err)
		}
		*d = int(v)
	}
	if got != shape {
		return nil, &InputError{
			File: name, Problem: fmt.Sprintf("images of %d x %d with %d channels; the schema says %d x %d with %d", got.Height, got.Width, got.Channels, shape.Height, shape.Width, shape.Channels),
			Mend: "use the schema of these images",
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
			return nil, &InputError{File: name, Row: i + 1, Problem: fmt.Sprintf("a label beyond the schema's %d classes", classes), Mend: "use the schema of these images"}
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

// idxBytes reads n bytes and makes sure that nothing follows. Memory grows with
// what is there, whatever the file claims.
func idxBytes(r io.Reader, name string, n uint64) ([]byte, error) {
	if n > maxImageBytes {
		return nil, &InputError{File: name, Problem: fmt.Sprintf("%d bytes of images are more than %d GiB", n, maxImageBytes>>30), Mend: "split the file"}
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(n)+1))
	switch {
	case err != nil:
		return nil, cutIDX(name, err)
	case uint64(len(raw)) < n:
		return nil, cutIDX(name, io.ErrUnexpectedEOF)
	case uint64(len(raw)) > n:
		return nil, &InputError{File: name, Problem: "the file is longer than it says", Mend: "copy it again"}
	}
	return raw, nil
}

func notIDX(name, what string) error {
	return &InputError{File: name, Problem: "not an idx file of " + what, Mend: "name the file of " + what + " in the idx format of unsigned bytes"}
}

func cutIDX(name string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &InputError{File: name, Problem: "the file ends too early", Mend: "copy it again"}
	}
	return &InputError{File: name, Problem: "broken gzip data", Mend: mendGzip, Err: err}
}

// WriteIDX writes the images and their classes in the idx format.
func WriteIDX(images, labels io.Writer, x *Images) error {
	head := []uint32{idxGrey, uint32(x.Len()), uint32(x.Shape.Height), uint32(x.Shape.Width)}
	if x.Shape.Channels != 1 {
		head[0] = idxColour
		head = append(head, uint32(x.Shape.Channels))
	}
	if err := writeIDX(images, head, x.Pixels); err != nil {
		return err
	}
	classes := make([]byte, x.Len())
	for i, c := range x.Classes {
		if c < 0 || c > 255 {
			return fmt.Errorf("write idx: class %d does not fit a byte", c)
		}
		classes[i] = byte(c)
	}
	return writeIDX(labels, []uint32{idxLabels, uint32(x.Len())}, classes)
}

func writeIDX(w io.Writer, head []uint32, body []byte) error {
	b := bufio.NewWriter(w)
	if err := binary.Write(b, binary.BigEndian, head); err != nil {
		return fmt.Errorf("write idx: %w", err)
	}
	if _, err := b.Write(body); err != nil {
		return fmt.Errorf("write idx: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write idx: %w", err)
	}
	return nil
}
