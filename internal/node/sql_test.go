package node

import (
	"bytes"
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

// The sample of a node that asks a database is one that loads, and says what the
// defaults are.
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

// A node keeps its partitions and manifest when its rows move from a file to a database.
func TestANodeMovesToADatabase(t *testing.T) {
	server := pgserver.Start(t)
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
	t.Setenv("TEACHER_TEST_DSN", server.DSN)
	again, err := ReadSite(moved, kinds.All(), nil)
	testkit.Must(t, err)
	if again.division.manifest.Fingerprint != n.manifest.Fingerprint {
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
