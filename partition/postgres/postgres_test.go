package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/pgserver"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const visits = `name: visits
label: died
columns:
  - {name: patient, role: unit}
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: dose, kind: continuous, lower: -10, upper: 10, nullable: true}
  - {name: ratio, kind: continuous, lower: 0, upper: 1}
  - {name: cost, kind: continuous, lower: 0, upper: 1e6, clip: [0, 1000]}
  - {name: grade, kind: categorical, categories: ["1", "2", "3"], nullable: true}
  - {name: ward, kind: categorical, categories: [north, "south, upper"], role: site}
  - {name: died, kind: binary}
`

const visitsTable = `create type ward as enum ('north', 'south, upper');
create domain clinic_id as text; create domain clinic_flag as smallint;
create table visits (patient text, age smallint, dose double precision, ratio real, cost numeric,
	grade int, ward ward, died boolean)`

func TestPostgreSQL(t *testing.T) {
	server := pgserver.Start(t)
	t.Setenv("TEST_DSN", server.DSN)
	server.Exec(t, visitsTable)
	file := drawVisits(t)
	raw := testkit.Read(t, file)
	server.CopyCSV(t, "visits", bytes.NewReader(raw))
	s, err := partition.ParseSchema([]byte(visits))
	testkit.Must(t, err)
	t.Run("drawn rows", func(t *testing.T) {
		for _, query := range []string{
			"select * from visits", "select died, ward, grade, cost, ratio, dose, age," +
				" patient from visits order by random()", "table visits",
			"select patient::clinic_id, age::text, dose::text::varchar, ratio, cost::text, grade::char(1)," +
				" ward::text," +
				" died::int::clinic_flag as died from visits;",
		} {
			for _, o := range []tabular.Options{{}, {Site: "north"}, {From: 0.25, To: 0.75}} {
				same(t, s, file, Config{DSNEnv: "TEST_DSN", Query: query, Timeout: time.Minute}, o, "patient")
			}
		}
	})
	t.Run("the example", func(t *testing.T) { sameExample(t, server) })
	t.Run("times", func(t *testing.T) { times(t) })
	t.Run("encryption", func(t *testing.T) { encryption(t, server, s) })
	t.Run("lost", func(t *testing.T) { lost(t, server, s) })
	t.Run("in blocks", func(t *testing.T) { streamed(t, server, s) })
	t.Run("refused", func(t *testing.T) { refused(t, server, s) })
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			asleep(t, server)
			cancel()
		}()
		begun := time.Now()
		_, err := Read(ctx, s, Config{DSNEnv: "TEST_DSN", Query: "select visits.* from visits, pg_sleep(600)",
			Timeout: 10 * time.Minute}, tabular.Options{})
		if took := time.Since(begun); !errors.Is(err, context.Canceled) || took > time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// drawVisits writes random rows with every sort of cell, some of them equal.
func drawVisits(t *testing.T) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 1))
	var b strings.Builder
	b.WriteString("patient,age,dose,ratio,cost,grade,ward,died\n")
	for i := range 400 {
		dose, grade := fmt.Sprint(20*rng.Float64()-10), fmt.Sprint(1+rng.IntN(3))
		if rng.IntN(4) == 0 {
			dose = []string{"", "1.50", "-0", "1e-7"}[rng.IntN(4)]
		}
		if rng.IntN(4) == 0 {
			grade = ""
		}
		line := fmt.Sprintf("\"p, \"\"%d\"\"\nünit\",%d,%s,%v,%d.%02d,%s,%s,%d\n",
			rng.IntN(60), rng.IntN(121), dose, rng.Float32(), rng.IntN(2000), rng.IntN(100), grade,
			[]string{"north", `"south, upper"`}[rng.IntN(2)], rng.IntN(2))
		b.WriteString(line)
		if i%10 == 0 {
			b.WriteString(line)
		}
	}
	path := filepath.Join(t.TempDir(), "visits.csv")
	testkit.Must(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// same compares a query's table, partitions and manifest with those of a file.
func same(t *testing.T, s *partition.Schema, file string, c Config, o tabular.Options, unit string) {
	t.Helper()
	csv, err := tabular.Read(s, file, o)
	testkit.Must(t, err)
	sql, err := Read(context.Background(), s, c, o)
	testkit.Must(t, err)
	want := sorted(csv)
	if diff := cmp.Diff(cells(want), cells(sql), cmpopts.EquateNaNs()); diff != "" {
		t.Fatalf("cells (-csv +sql):\n%s", diff)
	}
	key := partition.Key{1, 2, 3}
	for _, unit := range []string{partition.UnitRecord, unit} {
		ofCSV, manifest := divide(t, key, want, unit)
		ofSQL, got := divide(t, key, sql, unit)
		if diff := cmp.Diff(ofCSV, ofSQL); diff != "" {
			t.Errorf("unit %s: partitions: %s", unit, diff)
		}
		// The file's own order gives the same manifest.
		_, asRead := divide(t, key, csv, unit)
		if diff := cmp.Diff(manifest, got) + cmp.Diff(asRead, got); diff != "" {
			t.Errorf("unit %s: manifests: %s", unit, diff)
		}
	}
}

func cells(t *partition.Table) (rows [][]float64) {
	for row := range t.Len() {
		rows = append(rows, t.Cells(row))
	}
	return rows
}

func divide(t *testing.T, key partition.Key, table *partition.Table, unit string) ([]int, *partition.Manifest) {
	t.Helper()
	a, err := partition.Assign(key, table, 7, unit)
	testkit.Must(t, err)
	m, err := partition.BuildManifest(key, "visits", "north", "0", table, a.Partitions, unit)
	testkit.Must(t, err)
	return a.Of, m
}

// sameExample compares the rows of the demo's example.
func sameExample(t *testing.T, server *pgserver.Server) {
	dir := filepath.Join("..", "..", "examples", "flchain")
	s, err := partition.LoadSchema(filepath.Join(dir, "schema.yaml"))
	testkit.Must(t, err)
	file := filepath.Join(dir, "train.csv.gz")
	table, err := tabular.Read(s, file, tabular.Options{})
	testkit.Must(t, err)
	var columns []string
	for i, c := range s.Columns {
		columns = append(columns, fmt.Sprintf("%q %s", c.Name, map[partition.ColumnKind]string{
			partition.Integer: "bigint", partition.Binary: "boolean", partition.Categorical: "text",
			partition.Continuous: []string{"numeric", "double precision"}[i%2],
		}[c.Kind]))
	}
	server.Exec(t, "create table flchain ("+strings.Join(columns, ", ")+")")
	var rows bytes.Buffer
	testkit.Must(t, tabular.WriteCSV(&rows, table))
	server.CopyCSV(t, "flchain", &rows)
	same(t, s, file, Config{DSNEnv: "TEST_DSN", Query: "select * from flchain", Timeout: time.Minute},
		tabular.Options{}, partition.UnitRecord)
}

// refused checks each error's message, and that it has no password and no cell.
func refused(t *testing.T, server *pgserver.Server, s *partition.Schema) {
	server.Exec(t, `create table bad as select * from visits;
		update bad set age = 77 where ctid = (select min(ctid) from bad);
		create table secrets as select 'the-diagnosis' as word; create user reader password 'x'`)
	reader := strings.Replace(server.DSN, "tester:"+pgserver.Password, "reader:x", 1)
	const tooSlow = "too slow"
	all := "patient, age, dose, ratio, cost, grade, ward, died"
	for _, c := range []struct{ name, dsn, query, want string }{
		{"a wrong password", strings.Replace(server.DSN, pgserver.Password, pgserver.Password+"-wrong", 1),
			"table visits", "refused the user, the password or the connection (SQLSTATE 28P01)"},
		{"no such database", strings.Replace(server.DSN, "/postgres?", "/other?", 1), "table visits",
			"no such database (SQLSTATE 3D000)"},
		{"no server", strings.Replace(server.DSN, fmt.Sprint(server.Port), "1", 1), "table visits",
			"no connection to 127.0.0.1, port 1"},
		{"no connection string", "postgres://tester:" + pgserver.Password + "@127.0.0.1:x/", "table visits",
			"the connection string is not valid"},
		{"bad TLS files", server.DSN + "&sslrootcert=/nowhere&sslmode=verify-full", "table visits",
			"the connection string is not valid"},
		{"no right to read", reader, "table visits",
			"may not read the tables of the query (SQLSTATE 42501); grant it SELECT"},
		{"a syntax error", "", "select from from visits", "sql.query, character 13: syntax error"},
		{"an unknown table", "", "select * from visit", `sql.query, character 15: relation "visit" does not exist`},
		{"two statements", "", "table visits; delete from visits", "cannot insert multiple commands"},
		{"a parameter", "", "select * from visits where age = $1", "it has parameters"},
		{"no columns", "", "commit", "it gives no columns"},
		{"a write", "", "with x as (delete from visits returning *) select * from x",
			"the query would write, but its transaction is read-only (SQLSTATE 25006)"},
		{"an escape from reading", "", "select " + all + " from visits where set_config('transaction_read_only'," +
			" 'off', true) = 'off'", "cannot read the rows (SQLSTATE 25001)"},
		{tooSlow, "", "select " + all + " from visits, pg_sleep(600)", "longer than sql.timeout"},
		{"a value of a row", "", "select " + strings.Replace(all, "age", "word::int as age",
			1) + " from visits, secrets", "cannot compute a value of some row (SQLSTATE 22P02)"},
		{"a raised value", "", "select " + strings.Replace(all, "age", "xmlparse(document word)::text::int as age",
			1) + " from visits, secrets", "SQLSTATE"},
		{"a missing column", "", "select patient, age from visits",
			`6 columns are missing from the query: "dose", "ratio", "cost", "grade", "ward", "died"; add what is`},
		{"a column too many", "", "select *, 1 as more from visits",
			`column "more": the column is not in the schema; remove it from the query`},
		{"a column twice", "", "select *, age from visits", `column "age": the column is in the query twice`},
		{"none of the columns", "", "select 1 as x", "none of the schema's columns"},
		{"a text that is no number", "", "select " + strings.Replace(all, "age", "word as age",
			1) + " from visits, secrets", `column "age": 440 times not a finite decimal number`},
		{"a date", "", "select " + strings.Replace(all, "age", "current_date as age", 1) + " from visits",
			`column "age": the query has dates or times there, the schema numbers; cast it`},
		{"a fraction for a category", "", "select " + strings.Replace(all, "grade", "1.5 as grade", 1) + " from visits",
			`column "grade": the query has numbers with a fraction there, the schema categories`},
		{"an array", "", "select " + strings.Replace(all, "age", "array[4711] as age", 1) + " from visits",
			`column "age": the query has values of the type integer[] there, the schema numbers; cast it`},
		{"an array of enums", "", "select " + strings.Replace(all, "ward", "array[ward] as ward", 1) + " from visits",
			`column "ward": the query has values of the type ward[] there, the schema categories`},
		{"a row", "", "select " + strings.Replace(all, "patient", "visits as patient", 1) + " from visits",
			`column "patient": the query has values of the type visits there, the schema identifiers`},
		{"json", "", "select " + strings.Replace(all, "patient", "to_jsonb(patient) as patient", 1) + " from visits",
			`column "patient": the query has values of the type jsonb there`},
		{"money", "", "select " + strings.Replace(all, "cost", "cost::money as cost", 1) + " from visits",
			`column "cost": the query has values of the type money there`},
		{"an interval", "", "select " + strings.Replace(all, "cost", "now() - now() as cost", 1) + " from visits",
			`column "cost": the query has values of the type interval there`},
		{"a null", "", "select " + strings.Replace(all, "age", "null::int as age", 1) + " from visits",
			`(rows 1, 2, 3, 4, 5, ...); fill it, or set nullable: true`},
		{"NaN", "", "select " + strings.Replace(all, "dose", "'NaN'::float8 as dose", 1) + " from visits",
			`column "dose": 440 times not a number but a word for a missing value`},
		{"infinity", "", "select " + strings.Replace(all, "dose", "'-Infinity'::numeric as dose", 1) + " from visits",
			`column "dose": 440 times not a finite number`},
		{"a number out of bounds", "", "select " + strings.Replace(all, "age", "age + 4711 as age", 1) + " from bad",
			`column "age": 440 times outside the bounds`},
		{"an unknown category", "", "select " + strings.Replace(all, "ward", "word as ward",
			1) + " from visits, secrets", `column "ward": 440 times the cell is not one of the schema's categories`},
		{"no row", "", "select * from visits where false", "sql: the query gives no row; check the query"},
	} {
		dsn := c.dsn
		if dsn == "" {
			dsn = server.DSN
		}
		path := filepath.Join(t.TempDir(), "dsn")
		testkit.Must(t, os.WriteFile(path, []byte(dsn+"\n"), 0o600))
		read := func(timeout time.Duration) error {
			_, err := Read(context.Background(), s, Config{DSNFile: path, Query: c.query, Timeout: timeout},
				tabular.Options{})
			return err
		}
		timeout := testkit.Patience
		if c.name == tooSlow {
			timeout = time.Second
		}
		err := read(timeout)
		for timeout < testkit.Patience && strings.Contains(fmt.Sprint(err), "no connection") {
			timeout *= 2 // the machine is busy
			err = read(timeout)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			for _, secret := range []string{pgserver.Password, "the-diagnosis", "4711", "4788", "reader:x"} {
				if strings.Contains(fmt.Sprintf("%v %+v", e, e), secret) {
					t.Errorf("%s: the error holds %q: %v", c.name, secret, e)
				}
			}
		}
	}
	left, err := Read(context.Background(), s, Config{DSNEnv: "TEST_DSN", Query: "table visits", Timeout: time.Minute},
		tabular.Options{})
	if err != nil || left.Len() != 440 {
		t.Errorf("the table is not what it was: %v", err)
	}
}

