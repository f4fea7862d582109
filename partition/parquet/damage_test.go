package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// step is the distance of the bytes in which a bit is flipped, to save time.
const step = 7

// bodies marks the bytes of a file that belong to pages, after their headers.
func bodies(t *testing.T, b []byte) []bool {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	testkit.Must(t, err)
	in := make([]bool, len(b))
	for _, g := range f.file.Metadata().RowGroups {
		for i := range g.Columns {
			meta := &g.Columns[i].MetaData
			at := chunkStart(meta)
			for end := at + meta.TotalCompressedSize; at < end; {
				h, taken, err := f.pageHeader(at, end)
				testkit.Must(t, err)
				for at += taken; h.CompressedPageSize > 0; at++ {
					in[at] = true
					h.CompressedPageSize--
				}
			}
		}
	}
	return in
}

// A flipped bit in a page never changes cells, because pages have checksums, and a flip anywhere causes at most an
// error. In the footer and in headers a flip may go unnoticed: in a column's name, a type, or an unused offset.
func TestDamageIsAnError(t *testing.T) {
	for _, version := range []int{1, 2} {
		whole := small(t, pq.DataPageVersion(version), pq.MaxRowsPerRowGroup(25))
		_, want, err := readAll(whole, -1)
		testkit.Must(t, err)
		in := bodies(t, whole)
		noticed, others := 0, 0
		for at := 0; at < len(whole); at += step {
			b := bytes.Clone(whole)
			b[at] ^= 1 << (at % 8)
			_, got, err := readAll(b, -1)
			switch {
			case in[at] && !errors.Is(err, ErrDamaged):
				t.Fatalf("a bit of byte %d flipped in a page: error %v", at, err)
			case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported):
				t.Fatalf("a bit of byte %d flipped: %v", at, err)
			case err != nil:
				noticed++
			case !cmp.Equal(want, got):
				others++
			}
		}
		t.Logf("pages of version %d: %d flips are errors, %d give other cells", version, noticed, others)
		if share := float64(noticed) / float64(len(whole)/step); share < 0.3 {
			t.Errorf("%.0f%% of the flips were noticed", 100*share)
		}
		for n := 0; n < len(whole); n += 13 {
			if _, _, err := readAll(whole[:n], -1); !errors.Is(err, ErrDamaged) {
				t.Fatalf("the first %d bytes of %d: %v", n, len(whole), err)
			}
		}
	}
}

// made is a file with one column x and these bytes as its pages.
func made(t testing.TB, element format.SchemaElement, codec format.CompressionCodec, rows int64, pages []byte) []byte {
	t.Helper()
	element.Name = "x"
	meta := format.FileMetaData{
		Version: 2, NumRows: rows,
		Schema: []format.SchemaElement{{Name: "rows", NumChildren: thrift.New[int32](1)}, element},
		RowGroups: []format.RowGroup{{NumRows: rows, Columns: []format.ColumnChunk{{MetaData: format.ColumnMetaData{
			Type: element.Type.V, Encoding: []format.Encoding{format.Plain}, PathInSchema: []string{"x"}, Codec: codec,
			NumValues: rows, TotalCompressedSize: int64(len(pages)), DataPageOffset: 4,
		}}}}},
	}
	footer, err := thrift.Marshal(&compact, meta)
	testkit.Must(t, err)
	return file(append([]byte(Magic), pages...), footer)
}

func file(pages, footer []byte) []byte {
	b := append(slices.Clone(pages), footer...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(footer)))
	return append(b, Magic...)
}

// header is a page's header with a body.
func header(t testing.TB, h format.PageHeader, body string) []byte {
	t.Helper()
	raw, err := thrift.Marshal(&compact, h)
	testkit.Must(t, err)
	return append(raw, body...)
}

// hostile returns files that claim more than they have. They are made once.
func hostile(t testing.TB) map[string][]byte {
	t.Helper()
	claims.Do(func() { claims.files = makeHostile(t) })
	return claims.files
}

