package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// onFile is a configuration whose rows are in a file of a form, each of a unit or of one of many.
func onFile(t *testing.T, unit, form string) Config {
	t.Helper()
	dir, c := t.TempDir(), smallConfig(t, 3)
	table := questiontest.SmallUnits(t, unit, 40, func(int) bool { return true })
	c.Schema, c.Data, c.Unit = filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "table."+form), unit
	text := questiontest.SmallSchema
	if unit != partition.UnitRecord {
		text = strings.Replace(text, "columns:\n", "columns:\n  - {name: "+unit+", role: unit}\n", 1)
	}
	testkit.Must(t, os.WriteFile(c.Schema, []byte(text), 0o600))
	f, err := os.Create(c.Data)
	testkit.Must(t, err)
	testkit.Must(t, tabular.Write(f, form, table, nil))
	testkit.Must(t, f.Close())
	return c
}

func node(t *testing.T, c Config) *Node {
	t.Helper()
	n, err := New(c, kinds.All(), zap.NewNop())
	testkit.Must(t, err)
	return n
}

// A node that begins to stream has the manifest, the facts and the sums that it had, also of a share.
func TestANodeMayStreamFromNowOn(t *testing.T) {
	for name, c := range map[string]Config{
		"records": onFile(t, partition.UnitRecord, tabular.CSV),
		"units":   onFile(t, questiontest.UnitColumn, tabular.Parquet),
	} {
		for _, share := range [][2]float64{{0, 1}, {0.2, 0.9}} {
			c.State, c.Share = filepath.Join(t.TempDir(), "state"), share
			first := node(t, c)
			streams := c
			streams.Stream = true
			second := node(t, streams)
			if *first.manifest.Manifest != *second.manifest.Manifest {
				t.Errorf("%s of %v: the manifest was %+v and is %+v", name, share, first.manifest.Manifest,
					second.manifest.Manifest)
			}
			if a, b := facts(first.site), facts(second.site); a.Units != b.Units || b.LeastUnits != b.Units {
				t.Errorf("%s of %v: %+v, streamed %+v", name, share, a, b)
			}
			r := countRound("r", 0, 2, 1000)
			a, b := ask(t, first, r).GetSum().GetValues(), ask(t, second, r).GetSum().GetValues()
			if len(a) == 0 || !slices.Equal(a, b) {
				t.Errorf("%s of %v: the sum was %v and is %v", name, share, a, b)
			}
			sample := func(gnmax.Rate) ([]int, error) { return []int{1, 3, 4}, nil }
			testkit.Must(t, second.site.Divide())
			first.site.Sample, second.site.Sample = sample, sample
			if a, b := facts(first.site), facts(second.site); a.Units != b.Units || a.LeastUnits != b.LeastUnits {
				t.Errorf("%s of %v: %+v, divided on the disk %+v", name, share, a, b)
			}
			for run, ofRun := range map[string]func(run string) *conclavev1.Round{
				"votes":     func(run string) *conclavev1.Round { return voteRound(run, 1) },
				"gradients": func(run string) *conclavev1.Round { return sumRound(run, 1, 0.5) },
				"steps":     func(run string) *conclavev1.Round { return discriminatorRound(run, 1, nil) },
			} {
				a, b := ask(t, first, ofRun(run)), ask(t, second, ofRun(run+"-streamed"))
				if !slices.Equal(a.GetVotes().GetPacked(), b.GetVotes().GetPacked()) ||
					!slices.Equal(a.GetSum().GetValues(), b.GetSum().GetValues()) || a.GetRefusal() != nil {
					t.Errorf("%s of %v: %s were %v and are %v", name, share, run, a, b)
				}
			}
			left, err := filepath.Glob(filepath.Join(c.State, ".*"))
			if err != nil || len(left) > 0 {
				t.Errorf("%s of %v: %v is left (%v)", name, share, left, err)
			}
		}
	}
}

