// Package mapped has arrays in a file on disk that the system maps into memory. Unused parts take no memory, so
// rows that do not fit into memory can be used like others.
//
// Only the owner can read the file. It is unlinked as soon as it is created, so it is gone when it is closed and
// when the process dies.
package mapped

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// Array is an array of n elements, all zero at first. Elements must not contain pointers. The slice is valid until
// Close.
type Array[E any] struct {
	Of   []E
	raw  []byte
	file *os.File
}

// zeros fills new files.
var zeros [1 << 20]byte

// New creates the file in a folder and writes all of it, so that a full disk fails here and not later.
func New[E any](dir string, n int) (_ *Array[E], err error) {
	var none E
	a := &Array[E]{Of: []E{}}
	bytes := n * int(unsafe.Sizeof(none))
	if bytes == 0 {
		return a, nil
	}
	if a.file, err = os.CreateTemp(dir, ".records-*"); err != nil { // mode 0600
		return nil, fmt.Errorf("create a file for records: %w; make the folder writable", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write a file for records: %w; free some space", err)
			err = errors.Join(err, a.file.Close())
		}
	}()
	if err := os.Remove(a.file.Name()); err != nil {
		return nil, err
	}
	for left := bytes; left > 0; left -= len(zeros) {
		if _, err := a.file.Write(zeros[:min(left, len(zeros))]); err != nil {
			return nil, err
		}
	}
	if a.raw, err = mapFile(a.file, bytes); err != nil {
		return nil, err
	}
	a.Of = unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(a.raw))), n)
	return a, nil
}

// Seal makes the array read-only: the system ends a process that writes to it.
func (a *Array[E]) Seal() error {
	if a.raw == nil {
		return nil
	}
	return protect(a.raw)
}

// Close releases the array. Its slice must not be used afterwards.
func (a *Array[E]) Close() error {
	if a == nil || a.raw == nil {
		return nil
	}
	raw := a.raw
	a.raw, a.Of = nil, nil
	return errors.Join(unmap(raw), a.file.Close())
}
