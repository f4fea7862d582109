package parquet

import (
	"errors"
	"io"
	"iter"

	pq "github.com/parquet-go/parquet-go"
)

// Rows gives the rows one after the other, each as the texts of its cells, one for each of Columns and
// empty for null. They are good until the next row. Columns that wanted refuses are empty and
// not read; nil wants all. An error is *PlaceError and the last that is given.
func (f *File) Rows(wanted func(column int) bool) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for group := range f.file.Metadata().RowGroups {
			if !f.groupRows(group, wanted, yield) {
				return
			}
		}
	}
}

// Groups are how many rows each row group has.
func (f *File) Groups() (rows []int) {
	for i := range f.file.Metadata().RowGroups {
		rows = append(rows, int(f.file.Metadata().RowGroups[i].NumRows))
	}
	return rows
}

// GroupRows is Rows of one row group, from 0.
func (f *File) GroupRows(group int, wanted func(column int) bool) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) { f.groupRows(group, wanted, yield) }
}

func (f *File) groupRows(group int, wanted func(int) bool, yield func([]string, error) bool) bool {
	cells := make([]string, len(f.Columns))
	cursors := make([]*cursor, len(f.Columns))
	fail := func(c *Column, err error) bool {
		yield(nil, &PlaceError{group + 1, c.Name, err})
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
			var err error
			if cells[i], err = cursor.next(); err != nil {
				return fail(cursor.column, err)
			}
		}
		if !yield(cells, nil) {
			return false
		}
	}
	return true
}

// batch is how many cells become texts at a time.
const batch = 256

// cursor gives the cells of a column in a row group.
type cursor struct {
	column *Column
	to     []page // that were not read
	pages  pq.Pages
	page   pq.Page // the one in hand, or nil
	values pq.ValueReader
	raw    [batch]pq.Value
	texts  []string // that were not given
	room   [batch]string
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

func (u *cursor) next() (string, error) {
	for len(u.texts) == 0 {
		if err := guarded(u.fill); err != nil {
			return "", err
		}
	}
	text := u.texts[0]
	u.texts = u.texts[1:]
	return text, nil
}

// fill makes texts of the next values of the page in hand, or takes the next page.
func (u *cursor) fill() error {
	if u.page == nil {
		return u.turn()
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
	u.texts = u.room[:n]
	for i, v := range u.raw[:n] {
		if v.IsNull() {
			u.room[i] = ""
		} else if u.room[i], err = u.column.text(v); err != nil {
			return err
		}
	}
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
	u.to = u.to[1:]
	return err
}

func (u *cursor) release() {
	pq.Release(u.page)
	u.page, u.values = nil, nil
}

// close gives back what the library lends; after a panic in it that is not worth another one.
func (u *cursor) close() {
	_ = guarded(func() error {
		if u.page != nil {
			u.release()
		}
		return u.pages.Close()
	})
}
