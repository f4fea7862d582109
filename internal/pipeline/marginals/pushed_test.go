package marginals

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/draws"
	"github.com/conclave-dp/conclave/internal/testkit/pgserver"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func TestADatabaseThatCounts(t *testing.T) {
	server := pgserver.Start(t)
	t.Setenv("PUSHED_DSN", server.DSN)
	t.Run("the same", func(t *testing.T) { countsTheSame(t, server) })
	t.Run("rows that change", func(t *testing.T) { changes(t, server) })
}

// A database counts the same whole numbers as a node that reads its rows, for any schema, table, types of
// columns and question. Both refuse the same questions.
func countsTheSame(t *testing.T, server *pgserver.Server) {
	config := postgres.Config{DSNEnv: "PUSHED_DSN", Query: "select * from drawn -- all of it", Timeout: time.Minute}
	counted, refused := 0, 0
	draws.Costly(t, func(rt *rapid.T) { // it connects a dozen times
		schema := drawtest.Schema(rt)
		table := drawtest.Table(rt, schema, 1, 40)
		atBorders(rt, table)
		var csv bytes.Buffer
		if err := tabular.WriteCSV(&csv, table); err != nil {
			rt.Fatal(err)
		}
		server.Exec(t, "drop table if exists drawn; create table drawn ("+typesOf(rt, schema)+")")
		// A row of one empty cell is quoted; PostgreSQL does not read that as null.
		server.CopyCSV(t, "drawn", strings.NewReader(strings.ReplaceAll(csv.String(), "\n\"\"", "\n")))
		read, err := postgres.Read(t.Context(), schema, config, tabular.Options{})
		pushed, wrong := postgres.OpenPushed(t.Context(), schema, config, tabular.Options{}, schema.UnitColumn() >= 0)
		if wrong == nil {
			wrong = pushed.Check(t.Context())
		}
		if (err == nil) != (wrong == nil) {
			rt.Fatalf("reading: %v; pushed down: %v", err, wrong)
		}
		if err != nil {
			refused++
			return
		}
		key := partition.Key{1}
		sum, err := pushed.SumRows(t.Context(), key.ForDatabase())
		if err != nil {
			rt.Fatal(err)
		}
		memory := questiontest.Site(t, read, 1)
		units := len(memory.Units)
		if pushed.Rows() != read.Len() || pushed.Units() != units {
			rt.Fatalf("%d rows of %d units, want %d of %d", pushed.Rows(), pushed.Units(), read.Len(), units)
		}
		cursor := streamed(rt, schema, config, read.Len(), units)
		public := question.NewPublic(schema, 1, 1)
		database := question.NewPushedSite(public, pushed.Units(), t.TempDir(),
			pushed.Counting(key.ForDatabase(), sum))
		for range 3 {
			q := drawQuestion(rt, schema)
			if q == nil {
				return
			}
			params := q.round(pairsKind).GetParams()
			checked, err := question.NewRegistry(kinds...).Read(public, pairsKind, params)
			if err != nil {
				continue // such as a norm that is too large
			}
			want, err := checked.Sum(memory, question.Round{})
			for name, site := range map[string]*question.Site{"the database counts": database, "streamed": cursor} {
				got, wrong := checked.Sum(site, question.Round{})
				if err != nil || wrong != nil {
					rt.Fatalf("%v, %v", err, wrong)
				}
				if !slices.Equal(got, want) {
					rt.Fatalf("%s:\n%v, want\n%v", name, got, want)
				}
			}
			counted++
		}
	})
	least := 20
	if testing.Short() { // a fifth of the draws
		least = 3
	}
	if counted < least || refused > counted {
		t.Errorf("%d sums were compared, and %d tables refused", counted, refused)
	}
}

// streamed is a site that reads the rows of a query for each question.
func streamed(t *rapid.T, schema *partition.Schema, c postgres.Config, rows, units int) *question.Site {
	cursor, err := postgres.OpenCursor(context.Background(), schema, c, tabular.Options{}, schema.UnitColumn() >= 0)
	if err != nil {
		t.Fatal(err)
	}
	found, sum, err := cursor.CountUnits(context.Background(), partition.Key{2})
	if err != nil || found != units || sum.Rows() != rows {
		t.Fatalf("%d units (%v), want %d", found, err, units)
	}
	held := cursor.Held(partition.Key{2}, sum)
	return question.NewStreamedSite(question.NewPublic(schema, 1, 1), held, nil, units, "")
}

// atBorders moves numbers to the borders of cells, and next to them.
func atBorders(t *rapid.T, table *partition.Table) {
	schema := table.Schema()
	for i := range schema.Columns {
		c := &schema.Columns[i]
		if c.Kind != partition.Continuous || !c.HasCell() {
			continue
		}
		lo, hi := c.Range()
		from := fineCells(c, 20)
		for row := range table.Len() {
			cells := table.Cells(row)
			if math.Abs(cells[i]) < 1e-30 {
				cells[i] = min(max(0, lo), hi) // a value that a real can have
			}
			if math.IsNaN(cells[i]) || !rapid.Bool().Draw(t, "at a border") {
				continue
			}
			v := rapid.SampledFrom(from).Draw(t, "border")
			v += float64(rapid.IntRange(-3, 3).Draw(t, "beside")) * (hi - lo) * math.Pow(2, -rapid.Float64Range(18, 53).
				Draw(t, "by"))
			if math.Abs(v) > 1e-30 {
				cells[i] = min(max(v, lo), hi)
			}
		}
	}
}