// times checks that identifiers that are times look the same as from Parquet.
func times(t *testing.T) {
	s, err := partition.ParseSchema([]byte("columns: [{name: at, role: unit}, {name: x, kind: binary}]"))
	testkit.Must(t, err)
	for text, want := range map[string]string{
		"date '2024-02-29'":                                "2024-02-29",
		"time '13:04:05.120'":                              "13:04:05.12",
		"timestamp '2024-02-29 13:04:05'":                  "2024-02-29 13:04:05",
		"timestamp '1969-12-31 23:59:59.500000'":           "1969-12-31 23:59:59.5",
		"timestamptz '2024-02-29 15:04:05.00000012+02:00'": "2024-02-29 13:04:05+00",
		"uuid 'F81D4FAE-7dec-11d0-a765-00a0c91e6bf6'":      "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
		"18446744073709551615::numeric::text":              "18446744073709551615",
	} {
		table, err := Read(context.Background(), s, Config{DSNEnv: "TEST_DSN",
			Query: "select " + text + " as at, true as x", Timeout: time.Minute}, tabular.Options{})
		if err != nil || table.Unit(0) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// encryption checks the TLS settings of the connection string.
func encryption(t *testing.T, server *pgserver.Server, s *partition.Schema) {
	plain := strings.TrimSuffix(server.DSN, "?sslmode=disable")
	other := strings.Replace(plain, "127.0.0.1", "localhost", 1)
	for _, c := range []struct{ dsn, want string }{
		{plain, ""}, // nobody eavesdrops on the loopback
		{plain + "?sslmode=require", ""},
		{plain + "?sslmode=verify-full&sslrootcert=" + server.CA, ""},
		{plain + "?sslmode=verify-full", "its certificate is not trusted; give sslrootcert"},
		{other + "?sslmode=verify-full&sslrootcert=" + server.CA, "its certificate is not trusted"},
		{strings.Replace(plain, "127.0.0.1", "192.0.2.1", 1),
			"does not require encryption; use sslmode=verify-full"},
		{strings.Replace(plain, "127.0.0.1", "db.invalid", 1) + "?sslmode=prefer", "does not require encryption"},
		{strings.Replace(plain, "127.0.0.1", "no-host.invalid", 1) + "?sslmode=disable", "there is no such host"},
	} {
		t.Setenv("SOME_DSN", c.dsn)
		table, err := Read(context.Background(), s, Config{DSNEnv: "SOME_DSN", Query: "table visits",
			Timeout: 10 * time.Second}, tabular.Options{})
		if c.want == "" && (err != nil || table.Len() != 440) {
			t.Errorf("%s: %v", c.dsn, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), pgserver.Password)) {
			t.Errorf("%s: error %v, want %q", c.dsn, err, c.want)
		}
	}
}

// lost breaks the connection in the middle of the rows: no partial table is returned.
func lost(t *testing.T, server *pgserver.Server, s *partition.Schema) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	go cut(listener, fmt.Sprintf("127.0.0.1:%d", server.Port), 200_000)
	defer listener.Close()
	t.Setenv("CUT_DSN", strings.Replace(server.DSN, fmt.Sprint(server.Port),
		fmt.Sprint(listener.Addr().(*net.TCPAddr).Port), 1))
	const query = "select visits.* from visits, generate_series(1, 1000)"
	table, err := Read(context.Background(), s, Config{DSNEnv: "CUT_DSN", Query: query, Timeout: time.Minute},
		tabular.Options{})
	if err == nil || table != nil || !strings.Contains(err.Error(),
		"sql: cannot read the rows: the connection was lost") {
		t.Errorf("a connection that is cut: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		asleep(t, server)
		server.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'conclave'")
	}()
	table, err = Read(context.Background(), s, Config{DSNEnv: "TEST_DSN",
		Query: "select visits.* from visits, pg_sleep(600)", Timeout: time.Minute}, tabular.Options{})
	if err == nil || table != nil || !strings.Contains(err.Error(), "ended the connection (SQLSTATE 57P01)") {
		t.Errorf("a connection that the server ends: %v", err)
	}
	<-ended
}

// asleep waits until a query of the program sleeps.
func asleep(t *testing.T, server *pgserver.Server) {
	server.Exec(t, "do $$ begin while not exists (select from pg_stat_activity where application_name = "+
		"'conclave' and wait_event = 'PgSleep') loop perform pg_stat_clear_snapshot(), pg_sleep(0.05); end loop; "+
		"end $$")
}

// cut forwards a connection to an address and ends it after some bytes from there.
func cut(listener net.Listener, address string, bytes int64) {
	near, err := listener.Accept()
	if err != nil {
		return
	}
	defer near.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(far, near)
	}()
	_, _ = io.CopyN(near, far, bytes)
	near.Close()
	far.Close()
	<-done
}

