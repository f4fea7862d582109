package tabular

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	writer "github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
)

// streamed reads a table by a stream, in the order of its source.
func streamed(s *partition.Schema, path string, o Options, dir string) (*partition.Table, error) {
	stream, err := OpenStream(s, path, o, dir)
	if err != nil {
		return nil, err
	}
	var first *partition.Table
	for range 2 { // it can be read again
		t, err := gather(stream, s)
		if err != nil {
			return nil, err
		}
		if first != nil && t.Len() != first.Len() {
			return nil, fmt.Errorf("%d rows, and then %d", first.Len(), t.Len())
		}
		first = t
	}
	return first, nil
}

func gather(stream *Stream, s *partition.Schema) (*partition.Table, error) {
	type row struct {
		number int
		cells  []float64
		unit   string
	}
	var mu sync.Mutex
	var rows []row
	err := stream.Blocks(context.Background(), func(b *partition.Block) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range b.Len() {
			rows = append(rows, row{b.Numbers[i], slices.Clone(b.Cells(i)), b.Unit(i)})
		}
		return nil
	})
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	t := partition.NewTable(s)
	for _, r := range rows {
		t.Push(r.cells, r.unit)
	}
	return t, err
}

// forms are the ways in which a test writes a table: its path in a folder.
var forms = map[string]func(t *rapid.T, dir string, header []string, rows [][]string) string{
	"csv": func(t *rapid.T, dir string, header []string, rows [][]string) string {
		return put(t, filepath.Join(dir, "t.csv"), csvText(t, header, rows))
	},
	"csv in parts": func(t *rapid.T, dir string, header []string, rows [][]string) string {
		for i, part := range cut(t, rows) {
			put(t, filepath.Join(dir, fmt.Sprintf("p-%d.csv", i)), csvText(t, header, part))
		}
		return dir
	},
	"parquet": func(t *rapid.T, dir string, header []string, rows [][]string) string {
		return put(t, filepath.Join(dir, "t.parquet"), parquetText(t, header, rows))
	},
	"parquet in parts": func(t *rapid.T, dir string, header []string, rows [][]string) string {
		for i, part := range cut(t, rows) {
			put(t, filepath.Join(dir, fmt.Sprintf("p-%d.parquet", i)), parquetText(t, header, part))
		}
		return filepath.Join(dir, "p-*")
	},
}

func cut(t *rapid.T, rows [][]string) (parts [][][]string) {
	for len(rows) > 0 || len(parts) == 0 {
		n := rapid.IntRange(0, min(7, len(rows))).Draw(t, "rows of a part")
		parts, rows = append(parts, rows[:n]), rows[n:]
	}
	return parts
}

