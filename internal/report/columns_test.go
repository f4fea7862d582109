package report

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
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
