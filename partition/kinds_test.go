package partition_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

const visits = `columns:
  - {name: visit, kind: date, lower: 2015-01-01, upper: 2024-12-31, format: DD.MM.YYYY}
  - {name: month, kind: date, lower: 2015-01-01, upper: 2024-12-15, resolution: month, nullable: true}
  - {name: seen, kind: datetime, lower: 2015-01-01, upper: 2024-12-31, format: "YYYY-MM-DD hh:mm", resolution: hour}
  - {name: icd, kind: code, prefixes: [I20, I21, I, J], codes: icd.csv}
  - {name: id, kind: identifier, pattern: "P-##"}
`

func decode(t testing.TB, s *partition.Schema, text string) *partition.Table {
	t.Helper()
	table, err := tabular.DecodeCSV(s, strings.NewReader(text), "visits.csv", tabular.Options{})
	testkit.Must(t, err)
	return table
}

func encoded(t testing.TB, table *partition.Table) string {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, tabular.WriteCSV(&b, table))
	return b.String()
}

// Dates are counted in whole units since their lower bound, codes become indexes of prefixes, and identifiers are
// dropped.
func TestCellsOfKinds(t *testing.T) {
	s := partitiontest.Schema(t, visits)
	table := decode(t, s, "id,visit,month,seen,icd\n"+
		"Jane Doe,01.01.2015,,2015-01-01 00:59,I20\n"+
		",29.02.2024,2024-02-29,2024-12-31 23:59, I21.4 \n"+
		"7,2015-01-02 00:00:00,2015-02-01T08:00,2015-01-02T01:30:00+00,J45.9\n"+
		"7,31.12.2024,2024-12-15,2015-01-01 00:00,I5\n")
	cells, _ := partitiontest.Rows(table)
	nan := math.NaN()
	want := [][]float64{{0, nan, 0, 0, nan}, {3346, 109, 87671, 1, nan}, {1, 1, 25, 3, nan}, {3652, 119, 0, 2, nan}}
	if diff := cmp.Diff(want, cells, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	written := encoded(t, table)
	testkit.Same(t, "written", "visit,month,seen,icd,id\n"+
		"01.01.2015,,2015-01-01 00:00,I20,P-01\n"+
		"29.02.2024,2024-02-01,2024-12-31 23:00,I21,P-02\n"+
		"02.01.2015,2015-02-01,2015-01-02 01:00,J,P-03\n"+
		"31.12.2024,2024-12-01,2015-01-01 00:00,I,P-04\n", written)
	partitiontest.SameTables(t, table, decode(t, s, written))
	var kinds, descriptions []string
	for i := range s.Columns {
		kinds = append(kinds, string(s.Columns[i].Declared())+" as "+string(s.Columns[i].Kind))
		descriptions = append(descriptions, s.Columns[i].Describe())
	}
	testkit.Same(t, "kinds", []string{"date as integer", "date as integer", "datetime as integer",
		"code as categorical", "identifier as text"}, kinds)
	testkit.Same(t, "descriptions", []string{"date 01.01.2015 to 31.12.2024, by day",
		"date 2015-01-01 to 2024-12-15, by month, may be empty",
		"datetime 2015-01-01 00:00 to 2024-12-31 23:59, by hour", "codes by prefix: I20, I21, I, J",
		"identifier, which is not learned"}, descriptions)
	testkit.Same(t, "features", []string{"visit", "month", "month=", "seen", "icd=I20", "icd=I21", "icd=I", "icd=J"},
		encode.New(s).Names())
	testkit.Same(t, "columns without their list", []string{"icd"}, s.WithoutCodes())
}

// An identifier is not a value: it moves no record to another partition, and does not distinguish records.
func TestIdentifiersAreNotPartOfRecords(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: x, kind: binary}\n  - {name: id, kind: identifier}\n")
	a, b := decode(t, s, "x,id\n1,a\n1,b\n0,c\n"), decode(t, s, "x,id\n1,c\n1,\n0,a\n")
	testkit.Same(t, "positions", partition.SharePositions(a), partition.SharePositions(b))
	if p := partition.SharePositions(a); p[0] == p[1] {
		t.Error("equal records have one place")
	}
	testkit.Same(t, "written", "x,id\n1,1\n1,2\n0,3\n", encoded(t, a))
	hundred := partitiontest.Schema(t, strings.Replace(visits, "P-##", "#x", 1))
	testkit.Same(t, "more digits than the pattern has", "12x",
		string(decode(t, hundred, "id,visit,month,seen,icd\n"+strings.Repeat("a,01.01.2015,,2015-01-01,J\n", 12)).
			AppendCell(nil, 11, 4)))
}

