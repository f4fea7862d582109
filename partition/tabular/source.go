package tabular

import (
	"fmt"
	"iter"
	"os"

	"github.com/conclave-dp/conclave/partition"
)

// CellKind is the type that a source declares for the cells of a column.
type CellKind int

// The kinds of a source's cells. CSV declares none: its cells are texts, which may be numbers.
const (
	Unsaid       CellKind = iota
	WholeNumbers          // as digits
	Numbers               // may have a fraction
	TruthValues           // 0 and 1
	Texts                 // may also be numbers
	Times                 // dates and times of day, as texts
	Nulls                 // no cell has a value
	Unreadable            // see SourceColumn.What
)

// SourceColumn is a column of a source, with its name there.
type SourceColumn struct {
	Name string
	Kind CellKind
	What string // for Unreadable, as text for an error: "a date"
}

// Source holds the words for errors about a source.
type Source struct {
	place, thing    string
	sure            bool // the names are surely names, not a record
	empty, fixEmpty string
	fixKind         string
}

// The sources of tables.
var (
	FromCSV = Source{place: "header", thing: "file", empty: "there is a header but no row",
		fixEmpty: "check that the whole file was copied"}
	FromParquet = Source{place: "file", thing: "file", sure: true, empty: "there is no row",
		fixEmpty: "check that it is the right file",
		fixKind:  "write it as in the schema, as a number, a boolean or text"}
	FromSQL = Source{place: "query", thing: "query", sure: true, empty: "the query gives no row",
		fixEmpty: "check the query and what its user may see",
		fixKind:  "cast it to the schema's type in the query, as in: c::text as c"}
)

func namedColumns(names []string) []SourceColumn {
	columns := make([]SourceColumn, len(names))
	for i, name := range names {
		columns[i].Name = name
	}
	return columns
}

// checkKinds refuses a column whose cells do not suit the schema's column, before any row is read.
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

// takes reports whether cells of a kind suit a column, and what it requires. A category or an identifier is its
// text, and a number with a fraction has several texts: 1.5, 1.50.
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

// Raw holds the rows of a Parquet file or a sheet as texts, for callers without a schema. The first row is the
// header; cells are valid until the next row.
type Raw struct {
	Next func() (cells []string, err error, ok bool)
	stop func()
	file *os.File
}

// OpenRaw opens such a file. It returns nil for other files, such as CSV. Errors are *InputError.
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
