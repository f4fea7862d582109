package tabular

import (
	"bytes"
	"io"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func benchmarkRead(b *testing.B, name string) {
	s, err := partition.LoadSchema(partitiontest.Shared(b, name, "schema.yaml"))
	testkit.Must(b, err)
	raw := testkit.Read(b, partitiontest.Shared(b, name, "train.csv.gz"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeCSV(s, bytes.NewReader(raw), "train.csv.gz", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadFlchain(b *testing.B) { benchmarkRead(b, "flchain") } // 6,299 x 9
func BenchmarkReadCredit(b *testing.B)  { benchmarkRead(b, "credit") }  // 60,295 x 30

func BenchmarkCredit(b *testing.B) {
	s, err := partition.LoadSchema(partitiontest.Shared(b, "credit", "schema.yaml"))
	testkit.Must(b, err)
	t, err := ReadCSV(s, partitiontest.Shared(b, "credit", "train.csv.gz"), Options{})
	testkit.Must(b, err)
	e := encode.New(s)
	x := e.Encode(t)
	for name, f := range map[string]func() error{
		"encode": func() error { e.Encode(t); return nil },
		"decode": func() (err error) {
			for row := range x.Len() {
				if _, err = e.Decode(x.Row(row), x.Classes[row], ""); err != nil {
					break
				}
			}
			return err
		},
		"assign": func() error {
			_, err := partition.Assign(partition.Key{1}, t, 1000, partition.UnitRecord)
			return err
		},
		"write": func() error { return WriteCSV(io.Discard, t) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				testkit.Must(b, f())
			}
		})
	}
}

func BenchmarkLoadSchemaIsolet(b *testing.B) { // 618 columns
	raw := testkit.Read(b, partitiontest.Shared(b, "isolet", "schema.yaml"))
	for b.Loop() {
		if _, err := partition.ParseSchema(raw); err != nil {
			b.Fatal(err)
		}
	}
}
