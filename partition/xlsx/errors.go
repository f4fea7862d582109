package xlsx

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrDamaged says that the bytes are not a complete workbook.
var ErrDamaged = errors.New("the workbook is damaged")

// ErrUnsupported says that the file may be valid but is not supported.
var ErrUnsupported = errors.New("this form of workbook is not supported")

// ErrArchive says that the file is an archive of other files.
var ErrArchive = errors.New("a zip archive that is not a workbook")

// CellError is a problem of one cell, without its value.
type CellError struct {
	Column       int // from 0
	Problem, Fix string
}

// Error returns one line.
func (e *CellError) Error() string {
	return fmt.Sprintf("column %d: %s; %s", e.Column+1, e.Problem, e.Fix)
}

// CellErrors are the problems of cells in one row; these cells are returned empty.
type CellErrors []*CellError

// Error returns the first one.
func (e CellErrors) Error() string { return e[0].Error() }

// Unwrap returns all of them.
func (e CellErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i := range e {
		all[i] = e[i]
	}
	return all
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// readError is an error of zip or XML, whose own text may contain part of a cell; file system errors stay unchanged.
func readError(what string, err error) error {
	switch {
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrUnsupported), errors.As(err, new(*fs.PathError)):
		return err
	default:
		return damaged("%s is broken or cut off", what)
	}
}
