package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrManifestChanged says that a node came back with another partition
// manifest than it had before.
var ErrManifestChanged = errors.New("the partition manifest changed")

// MostUnits is the largest number of privacy units of a node that holds them in memory, MostStreamed that of one that
// streams, which answers no fits. Sums over so many, of what a unit may add at most, are within what aggregators take,
// so that none is refused for what the records are.
const (
	MostUnits    = 1 << 24
	MostStreamed = 1 << 27
)

// ErrTooManyUnits says that there are more than a node may hold.
var ErrTooManyUnits = errors.New("more privacy units than a node may hold")

// ErrTooManyPartitions says that there are more partitions than privacy units.
var ErrTooManyPartitions = errors.New("more partitions than privacy units")

// InputError is what is wrong with a schema, a table, a key or a manifest
// file. It says where and how to fix it, and never holds a cell's value.
type InputError struct {
	File   string // as the caller named it; empty when it has no name
	Line   int    // 1-based line of the file, 0 when unknown
	Row    int    // 1-based data row (the header is not one), 0 when it is about no row
	Column string // a column of the schema, empty when it is about no column

	Problem string // what is wrong
	Fix     string // what to do
	Err     error  // the cause, may be nil
}

// Error gives one line: place, problem, cause and fix.
func (e *InputError) Error() string {
	var place []string
	if e.File != "" {
		place = append(place, e.File)
	}
	switch {
	case e.Row > 0 && e.Line > 0:
		place = append(place, fmt.Sprintf("row %d (line %d)", e.Row, e.Line))
	case e.Row > 0:
		place = append(place, fmt.Sprintf("row %d", e.Row))
	case e.Line > 0:
		place = append(place, fmt.Sprintf("line %d", e.Line))
	}
	if e.Column != "" {
		place = append(place, fmt.Sprintf("column %q", e.Column))
	}
	text := strings.Join(place, ", ")
	if text != "" {
		text += ": "
	}
	text += e.Problem
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

// Unwrap gives the cause, for errors.Is with fs.ErrNotExist and the like.
func (e *InputError) Unwrap() error { return e.Err }

// WithoutPath drops the path of a file error, which InputError names itself.
func WithoutPath(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
