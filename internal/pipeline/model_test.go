package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// A condition names a value that a cell can have, and no identifier.
func TestConditionsOnKinds(t *testing.T) {
	schema := partitiontest.Schema(t, `columns:
  - {name: visit, kind: date, lower: 2015-01-01, upper: 2024-12-31, format: DD.MM.YYYY}
  - {name: month, kind: date, lower: 2015-01-01, upper: 2024-12-31, resolution: month}
  - {name: icd, kind: code, prefixes: [I20, J]}
  - {name: id, kind: identifier}
`)
	for text, met := range map[string]bool{"visit>=02.01.2015": true, "visit<2015-01-02": false,
		"month=2015-02-01": true, "icd=I20": true, "icd=J": false} {
		c, err := ParseCondition(text)
		testkit.Must(t, err)
		column, meets, err := c.On(schema)
		testkit.Must(t, err)
		if cells := []float64{1, 1, 0}; meets(cells[column]) != met {
			t.Errorf("%s is met: %v", text, !met)
		}
	}
	for _, text := range []string{"month=2015-02-15", "icd=I20.1", "icd>I20", "icd=K", "id=1", "visit=30.02.2015"} {
		c, err := ParseCondition(text)
		testkit.Must(t, err)
		if _, _, err := c.On(schema); !errors.Is(err, ErrCondition) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A value that clip would move is refused, with the range; values at its ends are not.
func TestConditionsOutsideOfClip(t *testing.T) {
	schema := partitiontest.Schema(t, `columns:
  - {name: los, kind: integer, lower: 0, upper: 1000, clip: [1, 100]}
  - {name: dose, kind: continuous, lower: -5, upper: 5, clip: [-0.5, 2], nullable: true}
  - {name: visit, kind: date, lower: 2015-01-01, upper: 2024-12-31, clip: [2016-01-01, 2020-12-31]}
`)
	for text, want := range map[string]string{
		"los=500": "los=500: the value is outside of the column's range, 1 to 100", "los>=500": "1 to 100",
		"los<0": "1 to 100", "los>100.5": "not a whole number", "los<=2000": "1 to 100", "dose=2.1": "-0.5 to 2",
		"dose<-0.6": "-0.5 to 2", "visit>=2021-01-01": "2016-01-01 to 2020-12-31", "visit=2015-12-31": "2016-01-01 to",
		"los=1": "", "los=100": "", "los>=100": "", "los<=1": "", "los>100": "", "dose=-0.5": "", "dose>=2": "",
		"dose=": "", "visit=2016-01-01": "", "visit<=2020-12-31": "",
	} {
		c, err := ParseCondition(text)
		testkit.Must(t, err)
		column, meets, err := c.On(schema)
		if (err == nil) != (want == "") || err != nil && !(errors.Is(err, ErrCondition) &&
			strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
			continue
		}
		if err == nil && c.Value != "" && c.Relation != ">" {
			cell, _ := schema.Columns[column].ParseCell(c.Value)
			if !meets(cell) {
				t.Errorf("%s is not met by its own value", text)
			}
		}
	}
}

func TestConditions(t *testing.T) {
	schema := testModel(t, 1, 0).Schema()
	for text, want := range map[string]struct {
		column    int
		yes, none []float64
	}{
		"a=0.5":     {1, []float64{0.5}, []float64{0.4, 0.6}},
		"a<0":       {1, []float64{-1}, []float64{0, 1}},
		"a<=0":      {1, []float64{-1, 0}, []float64{1}},
		"a>-0.5":    {1, []float64{0}, []float64{-0.5, -1}},
		"a>=0":      {1, []float64{0, 1}, []float64{-0.1}},
		"c=y":       {2, []float64{1}, []float64{0, 2}},
		"label=yes": {3, []float64{1}, []float64{0}},
	} {
		c, err := ParseCondition(text)
		if err != nil || c.String() != text {
			t.Errorf("%s is read as %v (%v)", text, c, err)
		}
		column, meets, err := c.On(schema)
		if err != nil || column != want.column {
			t.Errorf("%s is on column %d, %v", text, column, err)
			continue
		}
		for _, cell := range want.yes {
			if !meets(cell) {
				t.Errorf("%s: not met by %v", text, cell)
			}
		}
		for _, cell := range want.none {
			if meets(cell) {
				t.Errorf("%s: met by %v", text, cell)
			}
		}
	}
	for _, text := range []string{"", "a", "=1", ">1"} {
		if c, err := ParseCondition(text); err == nil {
			t.Errorf("%q is read as %v", text, c)
		}
	}
	for text, want := range map[string]string{"a!=1": "there is no !=", "a >= 1": "leave them out: column>value"} {
		if _, err := ParseCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"b=1", "who=1000", "c>x", "c=q", "a=abc", "a>2", "label=maybe"} {
		c, err := ParseCondition(text)
		testkit.Must(t, err)
		if _, _, err := c.On(schema); !errors.Is(err, ErrCondition) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
