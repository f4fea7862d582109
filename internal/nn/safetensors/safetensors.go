// Package safetensors reads and writes named float32 tensors in the safetensors format, with an optional checksum
// ([Set.Seal]).
package safetensors

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// ErrFormat marks a file that is not a safetensors file of float32 tensors.
var ErrFormat = errors.New("not a valid safetensors file")

const maxHeader = 16 << 20

// Set is the content of a safetensors file: named float32 tensors and
// string metadata.
type Set struct {
	Metadata map[string]string
	ByName   map[string]Tensor
}

// Tensor is a dense row-major float32 array.
type Tensor struct {
	Shape []int
	Data  []float32
}

type tensorHeader struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// New returns an empty set.
func New() *Set {
	return &Set{Metadata: map[string]string{}, ByName: map[string]Tensor{}}
}

// Add puts the values of params into the set, each name behind prefix.
func (t *Set) Add(prefix string, params []tensor.Param) {
	for _, p := range params {
		t.ByName[prefix+p.Name] = Tensor{Shape: p.Shape, Data: p.Value}
	}
}

// CopyTo writes the tensors of the set into params, which must all be there
// with their shapes.
func (t *Set) CopyTo(prefix string, params []tensor.Param) error {
	for _, p := range params {
		from, ok := t.ByName[prefix+p.Name]
		if !ok {
			return fmt.Errorf("safetensors: tensor %q is missing", prefix+p.Name)
		}
		if !slices.Equal(from.Shape, p.Shape) || len(from.Data) != len(p.Value) {
			return fmt.Errorf("safetensors: tensor %q has shape %v, want %v", prefix+p.Name, from.Shape, p.Shape)
		}
		copy(p.Value, from.Data)
	}
	return nil
}

// Write writes a safetensors file: eight bytes of header length, a JSON
// header, little-endian data. Equal sets give equal bytes.
func Write(w io.Writer, t *Set) error {
	names := make([]string, 0, len(t.ByName))
	for name := range t.ByName {
		names = append(names, name)
	}
	sort.Strings(names)
	header := map[string]any{}
	if len(t.Metadata) > 0 {
		header["__metadata__"] = t.Metadata
	}
	at := 0
	for _, name := range names {
		x := t.ByName[name]
		if size, err := tensor.Size(x.Shape); err != nil || size != len(x.Data) {
			return fmt.Errorf("safetensors: tensor %q of shape %v has %d values", name, x.Shape, len(x.Data))
		}
		end := at + 4*len(x.Data)
		header[name] = tensorHeader{DType: "F32", Shape: x.Shape, Offsets: [2]int{at, end}}
		at = end
	}
	head, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("safetensors: encode header: %w", err)
	}
	for len(head)%8 != 0 {
		head = append(head, ' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(head))); err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, name := range names {
		for x := t.ByName[name].Data; len(x) > 0; { // in pieces: some tensors fill half the memory
			n := min(len(x), 1<<16)
			if _, err := w.Write(Bytes(x[:n])); err != nil {
				return err
			}
			x = x[n:]
		}
	}
	return nil
}

// Read reads a safetensors file of float32 tensors. Errors match
// [ErrFormat] when the bytes are at fault.
func Read(r io.Reader) (*Set, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, fmt.Errorf("%w: header length: %v", ErrFormat, err)
	}
	if size > maxHeader {
		return nil, fmt.Errorf("%w: header of %d bytes, want at most %d", ErrFormat, size, maxHeader)
	}
	head := make([]byte, size)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("%w: header: %v", ErrFormat, err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(head, &raw); err != nil {
		return nil, fmt.Errorf("%w: header: %v", ErrFormat, err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("safetensors: read tensors: %w", err)
	}
	t := New()
	for name, msg := range raw {
		if name == "__metadata__" {
			if err := json.Unmarshal(msg, &t.Metadata); err != nil {
				return nil, fmt.Errorf("%w: metadata: %v", ErrFormat, err)
			}
			continue
		}
		var h tensorHeader
		if err := json.Unmarshal(msg, &h); err != nil {
			return nil, fmt.Errorf("%w: tensor %q: %v", ErrFormat, name, err)
		}
		n, err := tensor.Size(h.Shape)
		if err != nil {
			return nil, fmt.Errorf("%w: tensor %q: %v", ErrFormat, name, err)
		}
		lo, hi := h.Offsets[0], h.Offsets[1]
		if h.DType != "F32" || lo < 0 || hi < lo || hi > len(body) || hi-lo != 4*n {
			return nil, fmt.Errorf("%w: tensor %q: type %s, shape %v, bytes %d to %d of %d",
				ErrFormat, name, h.DType, h.Shape, lo, hi, len(body))
		}
		data, err := Floats(body[lo:hi])
		if err != nil {
			return nil, err
		}
		t.ByName[name] = Tensor{Shape: h.Shape, Data: data}
	}
	if t.Metadata == nil {
		t.Metadata = map[string]string{}
	}
	return t, nil
}

// Bytes returns the little-endian bytes of x.
func Bytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

// Floats is the inverse of Bytes.
func Floats(b []byte) ([]float32, error) {
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not a whole number of float32 values", ErrFormat, len(b))
	}
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x, nil
}

// bufferBytes is the size of a file's buffer. A checkpoint of each round is saved, and most are small.
const bufferBytes = 1 << 16

// Save writes a safetensors file so that a crash leaves the old or the
// new one, never a part.
func Save(path string, t *Set) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), partPrefix(path)+"*")
	if err != nil {
		return fmt.Errorf("safetensors: save tensors: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("safetensors: save tensors to %s: %w", path, err)
		}
	}()
	w := bufio.NewWriterSize(f, bufferBytes)
	if err := Write(w, t); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	// The name is on disk only when the folder is.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Remove removes a file written by Save, if it exists, and parts of it that a crash left.
func Remove(path string) error {
	dir, base := filepath.Split(path)
	files, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("safetensors: remove %s: %w", path, err)
	}
	for _, f := range files {
		// What os.CreateTemp appends is a number. Names of other files may begin alike.
		number, part := strings.CutPrefix(f.Name(), partPrefix(path))
		if f.Name() != base && (!part || strings.Trim(number, "0123456789") != "") {
			continue
		}
		if removed := os.Remove(dir + f.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// partPrefix begins the name under which Save writes a file at first.
func partPrefix(path string) string { return "." + filepath.Base(path) + "-" }

// Load reads a safetensors file.
func Load(path string) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: load tensors: %w", err)
	}
	defer f.Close()
	t, err := Read(bufio.NewReaderSize(f, bufferBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}