func TestSortedPutsEmptyCellsFirst(t *testing.T) {
	s, err := partition.ParseSchema([]byte(visits))
	testkit.Must(t, err)
	table := partition.NewTable(s)
	for _, age := range []float64{3, 1, 2} {
		for _, dose := range []float64{0.5, math.NaN(), -1} {
			testkit.Must(t,
				table.Append([]float64{math.NaN(), age, dose, 0, 0, math.NaN(), 0, 1}, fmt.Sprint("p", age)))
		}
	}
	var got []string
	for _, row := range cells(sorted(table)) {
		got = append(got, fmt.Sprint(row[1], " ", row[2]))
	}
	if diff := cmp.Diff([]string{"1 NaN", "1 -1", "1 0.5", "2 NaN", "2 -1", "2 0.5", "3 NaN", "3 -1", "3 0.5"},
		got); diff != "" {
		t.Error(diff)
	}
}

// A query is read in blocks of whole units, also if a unit is longer than a block, and each record keeps its place.
func streamed(t *testing.T, server *pgserver.Server, s *partition.Schema) {
	server.Exec(t, `create table often as select case when i % 3 = 0 then 'many' else 'p' || i % 1777 end as patient,
		(i * 7) % 100 as age, null::float8 as dose, 0.5::real as ratio, 7::numeric as cost, 1 as grade,
		case when i % 2 = 0 then 'north' else 'south, upper' end as ward, i % 5 = 0 as died
		from generate_series(1, 15000) as i`)
	for _, site := range []string{"", "north"} {
		c, o := Config{DSNEnv: "TEST_DSN", Query: "table often", Timeout: time.Minute}, tabular.Options{Site: site}
		read, err := Read(t.Context(), s, c, o)
		testkit.Must(t, err)
		units := map[string]int{}
		for row := range read.Len() {
			units[read.Unit(row)]++
		}
		cursor, err := OpenCursor(t.Context(), s, c, o, true)
		testkit.Must(t, err)
		key := partition.Key{3}
		want := partition.NewDataSum(key)
		want.Add(read)
		n, sum, err := cursor.CountUnits(t.Context(), key)
		if err != nil || n != len(units) || !sum.Same(want) {
			t.Errorf("%d units of %d rows (%v), want %d of %d", n, sum.Rows(), err, len(units), read.Len())
		}
		var mu sync.Mutex
		seen := map[string]map[uint32]bool{}
		held := cursor.Held(key, sum)
		testkit.Must(t, held.Blocks(t.Context(), func(b *partition.Block) error {
			mu.Lock()
			defer mu.Unlock()
			for row := range b.Len() {
				if seen[b.Unit(row)] == nil {
					seen[b.Unit(row)] = map[uint32]bool{}
				}
				seen[b.Unit(row)][b.Nth[row]] = true
				if int(b.Of[row]) != units[b.Unit(row)] || b.Nth[row] >= b.Of[row] {
					return fmt.Errorf("record %d of %d, want of %d", b.Nth[row], b.Of[row], units[b.Unit(row)])
				}
			}
			return nil
		}))
		for unit, places := range seen {
			if len(places) != units[unit] {
				t.Errorf("%d places of %d records", len(places), units[unit])
			}
		}
		if site == "" {
			continue
		}
		server.Exec(t, "update often set age = 101 where patient = 'p4'")
		if err := held.Blocks(t.Context(), func(*partition.Block) error { return nil }); !errors.Is(err, ErrChanged) {
			t.Errorf("changed rows: %v", err)
		}
	}
}
