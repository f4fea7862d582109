package parquet

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// room is memory for one page at a time, stored and unpacked.
type room struct{ stored, unpacked []byte }

// sized returns a slice of n bytes, in b if it is large enough.
func sized(b []byte, n int64) []byte { return slices.Grow(b[:0], int(n))[:n] }

// checkContent checks what is in a page before the library decodes it: the library unpacks a page of gzip or zstd to
// any size, and makes room for as many values as runs and deltas say. p is nil for a dictionary.
func (f *File) checkContent(c *Column, at int64, h *format.PageHeader, codec format.CompressionCodec, p *page,
	in *room) error {
	if p != nil {
		if err := c.checkEncoding(p.encoding); err != nil {
			return err
		}
	}
	bounded := codec == format.Uncompressed // to what is stored
	if !bounded && p != nil && !c.nullable && p.isPlain() && codec == format.Snappy {
		return f.checkSnappy(at, h)
	}
	if bounded && (p == nil || !c.nullable && p.isPlain()) {
		return nil
	}
	in.stored = sized(in.stored, int64(h.CompressedPageSize))
	if err := readAt(f.r, in.stored, at); err != nil {
		return err
	}
	levels, values, err := c.content(h, codec, in)
	if err != nil || p == nil {
		return err
	}
	if !runsFit(levels, 1, p.values) {
		return damaged("a page has not a null marker for each row")
	}
	return c.checkValues(p, values)
}

// content returns a page's null markers, if it may have any, and its values, unpacked.
func (c *Column) content(h *format.PageHeader, codec format.CompressionCodec, in *room) (levels, values []byte,
	err error) {
	stored, size := in.stored, int64(h.UncompressedPageSize)
	if h.Type == format.DataPageV2 {
		v := &h.DataPageHeaderV2.V
		from, marks := int64(v.RepetitionLevelsByteLength), int64(v.RepetitionLevelsByteLength)+
			int64(v.DefinitionLevelsByteLength)
		levels, stored, size = stored[from:marks], stored[marks:], size-marks
		if v.IsCompressed.Valid && !v.IsCompressed.V {
			codec = format.Uncompressed
		}
		values, err = in.unpack(codec, stored, size)
		return levels, values, err
	}
	values, err = in.unpack(codec, stored, size)
	if err == nil && h.Type == format.DataPage && c.nullable { // the markers follow their length
		if len(values) < 4 || int64(binary.LittleEndian.Uint32(values)) > int64(len(values)-4) {
			return nil, nil, damaged("a page has not a null marker for each row")
		}
		n := binary.LittleEndian.Uint32(values)
		levels, values = values[4:4+n], values[4+n:]
	}
	return levels, values, err
}

var errUnpack = damaged("a page does not unpack to what it says")

// ofZstd makes the decoder of all pages. It unpacks no more than there is room for.
var ofZstd = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0))
})

// unpack unpacks bytes of exactly this size, and never more.
func (in *room) unpack(codec format.CompressionCodec, stored []byte, size int64) (to []byte, err error) {
	if codec == format.Uncompressed || len(stored) == 0 && size == 0 {
		return stored, nil
	}
	in.unpacked = sized(in.unpacked, size+1) // one more, to see what is too long
	switch codec {
	case format.Snappy:
		if n, length := binary.Uvarint(stored); length <= 0 || n != uint64(size) {
			return nil, errUnpack
		}
		to, err = snappy.Decode(in.unpacked, stored)
	case format.Gzip:
		z, bad := gzip.NewReader(bytes.NewReader(stored))
		if bad != nil {
			return nil, errUnpack
		}
		n, ended := io.ReadFull(z, in.unpacked)
		if ended != io.EOF && ended != io.ErrUnexpectedEOF { // there is more, or it is damaged
			return nil, errUnpack
		}
		to = in.unpacked[:n]
	case format.Zstd:
		decoder, bad := ofZstd()
		if bad != nil {
			return nil, bad
		}
		to, err = decoder.DecodeAll(stored, in.unpacked[:0:size+1])
	}
	if err != nil || int64(len(to)) != size {
		return nil, errUnpack
	}
	return to, nil
}

// ofDictionary reports whether values are indexes into a dictionary. Older writers use another name for that.
func ofDictionary(e format.Encoding) bool {
	return e == format.RLEDictionary || e == plainDictionary
}

const plainDictionary format.Encoding = 2

// isPlain reports whether a page's values take the bytes that they have in memory.
func (p *page) isPlain() bool {
	return p.encoding == format.Plain || p.encoding == format.ByteStreamSplit
}

// checkEncoding refuses encodings that no writer uses for a column's values.
func (c *Column) checkEncoding(e format.Encoding) error {
	switch e {
	case format.Plain, plainDictionary, format.RLEDictionary, format.ByteStreamSplit, format.DeltaBinaryPacked,
		format.DeltaLengthByteArray, format.DeltaByteArray:
		return nil
	case format.RLE:
		if c.stored == pq.Boolean {
			return nil
		}
	}
	return unsupported("values in an encoding that does not belong to them")
}

// checkValues compares the number of values with what their encoding says, and the size of texts with their page.
func (c *Column) checkValues(p *page, raw []byte) error {
	switch {
	case len(raw) == 0:
	case ofDictionary(p.encoding):
		if !runsFit(raw[1:], int(raw[0]), p.values) { // after the number of bits
			return damaged("a page has not an index of its dictionary for each value")
		}
	case p.encoding == format.RLE:
		if len(raw) < 4 || !runsFit(raw[4:], 1, p.values) { // after the length
			return damaged("a page has not a truth value for each row")
		}
	case p.encoding == format.DeltaBinaryPacked, p.encoding == format.DeltaLengthByteArray:
		if _, ok := deltasFit(raw, p.values); !ok {
			return damaged("a page has more deltas than values")
		}
	case p.encoding == format.DeltaByteArray:
		return checkPrefixes(raw, p.values)
	}
	return nil
}

// runsFit reports whether runs of numbers with this many bits are no longer than the values. A run is one number
// that repeats, or packed groups of eight. Writers may pad the last groups.
func runsFit(raw []byte, width, values int) bool {
	if width > 32 {
		return false
	}
	for left := uint64(values) + 512; len(raw) > 0; {
		header, length := binary.Uvarint(raw)
		n, bytes := header>>1, uint64(width+7)/8
		if header&1 == 1 {
			n, bytes = 8*min(n, maxValues), uint64(width)*min(n, maxValues)
		}
		if length <= 0 || n > left {
			return false
		}
		left -= n
		raw = raw[min(uint64(length)+bytes, uint64(len(raw))):]
	}
	return true
}
