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
	// Extra names columns of numbers that the file may have beside the
	// schema's; see Table.Extra.
	Extra []string
	// Weights takes a column WeightColumn beside the schema's for the weights of
	// synthetic rows; see Table.Weights. Where the schema has a column of that
	// name it is data, and this has no effect.
	Weights bool
	// IgnoreUnit reads the unit column as empty and lets the file lack it, for
	// generated tables, whose rows belong to nobody.
	IgnoreUnit bool
}

// ReadCSV reads a CSV file, gzipped or not (told by its content). The header
// must have every column of the schema, in any order; of images that is each
// pixel and the label. Errors are *InputError.
func ReadCSV(s *partition.Schema, path string, o Options) (*partition.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &partition.InputError{File: path, Problem: "cannot read the table",
			Fix: "check path and permissions", Err: partition.WithoutPath(err)}
	}
	defer f.Close()
	return DecodeCSV(s, f, path, o)
}

// DecodeCSV is ReadCSV from a reader; name is for errors.
func DecodeCSV(s *partition.Schema, r io.Reader, name string, o Options) (*partition.Table, error) {
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
	if bad := d.header(s, o); bad != nil {
		return nil, bad
	}
	if bad := d.read(); bad != nil {
		return nil, bad
	}
	return d.rows.Table()
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
	for i, name := range o.Extra {
		if s.ColumnIndex(name) >= 0 || slices.Contains(o.Extra[:i], name) {
			return fmt.Errorf("the extra column %q is already there; remove it", name)
		}
	}
	return nil
}

type csvDecoder struct {
	name string
	csv  *csv.Reader
	rows *Builder
}

// header reads the first line.
func (d *csvDecoder) header(s *partition.Schema, o Options) *partition.InputError {
	header, err := d.csv.Read()
	if errors.Is(err, io.EOF) {
		return &partition.InputError{File: d.name, Problem: "the file is empty",
			Fix: "it needs a header line with the schema's column names, and rows"}
	}
	if err != nil {
		return d.readError(err)
	}
	var bad *partition.InputError
	if d.rows, bad = newBuilder(s, d.name, FromCSV, namedColumns(header), o); bad != nil {
		bad.Line = 1
	}
	return bad
}

func (d *csvDecoder) read() *partition.InputError {
	for {
		record, err := d.csv.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			d.rows.row++
			return d.readError(err)
		}
		if bad, at := d.rows.add(record); bad != nil {
			bad.Line, _ = d.csv.FieldPos(at)
			return bad
		}
	}
}

// readError words what the CSV and gzip readers found. Their own messages hold
// no cell, but they say nothing of the fix.
func (d *csvDecoder) readError(err error) *partition.InputError {
	fail := func(problem, fix string) *partition.InputError {
		e := &partition.InputError{File: d.name, Problem: problem, Fix: fix}
		if d.rows != nil {
			e.Row = d.rows.row
		}
		return e
	}
	var parse *csv.ParseError
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &parse) && errors.Is(err, csv.ErrFieldCount):
		e := fail(fmt.Sprintf("the row has not the %d cells of the header", len(d.rows.target)),
			"complete or quote the row's cells")
		e.Line = parse.StartLine
		return e
	case errors.As(err, &parse):
		e := fail("broken quotes", `put a cell with quotes, commas or line breaks in "..." and double the quotes in it`)
		e.Line = parse.StartLine
		return e
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader),
		errors.As(err, &corrupt):
		e := fail("broken gzip data", partition.FixGzip)
		e.Err = err
		return e
	default:
		e := fail("cannot read the table", "check that it is a file that can be read")
		e.Err = partition.WithoutPath(err)
		return e
	}
}
