package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrManifestChanged says that a node returned with a different partition manifest.
var ErrManifestChanged = errors.New("the partition manifest changed")

// MostUnits is the largest number of privacy units of a node that keeps its rows in memory, MostStreamed that of a
// node that streams, which answers no fits. Sums over this many units are within what aggregators accept, so none is
// refused because of its records.
const (
	MostUnits    = 1 << 24
	MostStreamed = 1 << 27
)

// ErrTooManyUnits says that there are more units than a node may have.
var ErrTooManyUnits = errors.New("more privacy units than a node may hold")

// ErrTooManyPartitions says that there are more partitions than privacy units.
var ErrTooManyPartitions = errors.New("more partitions than privacy units")

// JoinFirst joins n errors, but of many only the first ones; it is nil without any. at returns an error.
func JoinFirst(n int, at func(i int) error) error {
	const most = 20
	var all []error
	for i := range min(n, most) {
		all = append(all, at(i))
	}
	if n > most {
		all = append(all, fmt.Errorf("and %d more, shown after these are corrected", n-most))
	}
	return errors.Join(all...)
}

// InputError is a problem of a schema, a table, a key or a manifest file. It says where it is and how to fix it, and
// never contains a cell's value.
type InputError struct {
	File   string // as the caller named it; empty without a name
	Line   int    // 1-based line of the file, 0 if unknown
	Row    int    // 1-based data row without the header, 0 if not about a row
	Column string // a column of the schema, empty if not about a column

	Problem   string // what is wrong
	Fix       string // what to do
	SchemaFix string // what to change in the schema otherwise; empty if no change would help
	Err       error  // the cause, or nil
}

// Error returns one line: place, problem, cause and fix.
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
	if advice := e.Advice(); advice != "" {
		text += "; " + advice
	}
	return text
}

// Advice is what to do, for the owner of the schema.
func (e *InputError) Advice() string { return Advice(e.Fix, e.SchemaFix, false) }

// AskOperator words the advice for a site that shares its schema.
func (e *InputError) AskOperator() { e.Fix, e.SchemaFix = Advice(e.Fix, e.SchemaFix, true), "" }

// Advice joins what to do about an input with what to change in the schema. A site that shares the schema with others
// cannot change it.
func Advice(fix, schemaFix string, shared bool) string {
	switch {
	case schemaFix == "":
		return fix
	case shared:
		return fix + "; all sites share the schema: if it is wrong, ask the study's operator"
	}
	return fix + ", or " + schemaFix
}

// AskOperator words the advice in an error about records, and in those that it wraps, for a site that shares its
// schema. It returns the error.
func AskOperator(err error) error {
	if e, advises := err.(interface{ AskOperator() }); advises {
		e.AskOperator()
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		AskOperator(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			AskOperator(each)
		}
	}
	return err
}

// Unwrap returns the cause, for errors.Is with fs.ErrNotExist and the like.
func (e *InputError) Unwrap() error { return e.Err }

// WithoutPath drops the path of a file error, because InputError names the file itself.
func WithoutPath(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// ErrChanged says that a file has changed since it was opened.
var ErrChanged = errors.New("the file was changed after it was opened; start again, and do not change the files")
