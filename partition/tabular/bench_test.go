package tabular

import (
	"bytes"
	"os"
	"testing"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func benchmarkRead(b *testing.B, name string) {
	s, err := partition.LoadSchema(partitiontest.Shared(b, name, "schema.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	raw, err := os.ReadFile(partitiontest.Shared(b, name, "train.csv.gz"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeCSV(s, bytes.NewReader(raw), "train.csv.gz", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadFlchain(b *testing.B) { benchmarkRead(b, "flchain") } // 6,299 x 9
func BenchmarkReadCredit(b *testing.B)  { benchmarkRead(b, "credit") }  // 60,295 x 30

func creditTable(b *testing.B) *partition.Table {
	b.Helper()
	s, err := partition.LoadSchema(partitiontest.Shared(b, "credit", "schema.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	t, err := ReadCSV(s, partitiontest.Shared(b, "credit", "train.csv.gz"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func BenchmarkEncodeCredit(b *testing.B) {
	t := creditTable(b)
	e := encode.New(t.Schema())
	for b.Loop() {
		e.Encode(t)
	}
}

func BenchmarkDecodeCredit(b *testing.B) {
	t := creditTable(b)
	e := encode.New(t.Schema())
	x := e.Encode(t)
	for b.Loop() {
		for row := range x.Len() {
			if _, err := e.Decode(x.Row(row), x.Classes[row], ""); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkAssignCredit(b *testing.B) {
	t := creditTable(b)
	for b.Loop() {
		if _, err := partition.Assign(partition.Key{1}, t, 1000, partition.UnitRecord); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteCredit(b *testing.B) {
	t := creditTable(b)
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := WriteCSV(&out, t); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadSchemaIsolet(b *testing.B) { // 618 columns
	raw, err := os.ReadFile(partitiontest.Shared(b, "isolet", "schema.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := partition.ParseSchema(raw); err != nil {
			b.Fatal(err)
		}
	}
}
