package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/pgserver"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// The OMOP example: a database filled from its files, a node whose database counts and one that reads its rows, and a
// run whose rows have the schema's columns and the database's correlations.
func TestOMOP(t *testing.T) {
	t.Parallel()
	example := func(name string) string {
		path, err := filepath.Abs(filepath.Join("..", "..", "examples", "omop", name))
		testkit.Must(t, err)
		return path
	}
	server := pgserver.Start(t)
	for _, file := range []string{"cdm.sql", "generate.sql", "person.sql"} {
		// The statement for each person takes most of the time.
		text := string(testkit.Read(t, example(file)))
		server.Exec(t, strings.Replace(text, "select 3000 as number", "select 1500 as number", 1))
	}
	// No concept is another one than person.sql says.
	server.Exec(t, "create view differing as "+string(testkit.Read(t, example("concepts.sql"))))
	server.Exec(t, "do $$ begin if exists (select from differing) then raise 'a concept differs'; end if; end $$")
	site, err := node.LoadConfig(example("teacher.yaml"))
	testkit.Must(t, err)
	c := newCluster(t)
	dsn := filepath.Join(c.dir, "dsn")
	testkit.Must(t, os.WriteFile(dsn, []byte(server.DSN), 0o600))
	schema, teachers := settings{"schema": example("schema.yaml")}, settings{"teachers": "1", "data": ""}
	aggregator := c.startAggregator(c.aggregatorFile(settings{"datasets": "[{name: omop, schema: " + schema["schema"] +
		", unit: record, budget: {epsilon: 10, delta: 1e-5}}]"}))
	aggregator.awaitLog("listening", nil)
	sql := "{dsn_file: " + dsn + ", query: " + site.SQL.Query
	pushed := c.startNode("north", schema, teachers, settings{"dataset": "omop", "sql": sql + ", pushdown: true}"})
	read := c.startNode("south", schema, teachers, settings{"dataset": "omop", "sql": sql + "}"})
	pushed.awaitLog("joined", nil)
	read.awaitLog("joined", nil)
	run := strings.ReplaceAll(string(testkit.Read(t, example("run.yaml"))), "schema: schema.yaml", "schema: "+
		schema["schema"])
	run = strings.Replace(run, "teachers: 1", "teachers: 2", 1)
	run = strings.Replace(run, "epsilon: 2", "epsilon: 6", 1) // as the persons are fewer
	run += "marginals: {size: 8192, steps: 60}\n"             // the fit takes most of the run's time
	file := filepath.Join(c.dir, "run.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(run), 0o600))
	student := c.startStudent(c.studentFile(file, c.out("omop"), settings{"dataset": "omop"}))
	if code := student.wait(); code != 0 {
		t.Fatalf("the student ended with exit code %d", code)
	}
	for _, p := range []*process{pushed, read} {
		if n := len(p.logged("answered")); n != 3 {
			t.Errorf("%d answers, want 3", n)
		}
	}
	stop(pushed, read, aggregator)
	checkPersons(t, schema["schema"], filepath.Join(c.out("omop"), "synthetic.csv"))
}

// checkPersons checks that there are about as many persons with diabetes as in the data, and that their glucose is
// higher.
func checkPersons(t *testing.T, schema, rows string) {
	t.Helper()
	s, err := partition.LoadSchema(schema)
	testkit.Must(t, err)
	table, err := tabular.Read(s, rows, tabular.Options{IgnoreUnit: true})
	testkit.Must(t, err)
	var sugar, persons [2]float64
	for row := range table.Len() {
		cells := table.Cells(row)
		if v := cells[s.ColumnIndex("hba1c")]; v > 0 {
			diabetes := int(cells[s.ColumnIndex("type_2_diabetes")])
			sugar[diabetes] += v
			persons[diabetes]++
		}
	}
	if table.Len() != 1000 || persons[1] < 50 || sugar[1]/persons[1] < sugar[0]/persons[0]+0.7 {
		t.Errorf("%d rows; persons with and without diabetes %v, their sugar %v", table.Len(), persons, sugar)
	}
}
