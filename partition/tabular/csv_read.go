package tabular

import (
	"compress/flate"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// Options choose the rows of a file. The zero value takes them all.
type Options struct {
	// Site keeps only the rows whose column of role site says so. It has no
	// effect when the schema has no such column.
	Site string
	// From and To are a share of [0,1): a hash of each privacy unit (the unit
	// column's text where the schema has one, else the record) under a key
	// that everybody knows decides whether it is in. Shares that do not
	// overlap have no unit in common, and shares that cover [0,1) cover the
	// file. 0, 0 means all.
	From, To float64
	// Weights takes a column WeightColumn beside the schema's for the weights of
	// synthetic rows; see Table.Weights. Where the schema has a column of that
	// name it is data, and this has no effect.
	Weights bool
	// IgnoreUnit reads the unit column as empty and lets the file lack it and columns of identifiers, for
	// generated tables, whose rows belong to nobody.
	IgnoreUnit bool

	part bool // of a table: there may be no row, and which ones are chosen is for the whole table
}

// ReadCSV reads a CSV file, gzipped or not (told by its content). The header
// must have every column of the schema, in any order; of images that is each
// pixel and the label. Errors are *InputError.
func ReadCSV(s *partition.Schema, path string, o Options) (*partition.Table, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return DecodeCSV(s, f, path, o)
}

func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &partition.InputError{File: path, Problem: "cannot read the table",
			Fix: "check path and permissions", Err: partition.WithoutPath(err)}
	}
	return f, nil
}

// DecodeCSV is ReadCSV from a reader; name is for errors.
func DecodeCSV(s *partition.Schema, r io.Reader, name string, o Options) (*partition.Table, error) {
	d, err := newCSVDecoder(s, r, name, o)
	if err != nil {
		return nil, err
	}
	for {
		record, err := d.csv.Read()
		if errors.Is(err, io.EOF) {
			return d.rows.Table()
		}
		if err != nil {
			d.rows.row++
			return nil, d.readError(err)
		}
		if bad, at := d.rows.add(record); bad != nil {
			bad.Line, _ = d.csv.FieldPos(at)
			return nil, bad
		}
	}
}

type csvDecoder struct {
	name string
	csv  *csv.Reader
	rows *Builder
}

// newCSVDecoder begins a file: the header is read.
func newCSVDecoder(s *partition.Schema, r io.Reader, name string, o Options) (*csvDecoder, error) {
	if err := o.check(s); err != nil {
		return nil, &partition.InputError{File: name, Problem: err.Error()}
	}
	plain, err := partition.OpenPlain(r, name)
	if err != nil {
		return nil, err
	}
	if start, _ := plain.Peek(4); len(start) == 4 && start[0] == 0 && start[1] == 0 && start[2] == 8 {
		return nil, &partition.InputError{File: name, Problem: "an idx file of images or labels where rows of" +
			" text were expected", Fix: "use the schema of these images, or name a CSV file"}
	}
	d := &csvDecoder{name: name, csv: csv.NewReader(plain)}
	d.csv.ReuseRecord = true
	header, err := d.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &partition.InputError{File: name, Problem: "the file is empty",
			Fix: "it needs a header line with the schema's column names, and rows"}
	}
	if err != nil {
		return nil, d.readError(err)
	}
	var bad *partition.InputError
	if d.rows, bad = newBuilder(s, name, FromCSV, namedColumns(header), o); bad != nil {
		bad.Line = 1
		return nil, bad
	}
	return d, nil
}

// check refuses options that cannot be meant.
func (o *Options) check(s *partition.Schema) error {
	if o.From != 0 || o.To != 0 {
		if !(o.From >= 0 && o.From < o.To && o.To <= 1) { // false for NaN, too
			return errors.New("a share must lie in [0,1] and not be empty; correct the share")
		}
	}
	if o.Site != "" && s.SiteColumn() >= 0 {
		c := &s.Columns[s.SiteColumn()]
		if !slices.Contains(c.Categories, o.Site) {
			return fmt.Errorf("site %q is not a category of column %q; use one of: %s",
				o.Site, c.Name, strings.Join(c.Categories, ", "))
		}
	}
	return nil
}

// readError words what the CSV and gzip readers found. Their own messages hold
// no cell, but they say nothing of the fix.
func (d *csvDecoder) readError(err error) *partition.InputError {
	e := &partition.InputError{File: d.name}
	if d.rows != nil {
		e.Row = d.rows.row
	}
	var parse *csv.ParseError
	var corrupt flate.CorruptInputError
	if errors.As(err, &parse) {
		e.Line = parse.StartLine
	}
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		e.Problem = fmt.Sprintf("the row has not the %d cells of the header", len(d.rows.target))
		e.Fix = "complete or quote the row's cells"
	case parse != nil:
		e.Problem = "broken quotes"
		e.Fix = `put a cell with quotes, commas or line breaks in "..." and double the quotes in it`
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader),
		errors.As(err, &corrupt):
		e.Problem, e.Fix, e.Err = "broken gzip data", partition.FixGzip, err
	default:
		e.Problem, e.Err = "cannot read the table", partition.WithoutPath(err)
		e.Fix = "check that it is a file that can be read"
	}
	return e
}
