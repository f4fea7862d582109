package parquet

import (
	"encoding/binary"
	"errors"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// maxHeader bounds a page's header, which may contain a minimum and a maximum value.
	maxHeader = 1 << 20
	// maxPage bounds a page, stored and unpacked; writers aim at 1 MiB.
	maxPage = 128 << 20
	// maxValues bounds the values of a page. Pages of equal values or nulls take few bytes.
	maxValues = 1 << 26
	// maxHeld bounds the pages and dictionaries of all columns in memory at a time.
	maxHeld = 2 << 30
)

type page struct {
	values   int
	nulls    int // -1 if the header does not say
	encoding format.Encoding
	size     int64 // unpacked size of the values, with null markers
}

// pages walks the headers of a column's pages in a row group, checks that they are possible, and returns the memory
// for its largest page and its dictionary.
func (f *File) pages(c *Column, group int) (all []page, held int64, err error) {
	chunk := &f.file.Metadata().RowGroups[group].Columns[c.leaf].MetaData
	at := chunkStart(chunk)
	end := at + chunk.TotalCompressedSize
	left := chunk.NumValues
	dictionary, largest := int64(-1), int64(0)
	var in room
	for left > 0 {
		if at >= end {
			return nil, 0, damaged("it ends before its rows do")
		}
		h, taken, err := f.pageHeader(at, end)
		if err != nil {
			return nil, 0, err
		}
		at += taken
		stored, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
		if stored < 0 || size < 0 || stored > end-at {
			return nil, 0, damaged("a page lies outside its column")
		}
		if stored > maxPage || size > maxPage {
			return nil, 0, unsupported("a page of more than %d MiB; write smaller ones", maxPage>>20)
		}
		p, err := c.page(h, left)
		if err != nil {
			return nil, 0, err
		}
		if p == nil {
			if dictionary >= 0 {
				return nil, 0, damaged("a second dictionary")
			}
			dictionary = size + 4*int64(h.DictionaryPageHeader.V.NumValues)
		} else {
			largest = max(largest, stored+2*size+9*int64(p.values)) // nulls, and indexes or offsets
			left -= int64(p.values)
			all = append(all, *p)
		}
		if err := f.checkContent(c, at, h, chunk.Codec, p, &in); err != nil {
			return nil, 0, err
		}
		at += stored
	}
	return all, largest + max(dictionary, 0), nil
}

// page reads the counts of a header in a column with left remaining values. It returns nil for a dictionary.
func (c *Column) page(h *format.PageHeader, left int64) (*page, error) {
	size := int64(h.UncompressedPageSize)
	var p *page
	switch {
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		// Texts are preceded by their lengths; other values take at least a byte.
		if n := int64(h.DictionaryPageHeader.V.NumValues); n < 0 || n*int64(max(c.width, 1)) > size ||
			c.width == 0 && 4*n > size {
			return nil, damaged("a dictionary has not the values that it says")
		}
		if e := h.DictionaryPageHeader.V.Encoding; e != format.Plain && e != plainDictionary {
			return nil, unsupported("a dictionary in an encoding of other pages")
		}
		return nil, nil
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		v := &h.DataPageHeader.V
		p = &page{int(v.NumValues), -1, v.Encoding, size}
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		marks := int64(v.RepetitionLevelsByteLength) + int64(v.DefinitionLevelsByteLength)
		if v.RepetitionLevelsByteLength < 0 || v.DefinitionLevelsByteLength < 0 ||
			marks > min(size, int64(h.CompressedPageSize)) || v.NumRows != v.NumValues {
			return nil, damaged("a page has not a value for each row")
		}
		p = &page{int(v.NumValues), int(v.NumNulls), v.Encoding, size - marks}
		if p.nulls < 0 || p.nulls > p.values {
			return nil, damaged("a page has more nulls than rows")
		}
	default:
		return nil, damaged("a page of an unknown type")
	}
	if p.values < 0 || int64(p.values) > left {
		return nil, damaged("a page has not the rows that its row group has left")
	}
	if p.values > maxValues {
		return nil, unsupported("a page of more than %d values; write smaller ones", maxValues)
	}
	return p, nil
}

// check compares a page with its content: nulls are counted when they are read.
func (p *page) check(c *Column, values, nulls int64) error {
	there := values - nulls
	switch {
	case values != int64(p.values):
		return damaged("a page has not the rows that it says")
	case p.nulls >= 0 && nulls != int64(p.nulls):
		return damaged("a page has another number of nulls than it says")
	case p.encoding == format.Plain && c.width > 0 && there*int64(c.width) > p.size:
		return damaged("a page has fewer values than it says")
	}
	return nil
}

// pageHeader reads a page's header, whose length is only known at its end.
func (f *File) pageHeader(at, end int64) (*format.PageHeader, int64, error) {
	for length := int64(512); ; length *= 8 {
		raw := make([]byte, min(length, end-at))
		if err := readAt(f.r, raw, at); err != nil {
			return nil, 0, err
		}
		taken, err := structLength(raw)
		switch {
		case err == nil:
			h := new(format.PageHeader)
			if err := thrift.Unmarshal(&compact, raw[:taken], h); err != nil {
				return nil, 0, damaged("the header of a page: %v", err)
			}
			return h, int64(taken), nil
		case !errors.Is(err, errShort):
			return nil, 0, err
		case length >= end-at:
			return nil, 0, damaged("the header of a page ends too early")
		case length >= maxHeader:
			return nil, 0, unsupported("a header of a page of more than %d MiB", maxHeader>>20)
		}
	}
}

// checkSnappy compares the length at the start of a snappy block with the page's, because the decoder allocates it
// first.
func (f *File) checkSnappy(at int64, h *format.PageHeader) error {
	stored, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	if v := &h.DataPageHeaderV2; h.Type == format.DataPageV2 && v.Valid {
		if v.V.IsCompressed.Valid && !v.V.IsCompressed.V {
			return nil
		}
		marks := int64(v.V.RepetitionLevelsByteLength) + int64(v.V.DefinitionLevelsByteLength)
		at, stored, size = at+marks, stored-marks, size-marks
	}
	raw := make([]byte, min(stored, binary.MaxVarintLen64))
	if err := readAt(f.r, raw, at); err != nil {
		return err
	}
	if n, length := binary.Uvarint(raw); length <= 0 || n != uint64(size) {
		return damaged("a page does not unpack to what it says")
	}
	return nil
}