// typesOf gives each column a type in SQL.
func typesOf(t *rapid.T, schema *partition.Schema) string {
	var out []string
	for i := range schema.Columns {
		c, as := &schema.Columns[i], []string{"text"}
		switch {
		case c.Number() && c.Kind == partition.Continuous:
			as = []string{"double precision", "numeric", "real", "text"}
		case c.Number():
			as = []string{"integer", "bigint", "numeric", "double precision", "varchar(40)"}
		case c.Kind == partition.Text:
			as = []string{"text", "varchar", "text collate \"C\""}
		}
		if c.Declared() == partition.Binary {
			as = append(as, "smallint", "boolean")
		}
		out = append(out, fmt.Sprintf("%q %s", c.Name, rapid.SampledFrom(as).Draw(t, "type")))
	}
	return strings.Join(out, ", ")
}

// drawQuestion returns nil if a schema has nothing to ask about.
func drawQuestion(t *rapid.T, schema *partition.Schema) *asked {
	a, signs := &asked{}, rapid.SampledFrom([]string{"none", "some", "all"}).Draw(t, "signs")
	for _, at := range learnedColumns(schema) {
		c := &schema.Columns[at]
		var from []float64
		if isNumber(c) {
			from = fineCells(c, rapid.SampledFrom([]int{2, 7, 20, 300}).Draw(t, "cells"))
		}
		in := plain(schema, at, from)
		if signs == "all" || rapid.Bool().Draw(t, "groups") {
			most := in.n
			if signs != "none" {
				most = min(2, most)
			}
			groups := make([]uint32, in.n)
			for i := range groups {
				groups[i] = uint32(rapid.IntRange(0, most-1).Draw(t, "group"))
			}
			in = in.grouped(groups)
		}
		if in.sign = signs != "none" && in.n == 2; signs == "all" && !in.sign {
			continue
		}
		a.columns = append(a.columns, in)
	}
	weight := rapid.Int64Range(1, 1000)
	if n := len(a.columns); n == 0 {
		return nil
	} else if signs == "all" && n > 1 {
		a.addTogether(weight.Draw(t, "together"))
		return a
	}
	for i := range a.columns {
		for j := i; j < len(a.columns); j++ {
			if rapid.Bool().Draw(t, "asked") {
				a.add(i, j, weight.Draw(t, "weight"))
			}
		}
	}
	if len(a.tables) == 0 {
		a.add(0, 0, 5)
	}
	a.close()
	return a
}

// Cells have one value, except near their borders.
func TestNearBorders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schema := drawtest.Schema(rt)
		encoder := encode.New(schema)
		for _, at := range learnedColumns(schema) {
			c := &schema.Columns[at]
			if !isNumber(c) {
				continue
			}
			in := plain(schema, at, fineCells(c, 50))
			lo, hi := c.Range()
			for range 50 {
				border := rapid.SampledFrom(in.from).Draw(rt, "border")
				below, above := encoder.Near(at, border)
				v := rapid.SampledFrom([]float64{
					math.Nextafter(below, math.Inf(-1)), math.Nextafter(above, math.Inf(1)),
					border - 1.01*(border-below), border + 1.01*(above-border)}).Draw(rt, "value")
				if v < lo || v > hi || c.Kind == partition.Integer && v != math.Trunc(v) {
					continue
				}
				if kept := encoder.Kept(at, v); (kept < border) != (v < border) {
					rt.Fatalf("%v is kept as %v, at the other side of %v", v, kept, border)
				}
			}
		}
	})
}

// A node notices that its rows changed, and its errors contain no words of the database.
func changes(t *testing.T, server *pgserver.Server) {
	table := questiontest.SmallTable(t, 50, 1)
	var csv bytes.Buffer
	testkit.Must(t, tabular.WriteCSV(&csv, table))
	server.Exec(t, "create table records (x double precision, b boolean, c text, y text)")
	server.CopyCSV(t, "records", &csv)
	config := postgres.Config{DSNEnv: "PUSHED_DSN", Query: "select * from records", Timeout: time.Minute}
	pushed, err := postgres.OpenPushed(t.Context(), table.Schema(), config, tabular.Options{}, false)
	testkit.Must(t, err)
	testkit.Must(t, pushed.Check(t.Context()))
	key := partition.Key{1}
	sum, err := pushed.SumRows(t.Context(), key.ForDatabase())
	testkit.Must(t, err)
	site := question.NewPushedSite(question.NewPublic(table.Schema(), 1, 1), pushed.Units(), t.TempDir(),
		pushed.Counting(key.ForDatabase(), sum))
	ask := func(ctx context.Context) ([]int64, error) {
		site.Asked = ctx
		answer, err := questiontest.Ask(site, kinds[1], smallQuestion(nil), "r", 1)
		return answer.Sum, err
	}
	first, err := ask(t.Context())
	testkit.Must(t, err)
	server.Exec(t, "create table moved as select * from records order by x desc; drop table records;"+
		" alter table moved rename to records")
	if again, err := ask(t.Context()); err != nil || !slices.Equal(first, again) {
		t.Errorf("the same rows in another order: %v", err)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("nobody waits"))
	if _, err := ask(ended); err == nil || err.Error() != "nobody waits" {
		t.Errorf("a question that ended: %v", err)
	}
	server.Exec(t, "update records set x = x / 2 where x = (select max(x) from records)")
	if _, err := ask(t.Context()); !errors.Is(err, question.ErrRows) || !errors.Is(err, postgres.ErrChanged) {
		t.Errorf("a changed row: %v", err)
	}
	server.Exec(t, "drop table records")
	if _, err := ask(t.Context()); !errors.Is(err, question.ErrRows) || strings.Contains(err.Error(), "records\"") {
		t.Errorf("no table: %v", err)
	}
}