var claims struct {
	sync.Once
	files map[string][]byte
}

func makeHostile(t testing.TB) map[string][]byte {
	const huge = 1<<31 - 1
	number := format.SchemaElement{Type: thrift.New(format.Int32), RepetitionType: thrift.New(format.Required)}
	maybe := format.SchemaElement{Type: thrift.New(format.Int32), RepetitionType: thrift.New(format.Optional)}
	text := format.SchemaElement{Type: thrift.New(format.ByteArray), RepetitionType: thrift.New(format.Required),
		LogicalType: format.LogicalType{Value: new(format.StringType)}}
	data := func(values, stored, size int32) format.PageHeader {
		return format.PageHeader{Type: format.DataPage, CompressedPageSize: stored, UncompressedPageSize: size,
			DataPageHeader: thrift.New(format.DataPageHeader{NumValues: values, DefinitionLevelEncoding: format.RLE,
				RepetitionLevelEncoding: format.RLE})}
	}
	data2 := func(values, nulls, rows, levels, stored, size int32) format.PageHeader {
		return format.PageHeader{Type: format.DataPageV2, CompressedPageSize: stored, UncompressedPageSize: size,
			DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{NumValues: values, NumNulls: nulls, NumRows: rows,
				DefinitionLevelsByteLength: levels})}
	}
	dictionary := func(values, stored, size int32) format.PageHeader {
		return format.PageHeader{Type: format.DictionaryPage, CompressedPageSize: stored, UncompressedPageSize: size,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: values})}
	}
	flat := []format.SchemaElement{{Name: "rows", NumChildren: thrift.New[int32](1)}}
	nested := slices.Repeat(flat, 100)
	deep, err := thrift.Marshal(&compact, format.FileMetaData{Version: 2, Schema: append(nested, number)})
	testkit.Must(t, err)
	files := packedClaims(t)
	maps.Copy(files, map[string][]byte{
		"a list of 2^31 items": file([]byte(Magic), []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07}),
		"a list of 2^62 items": file([]byte(Magic), []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff, 0xff, 0x3f}),
		"a text of 2^31 bytes":         file([]byte(Magic), []byte{0x48, 0xff, 0xff, 0xff, 0xff, 0x07}),
		"a map of 2^31 items":          file([]byte(Magic), []byte{0xfb, 0xff, 0xff, 0xff, 0xff, 0x07, 0x88}),
		"structs in structs":           file([]byte(Magic), bytes.Repeat([]byte{0x1c}, 1<<20)),
		"lists in lists":               file([]byte(Magic), bytes.Repeat([]byte{0x19}, 1<<20)),
		"groups in groups":             file([]byte(Magic), deep),
		"a longer footer":              append(binary.LittleEndian.AppendUint32([]byte(Magic+"...."), 1<<31), Magic...),
		"no schema":                    file([]byte(Magic), []byte{0}),
		"more rows than pages":         made(t, number, format.Uncompressed, 1<<40, header(t, data(1, 4, 4), "1234")),
		"a page of 2^31 bytes":         made(t, number, format.Gzip, 1, header(t, data(1, 4, huge), "1234")),
		"a page of 2^31 stored bytes":  made(t, number, format.Gzip, 1, header(t, data(1, huge, 4), "1234")),
		"a page of less than no bytes": made(t, number, format.Gzip, 1, header(t, data(1, -1, 4), "1234")),
		"a page of 2^31 values": made(t, maybe, format.Uncompressed,
			huge, header(t, data(huge, 9, 9), "\x05\x00\x00\x00\xfe\xff\xff\xff\x0f\x00")),
		"fewer values than rows": made(t, number, format.Uncompressed, 1000, header(t, data(1000, 4, 4), "1234")),
		"no values":              made(t, number, format.Uncompressed, 1000, header(t, data(1000, 0, 0), "")),
		"texts beyond their page": made(t, text, format.Uncompressed,
			2, header(t, data(2, 8, 8), "\xff\xff\xff\x7f\x04\x00\x00\x00")),
		"fewer texts than rows": made(t, text, format.Uncompressed,
			1000, header(t, data(1000, 5, 5), "\x01\x00\x00\x00a")),
		"snappy of 2^32 bytes": made(t, number, format.Snappy, 1,
			header(t, data(1, 6, 4), "\xff\xff\xff\xff\x0f\x00")),
		"snappy of version 2": made(t, number, format.Snappy, 1,
			header(t, data2(1, 0, 1, 0, 6, 4), "\xff\xff\xff\xff\x0f\x00")),
		"levels beyond their page": made(t, maybe, format.Uncompressed,
			1, header(t, data2(1, 0, 1, huge, 4, 4), "1234")),
		"more nulls than values": made(t, maybe, format.Uncompressed,
			1, header(t, data2(1, 2, 1, 1, 4, 4), "1234")),
		"nulls that are none": made(t, maybe, format.Uncompressed,
			2, header(t, data2(2, 2, 2, 2, 2, 2), "\x04\x01")),
		"runs of nulls without end": made(t, maybe, format.Uncompressed,
			2, header(t, data2(2, 0, 2, 6, 14, 14), "\xfe\xff\xff\xff\x0f\x0112345678")),
		"more values than rows": made(t, maybe, format.Uncompressed,
			1, header(t, data2(9, 0, 1, 1, 4, 4), "1234")),
		"a dictionary of 2^31 numbers": made(t, number, format.Uncompressed,
			1, header(t, dictionary(huge, 4, 4), "1234")),
		"a dictionary of 2^31 texts": made(t, text, format.Uncompressed, 1, header(t, dictionary(huge, 4, 4), "1234")),
		"dictionaries without end": made(t, number, format.Uncompressed,
			1, bytes.Repeat(header(t, dictionary(1, 4, 4), "1234"), 1000)),
		"a header without a page": made(t, number, format.Uncompressed, 1,
			header(t, format.PageHeader{Type: format.DataPage}, "")),
		"a page of no type": made(t, number, format.Uncompressed, 1, header(t, format.PageHeader{Type: 77}, "")),
		"a column of no type": made(t, format.SchemaElement{Type: thrift.New(format.Type(77))}, format.Uncompressed,
			1, header(t, data(1, 4, 4), "1234")),
		"decimals of no length": made(t, format.SchemaElement{Type: thrift.New(format.FixedLenByteArray),
			LogicalType: format.LogicalType{Value: new(format.DecimalType)}}, format.Uncompressed, 1, header(t,
			data(1, 4, 4), "1234")),
	})
	return files
}

