package parquet

import (
	"errors"
	"io"
	"iter"

	pq "github.com/parquet-go/parquet-go"
)

// Rows yields the rows, each as the texts of its cells, one per column and empty for null. They are valid until the
// next row. Columns that wanted refuses are empty and not read; nil wants all. An error is a *PlaceError and ends the
// iteration.
func (f *File) Rows(wanted func(column int) bool) iter.Seq2[[]string, error] {
	none := func(int) bool { return false }
	return func(yield func([]string, error) bool) {
		texts := func(r *Row, err error) bool { return yield(r.Texts, err) }
		for group := range f.file.Metadata().RowGroups {
			if !f.groupRows(group, wanted, none, texts) {
				return
			}
		}
	}
}

// Groups returns the number of rows of each row group.
func (f *File) Groups() (rows []int) {
	for i := range f.file.Metadata().RowGroups {
		rows = append(rows, int(f.file.Metadata().RowGroups[i].NumRows))
	}
	return rows
}

// Row is a row with the texts of its cells. If a column was requested and is stored as numbers, Numbers has the cell,
// NaN for an empty one, and there is no text. For a number that is not finite, Numbers has an infinity and the text
// says which value it is. Entries has the cell's entry in the column's dictionary, which has the same text in the whole
// row group, or -1.
type Row struct {
	Texts   []string
	Numbers []float64
	Entries []int32
}

// GroupRows is Rows for one row group, from 0, with some columns as numbers.
func (f *File) GroupRows(group int, wanted, numbers func(column int) bool) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) { f.groupRows(group, wanted, numbers, yield) }
}

// InNumbers reports whether a column can be returned as numbers, without loss and without parsing digits.
func (f *File) InNumbers(column int) bool { return f.Columns[column].number != nil }

func (f *File) groupRows(group int, wanted, numbers func(int) bool, yield func(*Row, error) bool) bool {
	row := &Row{make([]string, len(f.Columns)), make([]float64, len(f.Columns)), make([]int32, len(f.Columns))}
	for i := range row.Entries {
		row.Entries[i] = -1
	}
	cursors := make([]*cursor, len(f.Columns))
	fail := func(c *Column, err error) bool {
		yield(&Row{}, &PlaceError{group + 1, c.Name, err})
		return false
	}
	var held int64
	for i := range f.Columns {
		c := &f.Columns[i]
		if c.Kind == Null || wanted != nil && !wanted(i) {
			continue
		}
		if c.Kind == Other {
			return fail(c, unsupported("%s", c.What))
		}
		cursor, takes, err := f.newCursor(c, group)
		if err != nil {
			return fail(c, err)
		}
		defer cursor.close()
		cursor.numeric = c.number != nil && numbers(i)
		if held += takes; held > maxHeld {
			return fail(c, unsupported("pages of more than %d GiB at a time; write smaller ones", maxHeld>>30))
		}
		cursors[i] = cursor
	}
	for range f.file.Metadata().RowGroups[group].NumRows {
		for i, cursor := range cursors {
			if cursor == nil {
				continue
			}
			at, err := cursor.next()
			if err != nil {
				return fail(cursor.column, err)
			}
			if row.Texts[i] = cursor.texts[at]; cursor.numeric {
				row.Numbers[i] = cursor.numbers[at]
			}
			if cursor.entries != nil {
				row.Entries[i] = cursor.which[at]
			}
		}
		if !yield(row, nil) {
			return false
		}
	}
	return true
}

// batch is how many cells are converted to text at a time.
const batch = 256

// cursor reads the cells of a column in a row group.
type cursor struct {
	column *Column
	to     []page // not read yet
	pages  pq.Pages
	page   pq.Page // the current page, or nil
	values pq.ValueReader
	raw    [batch]pq.Value
	// texts is a batch, with counts of cells returned and remaining. A numeric cursor has numbers, too.
	texts       [batch]string
	numbers     [batch]float64
	which       [batch]int32 // entries of the dictionary, if there are any
	numeric     bool
	given, left int
	packed      packed   // values of the current page
	entries     *entries // of the column's dictionary, nil before it is decoded
}

func (f *File) newCursor(c *Column, group int) (*cursor, int64, error) {
	u := &cursor{column: c}
	var held int64
	err := guarded(func() (err error) {
		if u.to, held, err = f.pages(c, group); err == nil {
			u.pages = f.file.RowGroups()[group].ColumnChunks()[c.leaf].Pages()
		}
		return err
	})
	return u, held, err
}

// next returns the index of the next cell in the batch.
func (u *cursor) next() (at int, err error) {
	for u.left == 0 {
		if err := guarded(u.fill); err != nil {
			return 0, err
		}
	}
	u.given++
	u.left--
	return u.given - 1, nil
}

// fill converts the next values of the current page, or takes the next page.
func (u *cursor) fill() error {
	if u.page == nil {
		return u.turn()
	}
	if u.packed.rows > 0 {
		return u.unpack()
	}
	n, err := u.values.ReadValues(u.raw[:])
	switch {
	case errors.Is(err, io.EOF):
		defer u.release()
	case err != nil:
		return decodeError(err)
	case n == 0:
		return damaged("a page without an end")
	}
	for i, v := range u.raw[:n] {
		u.which[i] = -1
		if err := u.convert(v, &u.texts[i], &u.numbers[i]); err != nil {
			return err
		}
	}
	u.given, u.left = 0, n
	return nil
}

// turn takes the next page.
func (u *cursor) turn() error {
	if len(u.to) == 0 {
		return damaged("a page has fewer values than it says")
	}
	p, err := u.pages.ReadPage()
	if err != nil {
		return decodeError(err)
	}
	u.page, u.values = p, p.Values()
	err = u.to[0].check(u.column, p.NumValues(), p.NumNulls())
	if u.to = u.to[1:]; err == nil {
		u.pack()
	}
	return err
}

func (u *cursor) release() {
	pq.Release(u.page)
	u.page, u.values, u.packed = nil, nil, packed{}
}

// close releases the library's buffers; an error after a panic is ignored.
func (u *cursor) close() {
	_ = guarded(func() error {
		if u.page != nil {
			u.release()
		}
		return u.pages.Close()
	})
}
