package report

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func TestColumns(t *testing.T) {
	synthetic, real := clinic(t, 800, 1, 0.1), clinic(t, 500, 2, 0)
	columns, err := picture.Columns(synthetic.Schema(), synthetic, real)
	testkit.Must(t, err)
	if len(columns) != 6 {
		t.Fatalf("%d columns, want 6", len(columns))
	}
	for _, c := range columns {
		var s, r float64
		for _, b := range c.Bars {
			s, r = s+b.Synthetic, r+b.Real
		}
		if math.Abs(s-1) > 1e-9 || math.Abs(r-1) > 1e-9 || !c.Real || c.Score < 0.5 || c.Score > 1 {
			t.Errorf("%s: shares add up to %v and %v, score %v", c.Name, s, r, c.Score)
		}
	}
	byName := map[string]picture.Column{}
	for _, c := range columns {
		byName[c.Name] = c
	}
	if c := byName["year"]; len(c.Bars) != 9 || c.Bars[0].Label != "1995" || c.Bars[8].Label != "2003" {
		t.Errorf("year has bars %+v", c.Bars)
	}
	if c := byName["country"]; len(c.Bars) != 11 || c.Bars[10].Label != "4 others" ||
		c.Bars[0].Label != "a" {
		t.Errorf("country has bars %+v", c.Bars)
	}
	if c := byName["creatinine"]; c.Missing < 0.1 || c.Missing > 0.25 || c.Mean < 1 || c.Mean > 1.5 {
		t.Errorf("creatinine: missing %v, mean %v", c.Missing, c.Mean)
	}
}

func TestColumnsOfOddTables(t *testing.T) {
	full := clinic(t, 10, 1, 0)
	schema := full.Schema()
	empty := partition.NewTable(schema)
	c, _ := example(t)
	nothing := math.NaN()
	constant := partition.NewTable(schema)
	for range 3 {
		testkit.Must(t, constant.Append([]float64{50, nothing, 1, 3, 2000, 1}, ""))
	}
	for name, tables := range map[string][2]*partition.Table{
		"no synthetic rows": {empty, full}, "no real rows": {full, empty}, "constant": {constant, constant},
		"constant against full": {constant, full}, "one row": {clinic(t, 1, 3, 0), nil},
	} {
		columns, err := picture.Columns(schema, tables[0], tables[1])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		write(t, Page{Certificate: c, Columns: columns})
	}
	columns, err := picture.Columns(schema, constant, constant)
	testkit.Must(t, err)
	if age := columns[0]; len(age.Bars) != 1 || age.Bars[0].Label != "50" || age.Bars[0].Synthetic != 1 {
		t.Errorf("a constant column has bars %+v", columns[0].Bars)
	}
	if creatinine := columns[1]; len(creatinine.Bars) != 0 || creatinine.Missing != 1 || creatinine.Real {
		t.Errorf("an empty column is %+v", creatinine)
	}
	if _, err := picture.Columns(schema, nil, nil); err == nil {
		t.Error("no synthetic table was accepted")
	}
}

// Dates are shown as the schema writes them, not as what they are counted in.
func TestDatesOnThePage(t *testing.T) {
	schema := partitiontest.Schema(t, `columns:
  - {name: visit, kind: date, lower: 2015-01-01, upper: 9999-12-31, format: DD.MM.YYYY}
  - {name: month, kind: date, lower: 2015-01-01, upper: 2024-12-31, resolution: month, format: YYYY-MM}
`)
	table := partition.NewTable(schema)
	for i := range 100 {
		testkit.Must(t, table.Append([]float64{float64(i), float64(i)}, ""))
	}
	columns, err := picture.Columns(schema, table, nil)
	testkit.Must(t, err)
	visit, month := picture.NewCard(columns[0]), picture.NewCard(columns[1])
	testkit.Same(t, "ends", []string{"01.01.2015", "10.04.2015", "2015-01", "2023-04"},
		[]string{visit.Low, visit.High, month.Low, month.High})
	testkit.Same(t, "labels", []string{"01.01.2015 to 05.01.2015", "2015-01 to 2015-05", "20.02.2015", "date"},
		[]string{visit.Bars[0].Label, month.Bars[0].Label, columns[0].MeanText(), string(columns[0].Kind)})
	panel := picture.NewPanel("rows", table, false)
	s := picture.NewScatter([]picture.Panel{*panel})
	testkit.Same(t, "axes", []string{"visit → 01.01.2015 to 10.04.2015", "month ↑ 2015-01 to 2023-04"},
		[]string{s.Panels[0].X, s.Panels[0].Y})
}
