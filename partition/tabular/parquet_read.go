package tabular

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/parquet"
)

// ReadParquet reads a Parquet file. It must have every column of the schema, in any order. A null is an empty
// cell. A number equals its decimal digits in CSV; a 32-bit float has the fewest digits that restore it. Errors
// are *InputError.
func ReadParquet(s *partition.Schema, path string, o Options) (*partition.Table, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, parquetError(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, &partition.InputError{File: path, Problem: "a Parquet file must be a regular " +
			"file", Fix: "copy it to a disk"}
	}
	return DecodeParquet(s, f, info.Size(), path, o)
}

// DecodeParquet is ReadParquet from size bytes of a reader; name is for errors.
func DecodeParquet(s *partition.Schema, r io.ReaderAt, size int64, name string, o Options) (*partition.Table, error) {
	file, b, err := openParquet(s, r, size, name, o)
	if err != nil {
		return nil, err
	}
	if file.Len() > int64(b.most) {
		return nil, &partition.InputError{File: name, Problem: fmt.Sprintf("a table of more than %d rows", b.most),
			Fix: "divide it among several nodes, or set stream: true"}
	}
	rows := b.newPart()
	for group := range file.Groups() {
		for err := range rows.group(b, file, group) {
			first := b.row == 0
			if b.take(rows, 0); err != nil {
				return nil, b.Broken(parquetError(name, err))
			}
			if first { // and its bytes are as the file says
				b.table.Grow(int(file.Len()) - b.row)
			}
		}
	}
	return b.Table()
}

// openParquet begins a table from the file.
func openParquet(s *partition.Schema, r io.ReaderAt, size int64, name string, o Options) (*parquet.File, *Builder,
	error) {
	file, err := parquet.Open(r, size)
	if err != nil {
		return nil, nil, parquetError(name, err)
	}
	columns := make([]SourceColumn, len(file.Columns))
	for i, c := range file.Columns {
		columns[i] = SourceColumn{Name: c.Name, What: c.What, Kind: map[parquet.Kind]CellKind{
			parquet.Other: Unreadable, parquet.Truth: TruthValues, parquet.Whole: WholeNumbers, parquet.Number: Numbers,
			parquet.Text: Texts, parquet.Time: Times, parquet.Null: Nulls,
		}[c.Kind]}
	}
	b, err := NewBuilder(s, name, FromParquet, columns, o)
	return file, b, err
}

// reads reports whether anything reads a column.
func (l *layout) reads(column int) bool { return l.target[column] != toNowhere }

// rawParquet returns the names of the columns and then the rows. Columns that nothing reads are empty.
func rawParquet(f *os.File, size int64, path string) (iter.Seq2[[]string, error], error) {
	file, err := parquet.Open(f, size)
	if err != nil {
		return nil, parquetError(path, err)
	}
	var names []string
	for _, c := range file.Columns {
		names = append(names, c.Name)
	}
	return func(yield func([]string, error) bool) {
		if !yield(names, nil) {
			return
		}
		for cells, err := range file.Rows(func(i int) bool { return file.Columns[i].Kind != parquet.Other }) {
			if err != nil {
				err = parquetError(path, err)
			}
			if !yield(cells, err) || err != nil {
				return
			}
		}
	}, nil
}

func parquetError(name string, err error) *partition.InputError {
	e := &partition.InputError{File: name, Problem: "cannot read the table",
		Fix: "check that it is a file that can be read", Err: partition.WithoutPath(err)}
	var place *parquet.PlaceError
	if errors.As(err, &place) {
		e.Problem, e.Column, e.Err = fmt.Sprintf("cannot read row group %d",
			place.Group), place.Column, partition.WithoutPath(place.Err)
	}
	switch {
	case errors.Is(err, parquet.ErrDamaged):
		e.Fix = "copy or write the file again"
	case errors.Is(err, parquet.ErrUnsupported):
		e.Fix = "write it with flat columns, with snappy, gzip or zstd, and without encryption"
	}
	return e
}

// isParquet detects a Parquet file by its content, or by its name if it is damaged. A file that is not regular,
// such as a pipe, is never one: looking would consume bytes.
func isParquet(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if hasSuffixFold(path, ".parquet") {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false // reading it will report the error
	}
	defer f.Close()
	var magic [2][len(parquet.Magic)]byte
	if _, err := f.ReadAt(magic[0][:], 0); err != nil || string(magic[0][:]) != parquet.Magic {
		return false
	}
	_, err = f.ReadAt(magic[1][:], info.Size()-int64(len(parquet.Magic)))
	return err == nil && string(magic[1][:]) == parquet.Magic
}