// A file's claims are checked against its content before anything of that size is allocated.
func TestHostileClaims(t *testing.T) {
	for name, b := range hostile(t) {
		read := 0
		var err error
		made := testkit.Allocated(func() {
			_, rows, failed := readAll(b, 10)
			read, err = len(rows), failed
		})
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) || made > 8<<20 {
			t.Errorf("%s: %d rows, %v, %d bytes made", name, read, err, made)
		}
	}
}

// A failing reader does not mean a damaged file.
func TestWhatTheDiskSaysStays(t *testing.T) {
	b := small(t)
	f, err := Open(broken{bytes.NewReader(b), 1 << 20}, int64(len(b)))
	testkit.Must(t, err)
	f.r = broken{bytes.NewReader(b), 0}
	for _, err := range f.Rows(nil) {
		if !errors.Is(err, errBroken) || errors.Is(err, ErrDamaged) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := Open(broken{bytes.NewReader(b), 0}, int64(len(b))); !errors.Is(err, errBroken) ||
		errors.Is(err, ErrDamaged) {
		t.Errorf("error %v", err)
	}
}

var errBroken = errors.New("the disk is broken")

// broken reads only below an offset.
type broken struct {
	*bytes.Reader
	to int64
}

func (b broken) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > b.to {
		return 0, errBroken
	}
	return b.Reader.ReadAt(p, at)
}

