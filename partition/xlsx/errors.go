package xlsx

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrDamaged says that the bytes are not those of a workbook, or not all of them.
var ErrDamaged = errors.New("the workbook is damaged")

// ErrUnsupported says that the file may be good but is not read here.
var ErrUnsupported = errors.New("the workbook is of a form that is not read")

// ErrArchive says that the file is an archive of other files.
var ErrArchive = errors.New("a zip archive that is no workbook")

// CellError is what is wrong with one cell, without its value.
type CellError struct {
	Column       int // from 0
	Problem, Fix string
}

// Error gives one line.
func (e *CellError) Error() string {
	return fmt.Sprintf("column %d: %s; %s", e.Column+1, e.Problem, e.Fix)
}

// CellErrors are what is wrong with cells of one row, which are empty in it.
type CellErrors []*CellError

// Error gives the first one.
func (e CellErrors) Error() string { return e[0].Error() }

// Unwrap gives all of them.
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

// readError is what zip or XML could not read, whose own words may hold a part of a cell; what the file system
// said stays what it is.
func readError(what string, err error) error {
	switch {
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrUnsupported), errors.As(err, new(*fs.PathError)):
		return err
	default:
		return damaged("%s is broken or cut off", what)
	}
}
