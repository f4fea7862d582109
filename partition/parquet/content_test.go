package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// codecsOf are the compressions that are read.
var codecsOf = map[format.CompressionCodec]compress.Codec{
	format.Snappy: &pq.Snappy, format.Gzip: &pq.Gzip, format.Zstd: &pq.Zstd, format.Uncompressed: &pq.Uncompressed,
}

// squeezed is a file with a column of one page: version 1, or 2 if it begins with null markers of that length. The
// page says that it unpacks to size bytes; 0 says the truth.
func squeezed(t testing.TB, e format.SchemaElement, codec format.CompressionCodec, encoding format.Encoding,
	values, size, markers int, body string) []byte {
	t.Helper()
	if size == 0 {
		size = len(body)
	}
	return paged(t, e, codec, encoding, values, size, body[:markers],
		testkit.Value(codecsOf[codec].Encode(nil, []byte(body[markers:]))))
}

// paged is squeezed for a page that is packed already, without its null markers.
func paged(t testing.TB, e format.SchemaElement, codec format.CompressionCodec, encoding format.Encoding,
	values, size int, nulls string, packed []byte) []byte {
	t.Helper()
	markers := len(nulls)
	h := format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(size),
		CompressedPageSize: int32(markers + len(packed))}
	if markers == 0 {
		h.DataPageHeader = thrift.New(format.DataPageHeader{NumValues: int32(values), Encoding: encoding,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})
	} else {
		h.Type, h.DataPageHeaderV2 = format.DataPageV2, thrift.New(format.DataPageHeaderV2{NumValues: int32(values),
			NumRows: int32(values), Encoding: encoding, DefinitionLevelsByteLength: int32(markers)})
	}
	return made(t, e, codec, int64(values), header(t, h, nulls+string(packed)))
}

const (
	// endless is a run of 2^31-1 ones.
	endless = "\xfe\xff\xff\xff\x0f\x01"
	// deltas is the header of 2^31-1 deltas in blocks of 128.
	deltas = "\x80\x01\x04\xff\xff\xff\xff\x07\x00"
)

// packedClaims are files whose pages unpack to more than they say, or to more values than they have.
func packedClaims(t testing.TB) map[string][]byte {
	t.Helper()
	number := format.SchemaElement{Type: thrift.New(format.Int32), RepetitionType: thrift.New(format.Required)}
	maybe := format.SchemaElement{Type: thrift.New(format.Int32), RepetitionType: thrift.New(format.Optional)}
	truth := format.SchemaElement{Type: thrift.New(format.Boolean), RepetitionType: thrift.New(format.Required)}
	text := format.SchemaElement{Type: thrift.New(format.ByteArray), RepetitionType: thrift.New(format.Required),
		LogicalType: format.LogicalType{Value: new(format.StringType)}}
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(endless)))
	bomb := make([]byte, 64<<20)
	files := map[string][]byte{}
	for codec := range codecsOf {
		of := func(name string, e format.SchemaElement, encoding format.Encoding, values, size, markers int,
			body string) {
			files[fmt.Sprint(name, " in ", codec)] = squeezed(t, e, codec, encoding, values, size, markers, body)
		}
		of("runs of nulls without end", maybe, format.Plain, 2, 0, 0, string(length)+endless+"12345678")
		of("indexes without end", number, format.RLEDictionary, 2, 0, 0, "\x01"+endless)
		of("indexes of version 2", maybe, format.RLEDictionary, 2, 0, 2, "\x04\x01\x01"+endless)
		of("indexes of an old writer", number, plainDictionary, 2, 0, 0, "\x01"+endless)
		of("truth values without end", truth, format.RLE, 2, 0, 0, string(length)+endless)
		of("numbers of no bits", number, format.RLE, 2, 0, 0, endless)
		of("levels as values", number, format.BitPacked, 2, 0, 0, "12345678")
		of("deltas without end", number, format.DeltaBinaryPacked, 2, 0, 0, deltas)
		of("lengths without end", text, format.DeltaLengthByteArray, 2, 0, 0, deltas)
		of("prefixes without end", text, format.DeltaByteArray, 2, 0, 0, deltas)
		of("rests without end", text, format.DeltaByteArray, 2, 0, 0, "\x80\x01\x04\x01\x00"+deltas)
		// Two texts that claim a prefix of 2^30 bytes each.
		of("long prefixes", text, format.DeltaByteArray, 2, 0, 0,
			"\x80\x01\x04\x02\x80\x80\x80\x80\x08\x00\x00\x00\x00\x00"+"\x80\x01\x04\x02\x00\x00\x00\x00\x00\x00")
		if codec != format.Uncompressed {
			packed := testkit.Value(codecsOf[codec].Encode(nil, bomb))
			files[fmt.Sprint("a bomb in ", codec)] = paged(t, number, codec, format.Plain, 2, 8, "", packed)
			files[fmt.Sprint("a bomb of version 2 in ", codec)] = paged(t, maybe, codec, format.Plain, 2, 10,
				"\x04\x01", packed)
			of("less than it says", number, format.Plain, 4, 16, 0, "12345678")
		}
	}
	return files
}

// Only what belongs to a page is unpacked, to exactly the size that it says.
func TestUnpack(t *testing.T) {
	const text = "what a page holds, what a page holds"
	for codec, c := range codecsOf {
		packed, err := c.Encode(nil, []byte(text))
		testkit.Must(t, err)
		if to, err := new(room).unpack(codec, packed, int64(len(text))); err != nil || string(to) != text {
			t.Errorf("%v: %q (%v)", codec, to, err)
		}
		none, err := c.Encode(nil, nil)
		testkit.Must(t, err)
		if to, err := new(room).unpack(codec, none, 0); err != nil || len(to) > 0 {
			t.Errorf("%v of nothing: %q (%v)", codec, to, err)
		}
		if codec == format.Uncompressed {
			continue
		}
		for _, size := range []int64{0, 1, int64(len(text)) - 1, int64(len(text)) + 1, 1000} {
			if to, err := new(room).unpack(codec, packed, size); !errors.Is(err, ErrDamaged) {
				t.Errorf("%v to %d bytes: %q (%v)", codec, size, to, err)
			}
		}
		if to, err := new(room).unpack(codec, packed[:len(packed)/2], int64(len(text))); !errors.Is(err, ErrDamaged) {
			t.Errorf("half of %v: %q (%v)", codec, to, err)
		}
	}
}

// Texts that share prefixes are read, and their deltas end where the next ones begin.
func TestPrefixesFit(t *testing.T) {
	values := make([]pq.Value, 300)
	for i := range values {
		values[i] = pq.ByteArrayValue(fmt.Appendf(nil, "the same beginning, %d", i*i))
	}
	b := write(t, pq.Encoded(pq.String(), &pq.DeltaByteArray), values...)
	_, rows, err := readAll(b, -1)
	if err != nil || len(rows) != len(values) {
		t.Fatalf("%d rows (%v)", len(rows), err)
	}
	for _, raw := range []string{"", "\x80", "\x80\x01\x00\x02\x00", "\x00\x04\x02\x00", "\x80\x01\x04\x02\x00"} {
		if _, fit := deltasFit([]byte(raw), 2); fit {
			t.Errorf("%x fits", raw)
		}
	}
}
