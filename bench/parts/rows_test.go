package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Both formats have the same rows. The sum of pairs is the same read in blocks and from records in memory.
func TestFormatsHaveTheSameSum(t *testing.T) {
	const rows = 3000
	var sums [][]int64
	for _, name := range []string{"table.csv", "table.parquet"} {
		path := filepath.Join(t.TempDir(), name)
		testkit.Must(t, writeTable(path, rows, false))
		if n, err := rowsOf(path); err != nil || n != rows {
			t.Fatalf("%s: %d rows, %v", name, n, err)
		}
		s, err := partition.LoadSchema(schemaPath(path))
		testkit.Must(t, err)
		stream, err := tabular.OpenStream(s, path, tabular.Options{}, t.TempDir())
		testkit.Must(t, err)
		streamed := question.NewStreamedSite(question.NewPublic(s, 1, 1), stream, nil, rows, "")
		held, err := encoded(s, stream)
		testkit.Must(t, err)
		if got := held.Rows.(inMemory).bytes(); got < rows*22 {
			t.Errorf("%s: %d bytes", name, got)
		}
		for _, site := range []*question.Site{streamed, held} {
			sum, err := largest(site, s, path, marginals)
			testkit.Must(t, err)
			sums = append(sums, sum)
		}
	}
	for i := range sums {
		if len(sums[i]) == 0 || !slices.Equal(sums[i], sums[0]) {
			t.Errorf("sum %d of %d entries is another one than the first of %d", i, len(sums[i]), len(sums[0]))
		}
	}
}

// The least processor time counts, and an exponent is that from the line before.
func TestShow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "measured.jsonl")
	var lines bytes.Buffer
	for _, r := range []result{
		{What: pandas, Format: "csv", Rows: 10, CPU: 2, Version: "1.5.3"},
		{What: whole, Format: "csv", Rows: 10, CPU: 3}, {What: whole, Format: "csv", Rows: 10, CPU: 1, PeakMiB: 7},
		{What: reading, Format: "parquet", Rows: 10, CPU: 1, PerCore: 10},
		{What: reading, Format: "parquet", Rows: 1000, CPU: 10, PerCore: 100},
		{What: pairs, Format: "parquet", Rows: 10, CPU: 1, PerCore: 10, Bytes: 200, Triad: 2e10},
	} {
		testkit.Must(t, json.NewEncoder(&lines).Encode(r))
	}
	testkit.Must(t, os.WriteFile(path, lines.Bytes(), 0o600))
	var out strings.Builder
	testkit.Must(t, showRows(&out, path))
	for _, want := range []string{
		"| CSV into memory | 10 | 1.00 s | 0.50 | 7 MiB |", "| `reading` | 1000 | 10.00 s | 0.50 | 100 | 0 MiB |",
		"| 10 rows a second and core | 200 | 20.0 GB/s | 100000000 | 0.0 % |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
}

// The tables of pages are those of rows.jsonl.
func TestPagesShowTheLog(t *testing.T) {
	var out strings.Builder
	testkit.Must(t, showRows(&out, "rows.jsonl"))
	for _, page := range []string{"README.md", filepath.Join("..", "..", "docs", "data-streams.md")} {
		_, shown, begins := strings.Cut(string(testkit.Read(t, page)), "show -->\n")
		shown, _, ends := strings.Cut(shown, "\n<!-- /")
		if !begins || !ends || !strings.Contains(out.String(), shown) {
			t.Errorf("%s shows other figures than: go run ./bench/parts rows show bench/parts/rows.jsonl", page)
		}
	}
}

// Each kind of work but the sums, on a table of persons, and one that there is not.
func TestMeasureKnowsItsWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.parquet")
	testkit.Must(t, writeTable(path, 100, true))
	for _, what := range []string{whole, reading, encoding, start} {
		r, err := measure(context.Background(), path, what)
		if err != nil || r.Rows != 100 || r.What != what || r.CPU <= 0 || r.PeakMiB <= 0 {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	if _, err := measure(context.Background(), path, "dance"); err == nil {
		t.Error("unknown work was done")
	}
}
