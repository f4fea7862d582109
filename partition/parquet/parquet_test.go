package parquet

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/draws"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// All sorts of columns, encodings, codecs and page versions are restored as texts.
func TestWhatIsWrittenIsRead(t *testing.T) {
	draws.Costly(t, func(t *rapid.T) {
		b, kinds, want := drawFile(t)
		f, got, err := readAll(b, -1)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range f.Columns {
			if c.Kind != kinds[i] {
				t.Fatalf("column %d is of kind %d, want %d", i, c.Kind, kinds[i])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || f.Len() != int64(len(want)) {
			t.Fatalf("%d rows (-want +got):\n%s", f.Len(), diff)
		}
		checkNumbers(t, f, want)
	})
}

// write makes a file with one column x of these values.
func write(t testing.TB, node pq.Node, values ...pq.Value) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pq.NewWriter(&b, pq.NewSchema("rows", pq.Group{"x": node}))
	for _, v := range values {
		if _, err := w.WriteRows([]pq.Row{{v}}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

func TestTextsOfTypes(t *testing.T) {
	at := time.Date(2024, 2, 29, 13, 4, 5, 0, time.UTC)
	uuid := pq.FixedLenByteArrayValue([]byte{0xf8, 0x1d, 0x4f, 0xae, 0x7d, 0xec, 0x11, 0xd0, 0xa7, 0x65, 0, 0xa0,
		0xc9, 0x1e, 0x6b, 0xf6})
	for _, c := range []struct {
		node  pq.Node
		value pq.Value
		kind  Kind
		want  string
	}{
		{pq.Leaf(pq.FloatType), pq.FloatValue(1.1), Number, "1.1"},
		{pq.Leaf(pq.FloatType), pq.FloatValue(float32(math.NaN())), Number, "NaN"},
		{pq.Leaf(pq.DoubleType), pq.DoubleValue(math.Inf(-1)), Number, "-Inf"},
		{pq.Leaf(pq.DoubleType), pq.DoubleValue(1e-7), Number, "1e-07"},
		{pq.Int(8), pq.Int32Value(-7), Whole, "-7"},
		{pq.Uint(64), pq.Int64Value(-1), Whole, "18446744073709551615"},
		{pq.Decimal(2, 9, pq.Int32Type), pq.Int32Value(-5), Number, "-0.05"},
		{pq.Decimal(0, 9, pq.Int32Type), pq.Int32Value(-5), Whole, "-5"},
		{pq.Decimal(3, 18, pq.Int64Type), pq.Int64Value(math.MinInt64), Number, "-9223372036854775.808"},
		{pq.Decimal(1, 20, pq.FixedLenByteArrayType(9)),
			pq.FixedLenByteArrayValue([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf6}), Number, "-1.0"},
		{pq.Decimal(20, 40, pq.ByteArrayType), pq.ByteArrayValue([]byte{0x01, 0, 0, 0, 0, 0, 0, 0, 0}), Number,
			"0.18446744073709551616"},
		{pq.Decimal(0, 40, pq.ByteArrayType), pq.ByteArrayValue([]byte{0x80}), Whole, "-128"},
		{pq.Date(), pq.Int32Value(19782), Time, "2024-02-29"},
		{pq.Date(), pq.Int32Value(-1), Time, "1969-12-31"},
		{pq.Time(pq.Millisecond), pq.Int32Value(47045120), Time, "13:04:05.12"},
		{pq.Time(pq.Nanosecond), pq.Int64Value(47045000000001), Time, "13:04:05.000000001"},
		{pq.TimestampAdjusted(pq.Millisecond, false), pq.Int64Value(at.UnixMilli()), Time, "2024-02-29 13:04:05"},
		{pq.TimestampAdjusted(pq.Microsecond, false), pq.Int64Value(-500000), Time, "1969-12-31 23:59:59.5"},
		{pq.Timestamp(pq.Nanosecond), pq.Int64Value(at.UnixNano() + 120), Time, "2024-02-29 13:04:05.00000012+00"},
		{pq.UUID(), uuid, Text, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"},
		{pq.JSON(), pq.ByteArrayValue([]byte(`{"a":1}`)), Text, `{"a":1}`},
		{pq.Enum(), pq.ByteArrayValue([]byte("é")), Text, "é"},
		{pq.Optional(pq.Leaf(pq.NullType)), pq.NullValue(), Null, ""},
	} {
		f, rows, err := readAll(write(t, c.node, c.value), -1)
		if err != nil {
			t.Errorf("%v: %v", c.node.Type(), err)
			continue
		}
		if diff := cmp.Diff([][]string{{c.want}}, rows); diff != "" || f.Columns[0].Kind != c.kind {
			t.Errorf("%v: kind %d (-want +got):\n%s", c.node.Type(), f.Columns[0].Kind, diff)
		}
	}
}

// An unsupported column is refused by name, and causes no error if it is not wanted.
func TestOtherFormsAreRefused(t *testing.T) {
	for want, node := range map[string]pq.Node{
		"bytes that are not said to be text": pq.Leaf(pq.ByteArrayType),
		"bytes of a fixed length":            pq.Leaf(pq.FixedLenByteArrayType(4)),
		"a time of 96 bits":                  pq.Leaf(pq.Int96Type),
		"a repeated column":                  pq.Repeated(pq.Int(32)),
		"a list or another nested column":    pq.List(pq.Int(32)),
		"a decimal number of more places":    pq.Decimal(2000, 2001, pq.ByteArrayType),
		"BSON":                               pq.BSON(),
		"an unsupported type":                pq.Geometry("OGC:CRS84"),
	} {
		if !node.Repeated() {
			node = pq.Optional(node)
		}
		var b bytes.Buffer
		w := pq.NewWriter(&b, pq.NewSchema("rows", pq.Group{"x": node, "y": pq.Int(32)}))
		y := pq.Int32Value(5).Level(0, 0, 1)
		if _, err := w.WriteRows([]pq.Row{{pq.NullValue().Level(0, 0, 0), y}}); err != nil {
			t.Fatal(err)
		}
		testkit.Must(t, w.Close())
		f, _, err := readAll(b.Bytes(), -1)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), `row group 1, column "x": `) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			continue
		}
		for cells, err := range f.Rows(func(column int) bool { return f.Columns[column].Name == "y" }) {
			if diff := cmp.Diff([]string{"", "5"}, cells); diff != "" || err != nil {
				t.Errorf("%s: the column beside it: %v (%v)", want, cells, err)
			}
		}
	}
	for _, codec := range []compress.Codec{&pq.Brotli, &pq.Lz4Raw} {
		b := write(t, pq.Compressed(pq.Int(32), codec), pq.Int32Value(1))
		if _, _, err := readAll(b, -1); !errors.Is(err, ErrUnsupported) ||
			!strings.Contains(err.Error(), "its compression is not snappy, gzip or zstd") {
			t.Errorf("%v: %v", codec, err)
		}
	}
	sealed := bytes.Replace(small(t), []byte(Magic), []byte(magicEncrypted), 1)
	if _, _, err := readAll(sealed, -1); !errors.Is(err, ErrUnsupported) ||
		!strings.Contains(err.Error(), "encrypted") {
		t.Errorf("an encrypted file: %v", err)
	}
}
