package parquet

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// indexed is a file of one column of whole numbers: a dictionary of 7 and 9, a page of three indexes of one byte, and
// a page of two numbers as they are, which writers change to where a dictionary grows too large.
func indexed(t *testing.T, index byte) []byte {
	t.Helper()
	data := func(values, size int32, as format.Encoding) format.PageHeader {
		return format.PageHeader{Type: format.DataPage, CompressedPageSize: size, UncompressedPageSize: size,
			DataPageHeader: thrift.New(format.DataPageHeader{NumValues: values, Encoding: as,
				DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}
	}
	pages := slices.Concat(
		header(t, format.PageHeader{Type: format.DictionaryPage, CompressedPageSize: 8, UncompressedPageSize: 8,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 2})},
			"\x07\x00\x00\x00\x09\x00\x00\x00"),
		header(t, data(3, 3, format.RLEDictionary), string([]byte{8, 3 << 1, index})),
		header(t, data(2, 8, format.Plain), "\x01\x00\x00\x00\x02\x00\x00\x00"))
	return made(t, format.SchemaElement{Type: thrift.New(format.Int32),
		RepetitionType: thrift.New(format.Required)}, format.Uncompressed, 5, pages)
}

// Rows of a page without a dictionary have no entry of the one before it.
func TestPagesBehindADictionary(t *testing.T) {
	b := indexed(t, 1)
	for _, numbers := range []bool{false, true} {
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		testkit.Must(t, err)
		var entries []int32
		var cells []float64
		for row, err := range f.GroupRows(0, nil, func(int) bool { return numbers }) {
			testkit.Must(t, err)
			entries, cells = append(entries, row.Entries[0]), append(cells, row.Numbers[0])
		}
		if !slices.Equal(entries, []int32{1, 1, 1, -1, -1}) ||
			numbers && !slices.Equal(cells, []float64{9, 9, 9, 1, 2}) {
			t.Errorf("numbers %v: entries %v of cells %v", numbers, entries, cells)
		}
	}
}

// An index beyond the dictionary is damage, and no cell.
func TestIndexesBeyondTheDictionary(t *testing.T) {
	for _, index := range []byte{2, 200, 255} {
		b := indexed(t, index)
		for _, numbers := range []bool{false, true} {
			f, err := Open(bytes.NewReader(b), int64(len(b)))
			testkit.Must(t, err)
			rows := 0
			for _, e := range f.GroupRows(0, nil, func(int) bool { return numbers }) {
				if err = e; e == nil {
					rows++
				}
			}
			if !errors.Is(err, ErrDamaged) || rows > 0 {
				t.Errorf("index %d: %d rows, error %v", index, rows, err)
			}
		}
	}
}