// bare returns files with one column of each sort, encoding and page version, without the checksums that keep
// decoders from damaged bytes.
func bare(t testing.TB) (files [][]byte) {
	t.Helper()
	for name := range sorts {
		c := sorts[name]
		values := rapid.Custom(func(t *rapid.T) pq.Value {
			v, _ := c.value(t)
			return v.Level(0, 1, 0)
		})
		for i, e := range c.encodings {
			var written []pq.Value
			for j := range 40 {
				if written = append(written, values.Example(j/2)); j%9 == 0 {
					written[j] = pq.NullValue()
				}
			}
			node := pq.Compressed(pq.Encoded(pq.Optional(c.typ), e), codecs[i%len(codecs)])
			b := write(t, node, written...)
			f, err := Open(bytes.NewReader(b), int64(len(b)))
			testkit.Must(t, err)
			meta := &f.file.Metadata().RowGroups[0].Columns[0].MetaData
			at := chunkStart(meta)
			var pages []byte
			for end := at + meta.TotalCompressedSize; at < end; {
				h, taken, err := f.pageHeader(at, end)
				testkit.Must(t, err)
				at += taken
				h.CRC = 0
				body := b[at : at+int64(h.CompressedPageSize)]
				pages = append(pages, header(t, *h, string(body))...)
				at += int64(len(body))
			}
			files = append(files, made(t, f.file.Metadata().Schema[1], meta.Codec, int64(len(written)), pages))
		}
	}
	return files
}

// Without checksums a flipped bit may change a value, but nothing worse.
func TestDamageWithoutChecksums(t *testing.T) {
	for i, whole := range bare(t) {
		_, want, err := readAll(whole, -1)
		if err != nil || len(want) != 40 {
			t.Fatalf("file %d: %d rows (%v)", i, len(want), err)
		}
		for at := 0; at < len(whole); at += step {
			b := bytes.Clone(whole)
			b[at] ^= 1 << (at % 8)
			if _, got, err := readAll(b, -1); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err,
				ErrUnsupported) || err == nil && len(got) != len(want) {
				t.Fatalf("file %d, a bit of byte %d flipped: %d rows, %v", i, at, len(got), err)
			}
		}
	}
}

// cutDeltas reports whether a page may be of fewer deltas than it says. The library reads their bytes from what lies
// behind the page in its buffer, so that two readings differ.
func cutDeltas(f *File) bool {
	for _, g := range f.file.Metadata().RowGroups {
		for i := range g.Columns {
			meta := &g.Columns[i].MetaData
			at, left := chunkStart(meta), meta.NumValues
			for end := at + meta.TotalCompressedSize; left > 0; {
				h, taken, err := f.pageHeader(at, end)
				if err != nil {
					break // a column that is not read
				}
				at += taken + int64(h.CompressedPageSize)
				as := h.DataPageHeader.V.Encoding
				if left -= int64(h.DataPageHeader.V.NumValues); h.Type == format.DataPageV2 {
					as = h.DataPageHeaderV2.V.Encoding
					left -= int64(h.DataPageHeaderV2.V.NumValues)
				}
				switch as {
				case format.DeltaBinaryPacked, format.DeltaLengthByteArray, format.DeltaByteArray:
					return true
				}
			}
		}
	}
	return false
}

// mostFuzzed bounds the inputs of the fuzzer.
const mostFuzzed = 1 << 16

func FuzzReadParquet(f *testing.F) {
	f.Add(small(f))
	f.Add(small(f, pq.DataPageVersion(1), pq.MaxRowsPerRowGroup(9)))
	for _, b := range bare(f) {
		f.Add(b)
	}
	for _, b := range hostile(f) {
		if len(b) <= mostFuzzed {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > mostFuzzed {
			return
		}
		file, rows, err := readAll(b, 1000)
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) {
			t.Fatalf("an error of another type: %v", err)
		}
		if err == nil && !cutDeltas(file) {
			checkNumbers(t, file, rows)
		}
	})
}
