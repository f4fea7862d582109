package tabular

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/xlsx"
)

// FromXLSX holds the words for errors about a sheet of a workbook, whose cells declare as little about their types
// as those of CSV.
var FromXLSX = Source{place: "sheet's first row", thing: "sheet", empty: "there is a header but no row",
	fixEmpty: "check that it is the right sheet"}

// Sheet is the sheet that a path names, as in visits.xlsx#Visits 2024, and empty if it names none.
func Sheet(path string) string {
	_, sheet := cutSheet(path)
	return sheet
}

func cutSheet(path string) (file, sheet string) {
	at := strings.LastIndex(strings.ToLower(path), ".xlsx#")
	if at < 0 {
		return path, ""
	}
	if _, err := os.Stat(path); err == nil {
		return path, "" // a file of that name exists
	}
	at += len(".xlsx")
	return path[:at], path[at+1:]
}

// ReadXLSX reads a sheet of a workbook: the one that the path names after a #, or otherwise the only one that is
// not empty. The first row with a value is the header; rows without values are skipped. Errors are *InputError.
func ReadXLSX(s *partition.Schema, path string, o Options) (*partition.Table, error) {
	file, sheet := cutSheet(path)
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, xlsxError(path, err)
	}
	return DecodeXLSX(s, f, info.Size(), path, sheet, o)
}

// rawSheet returns the rows of a sheet, the header first.
func rawSheet(f *os.File, size int64, path string) (iter.Seq2[[]string, error], error) {
	book, at, err := openSheet(f, size, path, Sheet(path))
	if err != nil {
		return nil, err
	}
	return func(yield func([]string, error) bool) {
		row, columns := 0, 0
		for cells, err := range book.Rows(at, func(int) bool { return true }) {
			if _, err := cellFaults(err); err != nil { // invalid cells are empty
				bad := xlsxError(path, err)
				bad.Row = row
				yield(nil, bad)
				return
			}
			switch {
			case columns == 0:
				columns = len(cells)
			case len(cells) > columns:
				cells = cells[:columns]
			}
			for len(cells) < columns {
				cells = append(cells, "")
			}
			if row++; !yield(cells, nil) {
				return
			}
		}
	}, nil
}

func moreCells(columns int) *partition.CellFault {
	return &partition.CellFault{Problem: fmt.Sprintf("the row has more cells than the %d of the header", columns),
		Fix: "give each column a name in the first row, and move notes to another sheet"}
}

// DecodeXLSX is ReadXLSX from size bytes of a reader; name is for errors, sheet may be empty.
func DecodeXLSX(s *partition.Schema, r io.ReaderAt, size int64, name, sheet string, o Options) (*partition.Table,
	error) {
	book, at, err := openSheet(r, size, name, sheet)
	if err != nil {
		return nil, err
	}
	var b *Builder
	var header, texts []string
	wanted := func(column int) bool {
		return b == nil || column >= len(header) || b.target[column] != toNowhere
	}
	for cells, err := range book.Rows(at, wanted) {
		faults, err := cellFaults(err)
		switch {
		case err != nil && b != nil:
			bad := xlsxError(name, err)
			bad.Row = b.row + 1
			return nil, b.Broken(bad)
		case err != nil:
			return nil, xlsxError(name, err)
		case b == nil && len(faults) > 0:
			return nil, headerFault(name, faults)
		case b == nil:
			header = slices.Clone(cells)
			if b, err = NewBuilder(s, name, FromXLSX, namedColumns(header), o); err != nil {
				return nil, err
			}
			continue
		case len(cells) > len(header):
			faults = map[int]*partition.CellFault{len(header): moreCells(len(header))}
			cells = cells[:len(header)]
		}
		texts = append(texts[:0], cells...)
		for len(texts) < len(header) {
			texts = append(texts, "")
		}
		if err := b.addWith(texts, faults); err != nil {
			return nil, err
		}
	}
	if b == nil {
		return nil, &partition.InputError{File: name, Problem: "the sheet is empty",
			Fix: "it needs a first row with the schema's column names, and rows"}
	}
	return b.Table()
}

