package proposal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// The list of common variables is short, every entry names a source of its ranges, no name has two meanings,
// and limits are an interval.
func TestVariables(t *testing.T) {
	if len(variables) > 40 {
		t.Errorf("%d variables; 40 are the most", len(variables))
	}
	owner := map[string]string{}
	claim := func(name string, v *variable) {
		if name != key(name) || name == "" {
			t.Errorf("%s: %q is not written as names are compared", v.Name, name)
		}
		if other, taken := owner[name]; taken {
			t.Errorf("%q stands for %s and for %s", name, other, v.Name)
		}
		owner[name] = v.Name
	}
	for i := range variables {
		v := &variables[i]
		if v.Name == "" || v.Source == "" || len(v.Aliases) == 0 || (len(v.Units) > 0) == (v.Categories != nil) {
			t.Errorf("%+v: it needs a name, a source, aliases, and units or categories", v)
		}
		for _, alias := range v.Aliases {
			claim(alias, v)
			for _, u := range v.Units {
				for _, suffix := range u.Suffixes {
					claim(alias+suffix, v)
				}
			}
		}
		for _, u := range v.Units {
			c := Column{Kind: kindContinuous, Lower: partition.Todo, Upper: partition.Todo}
			if v.Date {
				c.Kind = kindDate
			}
			testkit.Must(t, c.setBound("lower", u.Lower))
			testkit.Must(t, c.setBound("upper", u.Upper))
			if lower, _ := partition.ParseNumber(u.Lower); v.Log && lower < 0 {
				t.Errorf("%s: scale: log needs limits from 0 on", v.Name)
			}
			if len(v.Units) > 1 && len(u.Suffixes) == 0 {
				t.Errorf("%s: nothing tells the unit %s", v.Name, u.Name)
			}
		}
	}
	testkit.Same(t, "names", len(owner), len(named()))
}

func TestNamesOfVariables(t *testing.T) {
	for column, want := range map[string]string{
		"Age":              "age, years",
		"Größe (cm)":       "height, cm",
		"height":           "height",
		"HEIGHT_M":         "height, m",
		"Glucose [mmol/L]": "glucose, mmol/L",
		"glucose mg/dL":    "glucose, mg/dL",
		"Kreatinin µmol/l": "creatinine, µmol/L",
		"SpO2 %":           "oxygen saturation, %",
		"Geschlecht":       "sex",
		"ages":             "",
		"heightened":       "",
	} {
		got := ""
		if m, ok := builtIn(column); ok {
			if got = m.variable.Name; m.unit != nil {
				got += ", " + m.unit.Name
			}
		}
		testkit.Same(t, column, want, got)
	}
}

// docs/variables.md lists exactly the variables.
func TestVariablesAreDocumented(t *testing.T) {
	var b strings.Builder
	for i := range variables {
		v := &variables[i]
		limits := v.choices()
		if v.Categories != nil {
			var sets []string
			for _, set := range v.Categories {
				sets = append(sets, strings.Join(set, " "))
			}
			limits = "the first that has all cells: " + strings.Join(sets, "; ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.Name, strings.Join(v.Aliases, ", "), limits, v.Source)
	}
	const head = "|---|---|---|---|\n"
	page := string(testkit.Read(t, "../../docs/variables.md"))
	_, table, found := strings.Cut(page, head)
	if !found || table != b.String() {
		t.Errorf("docs/variables.md must end with these lines:\n%s%s", head, b.String())
	}
}
