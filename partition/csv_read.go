package partition

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// ReadOptions choose the rows of a file. The zero value takes them all.
type ReadOptions struct {
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
func ReadCSV(s *Schema, path string, o ReadOptions) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &InputError{File: path, Problem: "cannot read the table", Mend: "check path and permissions", Err: withoutPath(err)}
	}
	defer f.Close()
	return DecodeCSV(s, f, path, o)
}

// DecodeCSV is ReadCSV from a reader; name is for errors.
func DecodeCSV(s *Schema, r io.Reader, name string, o ReadOptions) (*Table, error) {
	if err := o.check(s); err != nil {
		return nil, &InputError{File: name, Problem: err.Error()}
	}
	plain, err := openPlain(r, name)
	if err != nil {
		return nil, err
	}
	if start, _ := plain.Peek(4); len(start) == 4 && start[0] == 0 && start[1] == 0 && start[2] == 8 {
		return nil, &InputError{File: name, Problem: "an idx file of images or labels where rows of text were expected", Mend: "use the schema of these images, or name a CSV file"}
	}
	if o.Weights && s.AcceptsWeights() == nil && !slices.Contains(o.Extra, WeightColumn) {
		o.Extra = append(slices.Clone(o.Extra), WeightColumn)
	}
	d := &csvDecoder{schema: s, name: name, options: o, table: NewTable(s)}
	d.csv = csv.NewReader(plain)
	d.csv.ReuseRecord = true
	if err := d.readHeader(); err != nil {
		return nil, err
	}
	if err := d.readRows(); err != nil {
		return nil, err
	}
	if o.Weights {
		if err := d.checkWeights(); err != nil {
			return nil, err
		}
	}
	return selectRows(d.table, name, o)
}

// check refuses options that cannot be meant.
func (o *ReadOptions) check(s *Schema) error {
	if o.From != 0 || o.To != 0 {
		if !(o.From >= 0 && o.From < o.To && o.To <= 1) { // false for NaN, too
			return errors.New("a share must lie in [0,1] and not be empty; correct the share")
		}
	}
	if o.Site != "" && s.site >= 0 {
		c := &s.Columns[s.site]
		if _, known := c.index[o.Site]; !known {
			return fmt.Errorf("site %q is not a category of column %q; use one of: %s", o.Site, c.Name, strings.Join(c.Categories, ", "))
		}
	}
	for i, name := range o.Extra {
		if s.ColumnIndex(name) >= 0 || slices.Contains(o.Extra[:i], name) {
			return fmt.Errorf("the extra column %q is already there; remove it", name)
		}
	}
	return nil
}

// openPlain undoes gzip and drops a byte order mark.
func openPlain(r io.Reader, name string) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	start, err := buffered.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &InputError{File: name, Problem: "cannot read the table", Mend: "check that it is a file that can be read", Err: withoutPath(err)}
	}
	if bytes.Equal(start, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, &InputError{File: name, Problem: "broken gzip data at the start", Mend: mendGzip, Err: err}
		}
		buffered = bufio.NewReaderSize(unzipped, 1<<16)
	}
	// What is wrong further in shows when the rows are read.
	if mark, _ := buffered.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = buffered.Discard(len(mark))
	}
	return buffered, nil
}

const mendGzip = "copy or compress the file again"

// toNowhere is the target of an ignored unit column.
const toNowhere = -1

type csvDecoder struct {
	schema  *Schema
	name    string
	options ReadOptions
	csv     *csv.Reader
	table   *Table
	target  []int // CSV column -> schema column, or len(schema columns) + index of the extra column
	row     int
}

func (d *csvDecoder) fail(column, problem, mend string) *InputError {
	return &InputError{File: d.name, Row: d.row, Column: column, Problem: problem, Mend: mend}
}

func (d *csvDecoder) readHeader() error {
	header, err := d.csv.Read()
	if errors.Is(err, io.EOF) {
		return d.fail("", "the file is empty", "it needs a header line with the schema's column names, and rows")
	}
	if err != nil {
		return d.readError(err)
	}
	names := make(map[string]int, len(d.schema.Columns)+len(d.options.Extra))
	for i := range d.schema.Columns {
		names[d.schema.Columns[i].Name] = i
	}
	for i, name := range d.options.Extra {
		names[name] = len(d.schema.Columns) + i
	}
	d.target = make([]int, len(header))
	taken := make(map[int]int) // target -> CSV column
	unknown := -1
	known := 0
	for i, name := range header {
		at, ok := names[name]
		if !ok {
			if unknown < 0 {
				unknown = i
			}
			continue
		}
		if _, twice := taken[at]; twice {
			e := d.fail(name, "the column is in the header twice", "remove or rename one")
			e.Line = 1
			return e
		}
		taken[at] = i
		known++
		d.target[i] = at
		if at == d.schema.unit && d.options.IgnoreUnit {
			d.target[i] = toNowhere
		}
	}
	if known == 0 {
		// The first line may be a record: say nothing of what it holds.
		e := d.fail("", "the first line has none of the schema's column names", "start the file with a header line")
		e.Line = 1
		return e
	}
	if unknown >= 0 {
		return d.unknownColumn(header, unknown, known)
	}
	for i := range d.schema.Columns {
		if _, there := taken[i]; !there && !(i == d.schema.unit && d.options.IgnoreUnit) {
			e := d.fail(d.schema.Columns[i].Name, "the column is missing from the header", "add it to the file or remove it from the schema")
			e.Line = 1
			return e
		}
	}
	for i, name := range d.options.Extra {
		if at, there := taken[len(d.schema.Columns)+i]; there {
			d.target[at] = len(d.schema.Columns) + len(d.table.extra)
			d.table.extra = append(d.table.extra, ExtraColumn{Name: name})
		}
	}
	return nil
}