func put(t *rapid.T, path, text string) string {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func csvText(t *rapid.T, header []string, rows [][]string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	for _, row := range append([][]string{header}, rows...) {
		if len(row) == 1 && row[0] == "" {
			w.Flush()
			b.WriteString("\"\"\n")
			continue
		}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	return b.String()
}

func parquetText(t *rapid.T, header []string, rows [][]string) string {
	columns := map[string]parquetColumn{}
	for i, name := range header {
		columns[name] = asText
		if !slices.ContainsFunc(rows, func(row []string) bool {
			_, err := strconv.ParseFloat(row[i], 64)
			return err != nil && row[i] != "" || strings.HasPrefix(row[i], "0") && len(row[i]) > 1 // may be a code
		}) && rapid.Bool().Draw(t, "in numbers") {
			columns[name] = asDouble
		}
	}
	return string(writeParquet(t, columns, header, rows,
		writer.MaxRowsPerRowGroup(int64(rapid.IntRange(1, 9).Draw(t, "rows of a group")))))
}

// Any source gives the same rows in blocks of any size as it gives at once, of any share; and the same errors.
func TestStreamsAreTheirTables(tb *testing.T) {
	chunks, rows := chunkBytes, blockRows
	tb.Cleanup(func() { chunkBytes, blockRows = chunks, rows })
	root := tb.TempDir()
	rapid.Check(tb, func(t *rapid.T) {
		chunkBytes, blockRows = rapid.IntRange(16, 400).Draw(t, "chunk"), rapid.IntRange(1, 9).Draw(t, "block")
		s := drawtest.Schema(t)
		header, rows := partitiontest.Texts(drawtest.Table(t, s, 1, 40))
		for range rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "wrong cells") {
			row := rows[rapid.IntRange(0, len(rows)-1).Draw(t, "row")]
			row[rapid.IntRange(0, len(header)-1).Draw(t, "column")] =
				rapid.SampledFrom([]string{"%", "NaN", "-Inf", "-1e300", "0.5", "-0", "7", ""}).Draw(t, "cell")
		}
		o := rapid.SampledFrom([]Options{{}, {To: 0.5}, {From: 0.3, To: 1}}).Draw(t, "options")
		dir := testkit.Value(os.MkdirTemp(root, ""))
		form := rapid.SampledFrom(slices.Sorted(maps.Keys(forms))).Draw(t, "form")
		path := forms[form](t, dir, header, rows)
		want, wrong := Read(s, path, o)
		got, err := streamed(s, path, o, root)
		if fmt.Sprint(err) != fmt.Sprint(wrong) && !foundAtOpening(err, wrong) {
			t.Fatalf("the stream's error is\n%v\nand the table's\n%v", err, wrong)
		}
		if err == nil {
			partitiontest.SameTables(tb, want, got)
		}
		if tb.Failed() {
			t.Fatal("not the same")
		}
	})
}

// foundAtOpening tells whether a stream's errors are those of the columns of its parts, and the table also has wrong
// cells. A stream opens all parts before it reads rows, so it does not come to these cells. A table reads its parts
// one after the other, and no further than to the tenth wrong one.
func foundAtOpening(stream, table error) bool {
	var opened, read *WrongParts
	var cells *Violations
	if !errors.As(stream, &opened) || !errors.As(table, &read) || errors.As(stream, &cells) ||
		!errors.As(table, &cells) {
		return false
	}
	return read.Unread > 0 || !slices.ContainsFunc(opened.Wrong, func(wrong error) bool {
		return !strings.Contains(table.Error(), wrong.Error())
	})
}

// A site's rows are those of the table; a site without any is told.
func TestStreamsOfSites(t *testing.T) {
	s, file, folder := visitsInParts(t)
	for _, o := range []Options{{Site: "south"}, {Site: "north", To: 0.5}} {
		want, err := Read(s, file, o)
		testkit.Must(t, err)
		for _, path := range []string{file, folder} {
			got, err := streamed(s, path, o, t.TempDir())
			testkit.Must(t, err)
			partitiontest.SameTables(t, want, got)
		}
	}
	_, err := streamed(s, file, Options{Site: "south", To: 0.0001}, t.TempDir())
	if err == nil || err.Error() != file+": no row belongs to this site and share; check site and share" {
		t.Errorf("no row: %v", err)
	}
}

// Many wrong parts: as many are told as of the table.
func TestStreamsOfManyWrongParts(t *testing.T) {
	s, _, folder := visitsInParts(t)
	for i := range 12 {
		path := filepath.Join(folder, fmt.Sprintf("part-%d.csv", i))
		text := testkit.Value(os.ReadFile(path))
		testkit.Must(t, os.WriteFile(path, append(text, "east,7\n"...), 0o600))
	}
	_, want := Read(s, folder, Options{})
	_, got := streamed(s, folder, Options{}, t.TempDir())
	if got == nil || got.Error() != want.Error() || !strings.Contains(got.Error(), "the other parts were not read") {
		t.Errorf("the stream's error is\n%v\nand the table's\n%v", got, want)
	}
}

// What is done with blocks may fail, and the wait may end; a file that was written is not read on.
func TestStreamsThatEnd(t *testing.T) {
	s, file, _ := visitsInParts(t)
	stream, err := OpenStream(s, file, Options{}, t.TempDir())
	testkit.Must(t, err)
	why := errors.New("why")
	if err := stream.Blocks(context.Background(), func(*partition.Block) error { return why }); !errors.Is(err, why) {
		t.Errorf("the error of who takes blocks: %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := stream.Blocks(ctx, func(*partition.Block) error { return nil }); !errors.Is(err, why) {
		t.Errorf("nobody waits: %v", err)
	}
	testkit.Must(t, os.Chtimes(file, time.Now(), time.Now().Add(-time.Hour)))
	if _, err := gather(stream, s); !errors.Is(err, partition.ErrChanged) {
		t.Errorf("a file that was written: %v", err)
	}
	testkit.Must(t, os.Remove(file))
	if _, err := gather(stream, s); !errors.Is(err, partition.ErrChanged) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}

// A file that is written while others are read is told as such, and not as rows that are wrong.
func TestAFileThatIsWrittenMeanwhile(t *testing.T) {
	s, file, folder := visitsInParts(t)
	text := testkit.Value(os.ReadFile(file))
	var last string
	for i := range 2*runtime.GOMAXPROCS(0) + 4 { // more than are read before a block is taken
		last = filepath.Join(folder, fmt.Sprintf("part-%d.csv", 100+i))
		testkit.Must(t, os.WriteFile(last, text, 0o600))
	}
	stream, err := OpenStream(s, folder, Options{}, t.TempDir())
	testkit.Must(t, err)
	var once sync.Once
	err = stream.Blocks(context.Background(), func(*partition.Block) error {
		once.Do(func() { testkit.Must(t, os.WriteFile(last, []byte("no such column\n7\n"), 0o600)) })
		return nil
	})
	if !errors.Is(err, partition.ErrChanged) || !strings.Contains(err.Error(), filepath.Base(last)) {
		t.Errorf("error %v", err)
	}
}