// Rows that are declared to be sorted by their unit give the same sums without a sort; a row that breaks the order is
// named by its number, and not by its unit.
func TestSortedByUnit(t *testing.T) {
	for _, form := range []string{tabular.CSV, tabular.Parquet} {
		c := onFile(t, questiontest.UnitColumn, form)
		schema := testkit.Value(partition.LoadSchema(c.Schema))
		table := testkit.Value(tabular.Read(schema, c.Data, tabular.Options{}))
		order := make([]int, table.Len())
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(table.Unit(a), table.Unit(b)) })
		put := func(order []int) {
			f := testkit.Value(os.Create(c.Data))
			testkit.Must(t, tabular.Write(f, form, table.Subset(order), nil))
			testkit.Must(t, f.Close())
		}
		put(order)
		c.Stream, c.State = true, filepath.Join(t.TempDir(), "state")
		sorted := c
		sorted.SortedBy, sorted.State = "unit", filepath.Join(t.TempDir(), "state")
		first, second := node(t, c), node(t, sorted)
		if a, b := facts(first.site), facts(second.site); a.Units != b.Units {
			t.Errorf("%s: %+v, sorted %+v", form, a, b)
		}
		r := countRound("r", 0, 2, 1000)
		a, b := ask(t, first, r).GetSum().GetValues(), ask(t, second, r).GetSum().GetValues()
		if len(a) == 0 || !slices.Equal(a, b) {
			t.Errorf("%s: the sum is %v, sorted %v", form, a, b)
		}
		last := len(order) - 1
		order[last], order[0] = order[0], order[last]
		put(order)
		sorted.State = filepath.Join(t.TempDir(), "state")
		_, err := ReadSite(sorted, kinds.All(), nil)
		if want := c.Data + `, row 2, column "` + questiontest.UnitColumn + `": its unit sorts before that of the ` +
			"row above, against sorted_by; sort the rows by this column, text by its bytes and numbers by " +
			"size, or remove sorted_by"; err == nil || err.Error() != want {
			t.Errorf("%s: rows that are not sorted: %v", form, err)
		}
	}
	c := onFile(t, partition.UnitRecord, tabular.CSV)
	for want, set := range map[string]func(){
		`sorted_by: "age" is unknown; use unit`: func() { c.SortedBy = "age" },
		"sorted_by: only for streamed data":     func() { c.SortedBy, c.Stream = "unit", true },
	} {
		set()
		if err := c.validateSite(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What needs records in memory is refused before any is looked at; where rows cannot be read again the reason says
// nothing of them.
func TestWhatANodeThatStreamsRefuses(t *testing.T) {
	c := onFile(t, partition.UnitRecord, tabular.CSV)
	c.Stream = true
	n := node(t, c)
	if why := ask(t, n, scoreRound("r", 1)).GetRefusal().GetReason(); !strings.Contains(why, "no fits or selections") {
		t.Errorf("scores: %q", why)
	}
	rows := testkit.Read(t, c.Data)
	testkit.Must(t, os.WriteFile(c.Data, append(rows, "0.5,1,secret,no\n"...), 0o600))
	for _, r := range []*conclavev1.Round{countRound("r", 0, 2, 1), voteRound("r", 1)} {
		if why := ask(t, n, r).GetRefusal().GetReason(); why != question.ErrRows.Error() {
			t.Errorf("%s of a file that was written: %q", r.Kind, why)
		}
	}
	if _, err := ReadSite(c, kinds.All(), nil); err == nil || !strings.Contains(err.Error(), `column "c"`) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a start: %v", err)
	}
	testkit.Must(t, os.WriteFile(c.Data, append(rows, rows[strings.Index(string(rows), "\n")+1:]...), 0o600))
	testkit.Must(t, n.manifest.store())
	if _, err := ReadSite(c, kinds.All(), nil); err == nil || !strings.Contains(err.Error(), "its data differs") {
		t.Errorf("other rows: %v", err)
	}
	c.Teachers = 1000
	if _, err := ReadSite(c, kinds.All(), nil); err == nil || !strings.Contains(err.Error(), "use fewer teachers") {
		t.Errorf("more teachers than units: %v", err)
	}
}

// A node shares its schema with other sites, so no error about its records says to change the schema.
func TestRecordsAreFixedAndNotTheSchema(t *testing.T) {
	c := onFile(t, partition.UnitRecord, tabular.CSV)
	rows := string(testkit.Read(t, c.Data))
	header, _, _ := strings.Cut(rows, "\n")
	first, _, _ := strings.Cut(header, ",")
	const ask = "; all sites share the schema: if it is wrong, ask the study's operator"
	for name, tt := range map[string]struct {
		text, fix string
		times     int
	}{
		"one missing": {strings.Replace(rows, first+",", "", 1), "add it to the file", 1},
		"one more":    {strings.Replace(rows, header, header+",new", 1), "remove it from the file", 1},
		"several": {strings.Replace(rows, header, "new,other,"+header[len(first)+1:], 1),
			"add what is missing to the file; remove from the file what is not in the schema", 1},
		"a cell": {rows + strings.Repeat("many,", strings.Count(header, ",")) + "many\n",
			"correct its spelling (case and spaces count)", strings.Count(header, ",") + 1},
		"a word": {strings.Replace(rows, header, header+"\n"+strings.Repeat("NA,", strings.Count(header, ","))+"NA", 1),
			"leave the cell empty if the column is nullable", strings.Count(header, ",") + 1},
	} {
		testkit.Must(t, os.WriteFile(c.Data, []byte(tt.text), 0o600))
		_, err := ReadSite(c, kinds.All(), nil)
		if err == nil || !strings.HasSuffix(err.Error(), ask) || !strings.Contains(err.Error(), tt.fix+ask) ||
			strings.Count(err.Error(), ask) != tt.times {
			t.Errorf("%s: %v", name, err)
		}
	}
	parts := c
	parts.Data = t.TempDir()
	for _, name := range []string{"a.csv", "b.csv"} {
		text := strings.Replace(rows, first+",", "", 1)
		testkit.Must(t, os.WriteFile(filepath.Join(parts.Data, name), []byte(text), 0o600))
	}
	if _, err := ReadSite(parts, kinds.All(), nil); err == nil || strings.Count(err.Error(), ask) != 2 {
		t.Errorf("two wrong parts: %v", err)
	}
	testkit.Must(t, os.WriteFile(c.Data, []byte(strings.Replace(rows, header, header+",", 1)), 0o600))
	if _, err := ReadSite(c, kinds.All(), nil); err == nil || !strings.Contains(err.Error(), "give it its name") {
		t.Errorf("no name: %v", err)
	}
}

// The units of each category are those that counting one unit after the other gives.
func TestUnitsByCategoryOfAStream(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		c := onFile(t, unit, tabular.CSV)
		c.Stream = true
		schema, err := partition.LoadSchema(c.Schema)
		testkit.Must(t, err)
		rows, err := c.Rows().Read(schema, nil)
		testkit.Must(t, err)
		table, err := tabular.Read(schema, c.Data, tabular.Options{})
		testkit.Must(t, err)
		count := unitsBy(rows, c.Rows())
		for _, name := range []string{"b", "c", "y"} {
			at, seen, want := schema.ColumnIndex(name), map[string]bool{}, map[string]int{}
			for row := range table.Len() {
				category, who := schema.Columns[at].CellText(table.Cells(row)[at]), table.Unit(row)
				if who == "" || !seen[who+" "+category] {
					want[category]++
				}
				seen[who+" "+category] = true
			}
			got, err := count(name)
			testkit.Must(t, err)
			testkit.Same(t, unit+" by "+name, want, got)
		}
		for _, name := range []string{"x", questiontest.UnitColumn, "none"} {
			if by, err := count(name); err == nil {
				t.Errorf("column %s has %v", name, by)
			}
		}
	}
}
