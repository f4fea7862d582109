package node

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/pgserver"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// The sample configuration with a database loads, and shows the defaults.
func TestTheSampleWithAQueryLoads(t *testing.T) {
	path := filepath.Join("..", "..", "examples", "cluster", "teacher-sql.yaml")
	c, err := LoadConfig(path)
	testkit.Must(t, err)
	if c.Data != "" || c.SQL.DSNFile != filepath.Join(filepath.Dir(path), "secrets", "dsn") ||
		!strings.HasPrefix(c.SQL.Query, "select ") || c.SQL.Timeout != DefaultConfig().SQL.Timeout {
		t.Errorf("data %q, sql %+v", c.Data, c.SQL)
	}
	schema, err := partition.LoadSchema(c.Schema)
	testkit.Must(t, err)
	for _, column := range schema.Columns {
		if !strings.Contains(c.SQL.Query, " "+column.Name) {
			t.Errorf("the query %q does not name %s", c.SQL.Query, column.Name)
		}
	}
	t.Setenv("CONCLAVE_SQL_TIMEOUT", "90s")
	if c, err = LoadConfig(path); err != nil || c.SQL.Timeout != 90*time.Second {
		t.Errorf("the environment: %v (%v)", c.SQL.Timeout, err)
	}
}

func TestANodeWithADatabase(t *testing.T) {
	server := pgserver.Start(t)
	t.Setenv("TEACHER_TEST_DSN", server.DSN)
	t.Run("instead of a file", func(t *testing.T) { movesToADatabase(t, server) })
	t.Run("that counts", func(t *testing.T) { hasItsDatabaseCount(t, server) })
}

// A node keeps its partitions and manifest when its rows move from a file to a database.
func movesToADatabase(t *testing.T, server *pgserver.Server) {
	server.Exec(t, "create table records (x double precision, b boolean, c text, y text)")
	dir := t.TempDir()
	var csv bytes.Buffer
	testkit.Must(t, tabular.WriteCSV(&csv, questiontest.SmallTable(t, 200, 1)))
	c := smallConfig(t, 8)
	c.Schema, c.Data = filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "records.csv")
	testkit.Must(t, os.WriteFile(c.Schema, []byte(questiontest.SmallSchema), 0o600))
	testkit.Must(t, os.WriteFile(c.Data, csv.Bytes(), 0o600))
	server.CopyCSV(t, "records", &csv)
	site, err := ReadSite(c, kinds.All(), nil)
	testkit.Must(t, err)
	n, err := site.Node(c.Aggregator, zap.NewNop())
	testkit.Must(t, err)
	testkit.Must(t, n.manifest.store())

	moved := c
	moved.Data, moved.SQL.DSNEnv, moved.SQL.Query = "", "TEACHER_TEST_DSN", "select y, c, b, x from records"
	again, err := ReadSite(moved, kinds.All(), nil)
	testkit.Must(t, err)
	if again.division.Manifest.Fingerprint != n.manifest.Fingerprint {
		t.Error("another manifest")
	}
	moved.SQL.Query += " where x > 0.5"
	if _, err := ReadSite(moved, kinds.All(), nil); err == nil || !strings.Contains(err.Error(), "its data differs") {
		t.Errorf("other rows: error %v", err)
	}
	moved.SQL.Query, moved.Teachers = "select * from records limit 3", 8
	moved.State = filepath.Join(t.TempDir(), "state")
	if _, err := ReadSite(moved, kinds.All(), nil); err == nil || !strings.HasPrefix(err.Error(), "sql: ") {
		t.Errorf("fewer rows than teachers: error %v", err)
	}
}