func TestListsOfCodes(t *testing.T) {
	dir := t.TempDir()
	path, list := filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "icd.csv")
	testkit.Must(t, os.WriteFile(path, []byte(visits), 0o600))
	testkit.Must(t, os.WriteFile(list, []byte("code;text\nI20.0;a\nI20.1;b\nI21.9;c\nI10;d\nJ45;e\nK1;f\n"), 0o600))
	s, err := partition.LoadSchema(path)
	testkit.Must(t, err)
	const row = "id,visit,month,seen,icd\n1,01.01.2015,,2015-01-01,"
	table := decode(t, s, row+"I20.0\n1,01.01.2015,,2015-01-01,I20\n1,01.01.2015,,2015-01-01,I20.1\n"+
		"1,01.01.2015,,2015-01-01,I10\n")
	var written []string
	for i := range table.Len() {
		written = append(written, string(table.AppendCell(nil, i, 3)))
	}
	testkit.Same(t, "written", []string{"I20.0", "I20.1", "I20.0", "I10"}, written)
	testkit.Same(t, "by itself", "I20", s.Columns[3].CellText(0))
	if len(s.WithoutCodes()) > 0 {
		t.Error("the list was not found")
	}
	for cell, want := range map[string]string{
		"I20.7": `row 1 (line 2), column "icd": the cell is not in the list of codes icd.csv; correct the code`,
		"K1":    `column "icd": the cell is not one of the schema's codes; correct the code, or add a prefix`,
		"i20":   "the cell is not one of the schema's codes",
		" ":     "the cell is not one of the schema's codes",
	} {
		_, err := tabular.DecodeCSV(s, strings.NewReader(row+cell+"\n"), "visits.csv", tabular.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	for text, want := range map[string]string{
		"I20.0\nI21\nI10\n": `schema.yaml, column "icd": no code of icd.csv has the prefix "J" and no longer one;`,
		"code\n":            `icd.csv, column "icd": cannot use the list of codes: there is no code;`,
	} {
		testkit.Must(t, os.WriteFile(list, []byte(text), 0o600))
		if _, err := partition.LoadSchema(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	testkit.Must(t, os.Remove(list))
	testkit.Must(t, os.Mkdir(list, 0o700)) // like a pipe, which would block forever
	if _, err := partition.LoadSchema(path); err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
		t.Errorf("error is %v", err)
	}
}

func TestCellsThatAreNoDates(t *testing.T) {
	s := partitiontest.Schema(t, visits)
	for cell, want := range map[string]string{
		"30.02.2024": `visits.csv, row 1 (line 2), column "visit": there is no such date, ` +
			`expected date 01.01.2015 to 31.12.2024, by day; correct the cell`,
		"29.02.24": "not a date as DD.MM.YYYY, expected date 01.01.2015 to 31.12.2024, by day; correct the cell, " +
			"or correct the column's format in the schema",
		"NA":                     "not a date but a word for a missing value; leave the cell empty",
		"":                       "the cell is empty",
		"31.12.2014":             "outside the bounds, expected date 01.01.2015 to 31.12.2024, by day; correct",
		"2025-01-01":             "outside the bounds",
		"2024-02-29 13:00:00+01": "a time zone other than UTC; write all times of the column in one zone",
	} {
		_, err := tabular.DecodeCSV(s, strings.NewReader("id,visit,month,seen,icd\n1,"+cell+",,2015-01-01,J\n"),
			"visits.csv", tabular.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of %q is %v, want %q", cell, err, want)
		}
	}
	clipped := &partitiontest.Schema(t, strings.Replace(visits, "format: DD.MM.YYYY",
		"clip: [2016-01-01, 2023-12-31]", 1)).Columns[0]
	for text, want := range map[string]string{"1900-01-01": "2016-01-01", "9999-12-31": "2023-12-31",
		"2016-01-02": "2016-01-02"} {
		cell, fault := clipped.ParseCell(text)
		if fault != nil || clipped.CellText(cell) != want {
			t.Errorf("%s is moved to %s, %v; want %s", text, clipped.CellText(cell), fault, want)
		}
	}
	testkit.Same(t, "clipped", "date 2016-01-01 to 2023-12-31, by day, clipped", clipped.Describe())
}

// A constraint compares the meaning of dates, whatever their start and unit.
func TestConstraintsBetweenDates(t *testing.T) {
	const head = `columns:
  - {name: admitted, kind: date, lower: 2010-01-01, upper: 2024-12-31, format: DD.MM.YYYY}
  - {name: discharged, kind: date, lower: 2015-01-01, upper: 2024-12-31, nullable: true}
  - {name: billed, kind: date, lower: 2014-01-01, upper: 2024-12-31, resolution: month, format: YYYY-MM}
  - {name: age, kind: integer, lower: 0, upper: 120}
`
	s := partitiontest.Schema(t, head+`constraints:
  - {less: [admitted, discharged]}
  - {at_most: [admitted, billed], broken: move}
  - {if: {admitted: ">=2020-01-01"}, then: {age: "<100"}}
  - {if: {admitted: 24.12.2019}, then: {age: 7}}
`)
	for row, want := range map[string]string{
		"01.01.2015,2015-01-02,2015-01,1":   "01.01.2015,2015-01-02,2015-01,1",
		"31.12.2014,2015-01-01,2014-12,1":   "31.12.2014,2015-01-01,2014-12,1",
		"01.01.2015,2015-01-01,2015-01,1":   "breaks constraint 1",
		"02.01.2015,2015-01-01,2015-01,1":   "breaks constraint 1",
		"01.01.2015,,2015-01,1":             "01.01.2015,,2015-01,1",
		"15.03.2020,2020-03-16,2020-03,1":   "15.03.2020,2020-03-16,2020-03,1",
		"15.03.2020,2020-03-16,2020-02,1":   "15.03.2020,2020-03-16,2020-03,1", // moved
		"01.01.2020,2020-03-16,2020-03,100": "breaks constraint 3",
		"31.12.2019,2020-03-16,2020-03,100": "31.12.2019,2020-03-16,2020-03,100",
		"24.12.2019,2020-03-16,2020-03,100": "breaks constraint 4",
	} {
		table, err := tabular.DecodeCSV(s, strings.NewReader("admitted,discharged,billed,age\n"+row+"\n"), "a.csv",
			tabular.Options{})
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", row, err, want)
			}
			continue
		}
		testkit.Same(t, row, "admitted,discharged,billed,age\n"+want+"\n", encoded(t, table))
	}
	for constraint, want := range map[string]string{
		"{less: [admitted, age]}":                                         "compares a date with a number",
		`{if: {billed: ">=2020-01-15"}, then: {age: 1}}`:                  "not the start of a month",
		`{if: {billed: 2020-01-01}, then: {age: 2009}}`:                   "outside the bounds",
		`{if: {billed: soon}, then: {age: 9}}`:                            "not a date as YYYY-MM",
		`{less: [admitted, billed]}` + "\n  - {less: [billed, admitted]}": "constraints contradict each other",
	} {
		_, err := partition.ParseSchema([]byte(head + "constraints:\n  - " + constraint + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", constraint, err, want)
		}
	}
	_, err := partition.ParseSchema([]byte(visits + "constraints:\n  - {never: {icd: I20.1, visit: 2015-01-01}}\n"))
	if err == nil || !strings.Contains(err.Error(), "longer than a prefix of the schema") {
		t.Errorf("error is %v", err)
	}
	_, err = partition.ParseSchema([]byte(visits + "constraints:\n  - {never: {icd: I20, id: 1}}\n"))
	if err == nil || !strings.Contains(err.Error(), `uses the identifier "id"`) {
		t.Errorf("error is %v", err)
	}
}
