package tabular

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// readAll reads records in chunks of about so many bytes, with the lines of their fields, up to broken quotes.
func readAll(t testing.TB, text string, size int) (all [][]string, lines [][]int, broken bool) {
	chunks := &chunks{from: strings.NewReader(text), buffer: make([]byte, size)}
	before := 0
	for {
		piece, err := chunks.next()
		if errors.Is(err, io.EOF) {
			return all, lines, false
		}
		testkit.Must(t, err)
		r := newRecords(piece, ',')
		for {
			fields, more, ok := r.next()
			if !ok {
				return all, lines, true
			}
			if !more {
				break
			}
			all = append(all, append([]string(nil), fields...))
			var at []int
			for i := range fields {
				at = append(at, before+r.lineOf(i))
			}
			lines = append(lines, at)
		}
		before += strings.Count(piece, "\n")
	}
}

// sameAsStandard compares with encoding/csv, whatever the size of chunks.
func sameAsStandard(t rapid.TB, tb testing.TB, text string, size int) {
	all, lines, broken := readAll(tb, text, size)
	standard := csv.NewReader(strings.NewReader(text))
	standard.FieldsPerRecord = -1
	var want [][]string
	var wantLines [][]int
	var failed error
	for {
		record, err := standard.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if failed = err; err != nil {
			break
		}
		var at []int
		for i := range record {
			line, _ := standard.FieldPos(i)
			at = append(at, line)
		}
		want, wantLines = append(want, record), append(wantLines, at)
	}
	if broken != (failed != nil) {
		t.Fatalf("broken is %v, encoding/csv: %v\n%q", broken, failed, text)
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Fatalf("%q in chunks of %d:\n%s", text, size, diff)
	}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Fatalf("lines of %q in chunks of %d:\n%s", text, size, diff)
	}
}

func TestRecordsAreThoseOfTheStandardLibrary(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{"a", "bc", ",", ",", "\n", "\r\n", "\"x\"", "\"", "\"\"",
			"\"q\"\"r\"", "\"l\nm\"", "\"l\r\nm\",", "\r", " ", "é"})).Draw(t, "pieces")
		sameAsStandard(t, tb, strings.Join(pieces, ""), rapid.IntRange(1, 20).Draw(t, "chunk"))
	})
}

func FuzzRecords(f *testing.F) {
	f.Add("a,b\r\n\"x\"\"y\",\"l\r\nm\"\n\n1,2", 3)
	f.Add("a\"b\n", 1)
	f.Add("\"a\"b\n", 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		sameAsStandard(t, t, text, 1+int(uint(size)%64))
	})
}
