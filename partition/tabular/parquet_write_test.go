package tabular

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
)

func TestTablesInParquetComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawtest.Schema(rt)
		want := drawtest.Table(rt, s, 1, 20)
		var b bytes.Buffer
		testkit.Must(t, Write(&b, Parquet, want, nil))
		got, err := DecodeParquet(s, bytes.NewReader(b.Bytes()), int64(b.Len()), "t.parquet", Options{})
		testkit.Must(t, err)
		partitiontest.SameTables(t, want, got)
	})
}

func TestWeightsInParquetComeBack(t *testing.T) {
	s := partitiontest.Clinic(t)
	rows, err := Read(s, partitiontest.File("clinic", "visits.csv"), Options{})
	testkit.Must(t, err)
	weights := make([]float64, rows.Len())
	for i := range weights {
		weights[i] = 2 * float64(i) / float64(len(weights)-1)
	}
	var b bytes.Buffer
	testkit.Must(t, Write(&b, Parquet, rows, weights))
	read := func(o Options) (*partition.Table, error) {
		return DecodeParquet(s, bytes.NewReader(b.Bytes()), int64(b.Len()), "t.parquet", o)
	}
	got, err := read(Options{Weights: true})
	testkit.Must(t, err)
	partitiontest.SameTables(t, rows, got)
	testkit.Same(t, "weights", weights, got.Weights())
	if _, err := read(Options{}); err == nil || !strings.Contains(err.Error(), "importance weights") {
		t.Errorf("weights where none were expected: %v", err)
	}
	weights[0] = -1
	if err := Write(&b, Parquet, rows, weights); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("a negative weight: %v", err)
	}
	if err := Write(&b, "xls", rows, nil); err == nil || !strings.Contains(err.Error(), "use csv or parquet") {
		t.Errorf("a form that there is not: %v", err)
	}
}