// unknownColumn names the column only if the line is surely a header: most of
// its cells are the schema's names. Otherwise the cell could be a value.
func (d *csvDecoder) unknownColumn(header []string, at, known int) error {
	e := d.fail("", fmt.Sprintf("column %d of the header is not in the schema", at+1), "remove it from the file or add it to the schema")
	e.Line = 1
	switch {
	case 2*known < len(header):
	case strings.TrimSpace(header[at]) == "":
		e.Problem, e.Mend = fmt.Sprintf("column %d of the header has no name", at+1), "give it its name in the schema, or remove the column (a comma too many makes one)"
	case header[at] == WeightColumn:
		e.Column, e.Problem = WeightColumn, "the schema has no such column, but synthetic rows have their importance weights in one; here rows without weights were expected"
		e.Mend = "name the file where synthetic rows are asked for, or remove the column and with it the weights"
	default:
		e.Column, e.Problem = header[at], "the column is not in the schema"
	}
	return e
}

func (d *csvDecoder) readRows() error {
	columns := d.schema.Columns
	cells := make([]float64, len(columns))
	if d.schema.unit >= 0 {
		cells[d.schema.unit] = nan
	}
	for {
		record, err := d.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		d.row++
		if err != nil {
			return d.readError(err)
		}
		unit := ""
		for i, text := range record {
			var fault *cellFault
			column := ""
			switch at := d.target[i]; {
			case at == toNowhere:
				continue
			case at >= len(columns):
				extra := &d.table.extra[at-len(columns)]
				column = extra.Name
				var v float64
				if v, fault = parseNumber(text); fault != nil {
					fault.mend = "give every row a finite number in this column" // the schema does not know it
				}
				extra.Values = append(extra.Values, v)
			case at == d.schema.unit:
				column = columns[at].Name
				unit, fault = columns[at].parseUnit(text)
			default:
				column = columns[at].Name
				cells[at], fault = columns[at].parseCell(text)
			}
			if fault != nil {
				e := d.fail(column, fault.problem, fault.mend)
				e.Line, _ = d.csv.FieldPos(i)
				return e
			}
		}
		d.table.push(cells, unit)
	}
	if d.row == 0 {
		return d.fail("", "there is a header but no row", "check that the whole file was copied")
	}
	return nil
}

// readError words what the CSV and gzip readers found. Their own messages hold
// no cell, but they say nothing of the mend.
func (d *csvDecoder) readError(err error) error {
	var parse *csv.ParseError
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &parse) && errors.Is(err, csv.ErrFieldCount):
		e := d.fail("", fmt.Sprintf("the row has not the %d cells of the header", len(d.target)), "complete or quote the row's cells")
		e.Line = parse.StartLine
		return e
	case errors.As(err, &parse):
		e := d.fail("", "broken quotes", `put a cell with quotes, commas or line breaks in "..." and double the quotes in it`)
		e.Line = parse.StartLine
		return e
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		e := d.fail("", "broken gzip data", mendGzip)
		e.Err = err
		return e
	default:
		e := d.fail("", "cannot read the table", "check that it is a file that can be read")
		e.Err = withoutPath(err)
		return e
	}
}

// selectRows applies site and share.
func selectRows(t *Table, name string, o ReadOptions) (*Table, error) {
	s := t.schema
	bySite := o.Site != "" && s.site >= 0
	byShare := o.From != 0 || o.To != 0
	if !bySite && !byShare {
		return t, nil
	}
	var positions []float64
	if byShare {
		positions = sharePositions(t)
	}
	var rows []int
	for row := range t.rows {
		if bySite && s.Columns[s.site].Categories[int(t.Cells(row)[s.site])] != o.Site {
			continue
		}
		if byShare && !(positions[row] >= o.From && positions[row] < o.To) {
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, &InputError{File: name, Problem: "no row belongs to this site and share", Mend: "check site and share"}
	}
	return t.Subset(rows), nil
}
