package tabular

import (
	"fmt"
	"iter"
	"os"

	"github.com/conclave-dp/conclave/partition"
)

// CellKind is what a source says of the cells of a column.
type CellKind int

// The kinds of a source's cells. CSV says nothing: its cells are texts, which may be
// numbers.
const (
	Unsaid       CellKind = iota
	WholeNumbers          // in digits
	Numbers               // that may have a fraction
	TruthValues           // as 0 and 1
	Texts                 // which may be numbers, too
	Times                 // dates and times of day, as texts
	Nulls                 // no cell has a value
	Unreadable            // see SourceColumn.What
)

// SourceColumn is a column of a source by its name there.
type SourceColumn struct {
	Name string
	Kind CellKind
	What string // of Unreadable, in words for an error: "a date"
}

// Source words errors about a source.
type Source struct {
	place, thing    string
	sure            bool // names are surely names, and not a record
	empty, fixEmpty string
	fixKind         string
}

// The sources of tables.
var (
	FromCSV = Source{place: "header", thing: "file", empty: "there is a header but no row",
		fixEmpty: "check that the whole file was copied"}
	FromParquet = Source{place: "file", thing: "file", sure: true, empty: "there is no row",
		fixEmpty: "check that it is the right file",
		fixKind:  "write it as the schema has it, as a number, a boolean or text"}
	FromSQL = Source{place: "query", thing: "query", sure: true, empty: "the query gives no row",
		fixEmpty: "check the query and what its user may see",
		fixKind:  "cast it in the query to what the schema has, as in: c::text as c"}
)

func namedColumns(names []string) []SourceColumn {
	columns := make([]SourceColumn, len(names))
	for i, name := range names {
		columns[i].Name = name
	}
	return columns
}

// checkKinds refuses a column whose cells cannot be those of the schema's column, before
// any row is read.
func (b *Builder) checkKinds(header []SourceColumn) *partition.InputError {
	for i := range header {
		at := b.target[i]
		if at == toNowhere {
			continue
		}
		want, fits := "numbers", numeric(header[i].Kind)
		if at != toWeights {
			want, fits = takes(&b.schema.Columns[at], header[i].Kind)
		}
		if !fits {
			return b.fail(header[i].Name, fmt.Sprintf("the %s has %s there, the schema %s",
				b.source.thing, header[i].words(), want), b.source.fixKind)
		}
	}
	return nil
}

// takes tells whether cells of a kind can be of a column, and what it wants. A category or
// an identifier is its text, and a number with a fraction has several: 1.5, 1.50.
func takes(c *partition.Column, k CellKind) (want string, fits bool) {
	textual := k == Unsaid || k == Texts || k == WholeNumbers || k == Times || k == Nulls
	switch c.Declared() {
	case partition.Categorical:
		return "categories", textual
	case partition.Code:
		return "codes", textual
	case partition.Date, partition.Datetime:
		return "dates", textual
	case partition.Text:
		return "identifiers", textual
	case partition.Binary:
		return "0 or 1", numeric(k)
	default:
		return "numbers", numeric(k)
	}
}

func numeric(k CellKind) bool { return k != Times && k != Unreadable }

func (c *SourceColumn) words() string {
	switch c.Kind {
	case WholeNumbers:
		return "whole numbers"
	case Numbers:
		return "numbers with a fraction"
	case TruthValues:
		return "truth values"
	case Texts:
		return "text"
	case Times:
		return "dates or times"
	case Unreadable:
		return c.What
	default:
		return "nothing"
	}
}

// Raw are the rows of a Parquet file or of a sheet as texts, for who has no schema yet. The first one is the header;
// cells are good until the next row.
type Raw struct {
	Next func() (cells []string, err error, ok bool)
	stop func()
	file *os.File
}

// OpenRaw opens such a file. It is nil where the file is of another kind, such as CSV. Errors are *InputError.
func OpenRaw(path string) (*Raw, error) {
	archive, err := isArchive(path)
	if err != nil || !archive && !isParquet(path) {
		return nil, err
	}
	file, _ := cutSheet(path)
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	var rows iter.Seq2[[]string, error]
	switch {
	case err != nil:
		err = readError(path, err)
	case archive:
		rows, err = rawSheet(f, info.Size(), path)
	default:
		rows, err = rawParquet(f, info.Size(), path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	next, stop := iter.Pull2(rows)
	return &Raw{next, stop, f}, nil
}

// Close ends the reading.
func (r *Raw) Close() error {
	r.stop()
	return r.file.Close()
}
