package pipeline

import (
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

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
	for _, text := range []string{"b=1", "who=1000", "c>x", "c=q", "a=abc", "a>2", "label=maybe"} {
		c, err := ParseCondition(text)
		testkit.Must(t, err)
		if _, _, err := c.On(schema); !errors.Is(err, ErrCondition) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