// A node whose database counts answers like one that reads the rows, and returns with its manifest. It refuses other
// questions and tables that violate the schema, and notices changed rows.
func hasItsDatabaseCount(t *testing.T, server *pgserver.Server) {
	server.Exec(t, "drop table if exists records; "+
		"create table records (who text, x double precision, b boolean, c text, y text)")
	schema := strings.Replace(questiontest.SmallSchema, "columns:\n", "columns:\n  - {name: who, role: unit}\n", 1)
	var csv bytes.Buffer
	testkit.Must(t, tabular.WriteCSV(&csv, questiontest.SmallUnits(t, questiontest.UnitColumn, 60,
		func(int) bool { return true })))
	server.CopyCSV(t, "records", &csv)
	c := smallConfig(t, 8)
	c.Schema, c.Unit = filepath.Join(t.TempDir(), "schema.yaml"), "who"
	testkit.Must(t, os.WriteFile(c.Schema, []byte(schema), 0o600))
	c.Data, c.SQL.DSNEnv, c.SQL.Query = "", "TEACHER_TEST_DSN", "select * from records;"
	reading := c
	reading.State = filepath.Join(t.TempDir(), "state")
	c.SQL.Pushdown = true
	open := func(c Config) (*Site, *Node) {
		site, err := ReadSite(c, kinds.All(), nil)
		testkit.Must(t, err)
		n, err := site.Node(c.Aggregator, zap.NewNop())
		testkit.Must(t, err)
		testkit.Must(t, n.manifest.store())
		return site, n
	}
	pushed, n := open(c)
	read, _ := open(reading)
	want, _, err := read.Facts()
	testkit.Must(t, err)
	facts, certain, err := pushed.Facts()
	if err != nil || !certain || facts.Units != want.Units {
		t.Errorf("%+v (%v), want %d units", facts, err, want.Units)
	}
	streaming := reading
	streaming.Stream = true
	streamedSite, again := open(streaming)
	if streamed := streamedSite; again.manifest.Fingerprint != read.division.Manifest.Fingerprint {
		t.Error("a node that streams a query has another manifest than one that reads it")
	} else if facts, _, err := streamed.Facts(); err != nil || facts.Units != want.Units {
		t.Errorf("a node that streams a query: %+v (%v), want %d units", facts, err, want.Units)
	}
	if _, again := open(c); again.manifest.Fingerprint != n.manifest.Fingerprint {
		t.Error("another manifest after a restart")
	}
	// A structure check reads no row, and this query could not return one.
	blind, fresh := c, c
	blind.SQL.Query = "select who, (x / 0)::float8 as x, b, c, y from records"
	fresh.State = filepath.Join(t.TempDir(), "state")
	for name, c := range map[string]Config{"pushdown": blind, "before the first start": fresh, "stream": streaming} {
		site, err := SiteStructure(c, kinds.All(), nil)
		testkit.Must(t, err)
		facts, _, err := site.Facts()
		if joined := c.State != fresh.State; err != nil || joined && facts.Units != want.Units {
			t.Errorf("%s: %+v (%v)", name, facts, err)
		}
		if m := site.Hello().GetManifest(); (m == "") != (c.State == fresh.State) {
			t.Errorf("%s: the manifest is %q", name, m)
		}
	}
	inMemory := reading
	_, err = SiteStructure(inMemory, kinds.All(), nil)
	if err == nil || !strings.Contains(err.Error(), "structure: ") {
		t.Errorf("the structure of rows in memory: error %v", err)
	}
	for name, site := range map[string]*Site{"reading": read, "pushdown": pushed, "streaming": streamedSite} {
		by, err := unitsBy(site.rows, site.cfg.Rows())("c")
		if all, _ := unitsBy(read.rows, read.cfg.Rows())("c"); err != nil || len(by) == 0 || !maps.Equal(by, all) {
			t.Errorf("%s: units by category %v (%v), want %v", name, by, err, all)
		}
	}
	server.Exec(t, "update records set x = 0.25 where x = (select max(x) from records)")
	if _, err := ReadSite(c, kinds.All(), nil); err == nil || !strings.Contains(err.Error(), "its data differs") {
		t.Errorf("changed rows: error %v", err)
	}
	server.Exec(t, "update records set y = 'secret' where x < 0.5; update records set x = 7 where x > 0.5")
	c.State = filepath.Join(t.TempDir(), "state")
	_, err = ReadSite(c, kinds.All(), nil)
	if err == nil || !strings.Contains(err.Error(), `column "x": `) || !strings.Contains(err.Error(), `column "y": `) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("rows that are not as the schema has them: error %v", err)
	}
	c.Share = [2]float64{0, 0.5}
	if _, err = ReadSite(c, kinds.All(), nil); err == nil || !strings.Contains(err.Error(), "sql.pushdown: a share") {
		t.Errorf("a share: error %v", err)
	}
	c.Stream = true
	if err := c.validateSite(); err == nil || !strings.Contains(err.Error(), "stream: sql.pushdown is set too") {
		t.Errorf("with stream: error %v", err)
	}
}
