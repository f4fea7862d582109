package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
)

// ErrDamaged says that the bytes are not a complete Parquet file.
var ErrDamaged = errors.New("the Parquet file is damaged")

// ErrUnsupported says that the file may be valid but uses an unsupported feature.
var ErrUnsupported = errors.New("this form of Parquet is not supported")

// PlaceError says where in the file the cause was found.
type PlaceError struct {
	Group  int // row group, from 1
	Column string
	Err    error
}

// Error returns one line.
func (e *PlaceError) Error() string {
	return fmt.Sprintf("row group %d, column %q: %v", e.Group, e.Column, e.Err)
}

// Unwrap returns the cause.
func (e *PlaceError) Unwrap() error { return e.Err }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// decodeError classifies an error of the library; file system errors stay unchanged.
func decodeError(err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return damaged("%v", err)
}

// guarded calls a decoder of file bytes. On contradictory bytes the library may panic, and its assembly may read
// beyond its slices; both become errors here. The text of a panic is dropped, because an index in it may be bytes of
// a value.
func guarded(decode func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = damaged("its bytes contradict each other")
		}
	}()
	return decode()
}
