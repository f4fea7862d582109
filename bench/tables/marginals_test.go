package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const schooling = `label: paid
columns:
  - {name: school, kind: categorical, categories: [low, mid, high]}
  - {name: years, kind: integer, lower: 1, upper: 40, nullable: true}
  - {name: wage, kind: continuous, lower: 0, upper: 100}
  - {name: paid, kind: binary}
`

// schooled are rows whose years follow from the school, and whose wage is above 50 for those that are paid.
func schooled(t *testing.T, n int) *table {
	t.Helper()
	schema, err := partition.ParseSchema([]byte(schooling))
	testkit.Must(t, err)
	rows := partition.NewTable(schema)
	for i := range n {
		school, paid := float64(i%3), float64(i/3%2)
		years := 4 * (school + 1)
		if school == 2 {
			years = math.NaN()
		}
		testkit.Must(t, rows.Append([]float64{school, years, 50*paid + float64(i%49), paid}, ""))
	}
	return rows
}

func TestDependences(t *testing.T) {
	real := schooled(t, 600)
	d := &dataset{train: real, test: real}
	if share, any := broken(d, real); share != 0 || !any {
		t.Errorf("%v of the real rows break a dependence of all, there is one: %v", share, any)
	}
	made := partition.NewTable(real.Schema())
	for i, years := range []float64{4, 8, math.NaN(), 4} { // the last two follow from no low school
		testkit.Must(t, made.Append([]float64{[]float64{0, 1, 0, 2}[i], years, 1, 0}, ""))
	}
	if share, _ := broken(d, made); share != 0.5 {
		t.Errorf("%v of the rows break a dependence, want a half", share)
	}
	small := schooled(t, 60)
	if _, any := broken(&dataset{train: small, test: small}, made); any {
		t.Error("a dependence of few rows is taken for one")
	}
}

// With next to no noise the baselines have the tables that they count, and no others.
func TestBaselines(t *testing.T) {
	real := schooled(t, 6000)
	for name, c := range map[string]struct {
		made func(context.Context, *attempt) (*table, error)
		want bool // whether the wage goes with the label
	}{"independent columns": {columnsAlone, false}, "naive Bayes": {naiveBayes, true}} {
		rows, err := c.made(t.Context(), &attempt{group: group{epsilon: 1000, delta: 1e-5, rows: 6000},
			data: &dataset{train: real}, seed: 1})
		testkit.Must(t, err)
		var low, paid, poor float64
		for i := range rows.Len() {
			row := rows.Cells(i)
			if row[0] == 0 {
				low++
			}
			if row[3] == 1 {
				paid++
				if row[2] < 50 {
					poor++
				}
			}
		}
		if rows.Len() != 6000 || math.Abs(low-2000) > 200 || math.Abs(paid-3000) > 300 {
			t.Errorf("%s: %d rows, %v low, %v paid; want 6000, 2000 and 3000", name, rows.Len(), low, paid)
		}
		if share := poor / paid; c.want != (share < 0.01) || !c.want && math.Abs(share-0.5) > 0.06 {
			t.Errorf("%s: %v of the paid have low wages", name, share)
		}
	}
}

// A program gets the schema, the rows and the budget. One that is missing is no outcome, one that fails or takes
// too long failed.
func TestRowsOfOthers(t *testing.T) {
	p := &programs{folder: t.TempDir(), limit: time.Minute}
	a := &attempt{group: group{name: "x-0.1", epsilon: 0.1, delta: 1e-5, rows: 1}, runCase: runCase{name: "aim"},
		data: &dataset{schemaPath: "the schema", trainPath: "rows", train: schooled(t, 6)}, dir: t.TempDir()}
	for _, without := range []*programs{{}, p} {
		if rows, err := without.rows(t.Context(), a); rows != nil || err != nil {
			t.Fatalf("rows %v, %v", rows, err)
		}
	}
	write := func(lines string) {
		t.Helper()
		testkit.Must(t, os.WriteFile(filepath.Join(p.folder, "aim"), []byte("#!/bin/sh\n"+lines), 0o700))
	}
	write(`[ "$1 $2 $3 $4 $5" = "the schema rows 0.1 1e-05 1" ] && printf 'school,years,wage,paid\nlow,,1.5,1\n' >"$6"`)
	rows, err := p.rows(t.Context(), a)
	testkit.Must(t, err)
	if rows.Len() != 1 || rows.Cells(0)[2] != 1.5 {
		t.Errorf("%d rows", rows.Len())
	}
	write("echo Traceback >&2; echo 'no memory' >&2; exit 3")
	if _, err := p.rows(t.Context(), a); err == nil || err.Error() != "exit status 3: no memory" {
		t.Errorf("a program that fails: %v", err)
	}
	write("while :; do :; done")
	p.limit = time.Second
	if _, err := p.rows(t.Context(), a); err == nil || err.Error() != "it did not end within 1s of processor time" {
		t.Errorf("a program that does not end: %v", err)
	}
}