// openSheet opens a workbook of size bytes, and finds the sheet.
func openSheet(r io.ReaderAt, size int64, name, sheet string) (book *xlsx.File, at int, err error) {
	if book, err = xlsx.Open(r, size); err != nil {
		return nil, 0, xlsxError(name, err)
	}
	at, err = chooseSheet(book, name, sheet)
	return book, at, err
}

// chooseSheet is the number of the named sheet, or of the only one with a value.
func chooseSheet(book *xlsx.File, name, sheet string) (int, error) {
	if at := slices.Index(book.Sheets, sheet); at >= 0 {
		return at, nil
	}
	if sheet != "" {
		return 0, &partition.InputError{File: name, Problem: "the workbook has no such sheet",
			Fix: "name one of: " + strings.Join(book.Sheets, ", ")}
	}
	var full []int
	var names []string
	for at, called := range book.Sheets {
		empty, err := book.Empty(at)
		if err != nil && !errors.As(err, new(xlsx.CellErrors)) {
			return 0, xlsxError(name, err)
		}
		if !empty {
			full, names = append(full, at), append(names, called)
		}
	}
	switch len(full) {
	case 0:
		return 0, &partition.InputError{File: name, Problem: "all sheets of the workbook are empty",
			Fix: "check that it is the right file, and that it was saved"}
	case 1:
		return full[0], nil
	}
	return 0, &partition.InputError{File: name, Problem: fmt.Sprintf("%d sheets of the workbook have cells: %s",
		len(full), strings.Join(names, ", ")), Fix: fmt.Sprintf("add a # and the name of one, as in "+
		"%s#%s", name, names[0])}
}

// cellFaults separates the errors of single cells from the error of a row.
func cellFaults(err error) (map[int]*partition.CellFault, error) {
	var cells xlsx.CellErrors
	if !errors.As(err, &cells) {
		return nil, err
	}
	faults := make(map[int]*partition.CellFault, len(cells))
	for _, c := range cells {
		faults[c.Column] = &partition.CellFault{Problem: c.Problem, Fix: c.Fix}
	}
	return faults, nil
}

func headerFault(name string, faults map[int]*partition.CellFault) *partition.InputError {
	at := slices.Min(slices.Collect(maps.Keys(faults)))
	return &partition.InputError{File: name, Fix: faults[at].Fix,
		Problem: fmt.Sprintf("%s (column %d of the first row)", faults[at].Problem, at+1)}
}

func xlsxError(name string, err error) *partition.InputError {
	e := &partition.InputError{File: name, Problem: "cannot read the table",
		Fix: "check that it is a file that can be read", Err: partition.WithoutPath(err)}
	switch {
	case errors.Is(err, xlsx.ErrDamaged):
		e.Fix = "copy the file or save it again"
	case errors.Is(err, xlsx.ErrUnsupported):
		e.Fix = "save it as .xlsx or as CSV"
	case errors.Is(err, xlsx.ErrArchive):
		e.Fix = "unpack it, and name the file in it"
	}
	return e
}

// isArchive detects a zip archive by content, as workbooks are. It refuses other workbook formats, whose bytes
// would be reported as broken text.
func isArchive(path string) (bool, error) {
	file, _ := cutSheet(path)
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return false, nil // reading it will report the error
	}
	defer f.Close()
	var magic [8]byte
	n, _ := f.ReadAt(magic[:], 0)
	switch start := string(magic[:n]); {
	case strings.HasPrefix(start, "PK\x03\x04"):
		return true, nil
	case start == "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
		return false, &partition.InputError{File: path,
			Problem: "an old workbook (.xls), or one with a password",
			Fix:     "save it as .xlsx without a password, or as CSV"}
	}
	return false, nil
}
