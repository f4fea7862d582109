package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
)

// ErrDamaged says that the bytes are not those of a Parquet file, or not all of them.
var ErrDamaged = errors.New("the Parquet file is damaged")

// ErrUnsupported says that the file may be good but uses what is not read here.
var ErrUnsupported = errors.New("the Parquet file is of a form that is not read")

// PlaceError says in which part of the file the cause was found.
type PlaceError struct {
	Group  int // row group, from 1
	Column string
	Err    error
}

// Error gives one line.
func (e *PlaceError) Error() string {
	return fmt.Sprintf("row group %d, column %q: %v", e.Group, e.Column, e.Err)
}

// Unwrap gives the cause.
func (e *PlaceError) Unwrap() error { return e.Err }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// decodeError is what the library found; what the file system said stays what it is.
func decodeError(err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return damaged("%v", err)
}

// guarded calls what decodes bytes of the file. The library panics, and its assembly may
// read beyond its slices, where bytes contradict each other; either is an error here. What a panic
// says may hold a value's bytes as an index, and is not repeated.
func guarded(decode func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = damaged("its bytes contradict each other")
		}
	}()
	return decode()
}
