package partition_test

import (
	"fmt"
	"math"

	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/tabular"
)

const households = `columns:
  - {name: sex, kind: categorical, categories: [F, M]}
  - {name: kin, kind: categorical, categories: [wife, husband, none], nullable: true}
  - {name: age, kind: integer, lower: 0, upper: 120, spikes: [40, 65]}
  - {name: low, kind: continuous, lower: 0, upper: 10, spikes: [0.1, 3.7]}
  - {name: high, kind: continuous, lower: 0, upper: 12, nullable: true}
  - {name: came, kind: integer, lower: 1, upper: 366}
  - {name: left, kind: integer, lower: 1, upper: 366}
  - {name: card, kind: binary}
constraints:
`

func TestConstraints(t *testing.T) {
	nan := math.NaN()
	good := []float64{0, 0, 40, 1, 2, 5, 6, 1}
	for _, tc := range []struct {
		constraint string
		cells      map[int]float64 // replaces cells of the valid row
		broken     bool
		moved      map[int]float64 // nil if refused
	}{
		{"{never: {sex: F, kin: husband}}", map[int]float64{1: 1}, true, nil},
		{"{never: {sex: F, kin: husband}}", map[int]float64{0: 1, 1: 1}, false, nil},
		{"{never: {age: [<18, '>100'], kin: [wife, husband]}}", map[int]float64{2: 17}, true, nil},
		{"{never: {age: [<18, '>100'], kin: [wife, husband]}}", map[int]float64{2: 101}, true, nil},
		{"{never: {age: [<18, '>100'], kin: [wife, husband]}}", map[int]float64{2: 18}, false, nil},
		{"{never: {age: <18, kin: wife}}", map[int]float64{1: nan, 2: 3}, false, nil},
		{`{never: {age: <18, kin: ""}}`, map[int]float64{1: nan, 2: 3}, true, nil},
		{"{if: {age: <=17}, then: {kin: none}, broken: move}", map[int]float64{2: 17}, true,
			map[int]float64{2: 17, 1: 2}},
		{"{if: {age: <18}, then: {kin: ['', none]}, broken: move}", map[int]float64{2: 9}, true,
			map[int]float64{2: 9, 1: nan}},
		{"{if: {age: <18, sex: M}, then: {kin: none}}", map[int]float64{2: 17}, false, nil},
		{"{less: [came, left]}", map[int]float64{5: 6}, true, nil},
		{"{less: [came, left], broken: move}", map[int]float64{5: 9}, true, map[int]float64{5: 9, 6: 10}},
		{"{less: [came, left], broken: move}", map[int]float64{5: 366}, true, nil},
		{"{at_most: [came, left]}", map[int]float64{5: 6}, false, nil},
		{"{at_most: [low, high], broken: move}", map[int]float64{3: 2.5}, true, map[int]float64{3: 2.5, 4: 2.5}},
		{"{at_most: [low, came], broken: move}", map[int]float64{3: 5.5}, true, map[int]float64{3: 5.5, 5: 6}},
		{"{less: [low, high]}", map[int]float64{4: nan}, false, nil},
		{"{column: card, follows: kin, as: {wife: 1, husband: 0}, broken: move}", map[int]float64{7: 0}, true,
			map[int]float64{7: 1}},
		{"{column: card, follows: kin, as: {wife: 1, '': 0}}", map[int]float64{1: nan}, true, nil},
		{"{column: card, follows: kin, as: {wife: 1, husband: 0}}", map[int]float64{1: 2, 7: 0}, false, nil},
		{"{column: kin, follows: age, as: {39: none, 40: wife, 41: ''}}", map[int]float64{2: 39}, true, nil},
	} {
		s, err := partition.ParseSchema([]byte(households + "  - " + tc.constraint))
		testkit.Must(t, err)
		with := func(cells map[int]float64) []float64 {
			row := append([]float64(nil), good...)
			for i, v := range cells {
				row[i] = v
			}
			return row
		}
		if s.Broken(good) != 0 {
			t.Errorf("%s: the good row breaks it", tc.constraint)
		}
		row := with(tc.cells)
		if broken := s.Broken(row) == 1; broken != tc.broken {
			t.Errorf("%s: row %v breaks it: %v", tc.constraint, row, broken)
		}
		if err := partition.NewTable(s).Append(row, ""); (err != nil) != tc.broken {
			t.Errorf("%s: a table takes %v with %v", tc.constraint, row, err)
		}
		if !tc.broken {
			continue
		}
		fault := s.Settle(row)
		if (fault == nil) != (tc.moved != nil) {
			t.Errorf("%s: the fault is %v", tc.constraint, fault)
		}
		if tc.moved != nil {
			testkit.Same(t, tc.constraint, with(tc.moved), row, cmpopts.EquateNaNs())
		}
	}
}

// An impossible constraint is an error of the schema, with its line.
func TestConstraintsThatCannotBe(t *testing.T) {
	for constraints, want := range map[string]string{
		"- {less: [came, left]}\n- {less: [left, came]}": "no row can satisfy those on column " +
			"came",
		"- {at_most: [came, left]}\n- {less: [left, came]}":                    "contradict each other",
		"- {less: [came, left]}\n- {less: [left, age]}\n- {less: [age, came]}": "contradict each other",
		"- {if: {sex: F}, then: {kin: wife}}\n- {never: {sex: F, kin: wife}}":  "no row can have sex = F",
		"- {never: {sex: F, card: 0}}\n- {never: {sex: F, card: 1}}":           "no row can have sex = F",
		"- {if: {age: <18}, then: {card: 0}}\n- {if: {age: <9}, then: {card: 1}}": "no row can " +
			"have age from 0 to 8",
		"- {column: card, follows: kin, as: {wife: 1}}\n- {never: {kin: wife, card: 1}}": "no row can " +
			"have kin = wife",
		"- {if: {sex: F}, then: {came: '>=366'}}\n- {less: [came, left]}": "no row can have sex = F",
		"- {less: [came]}":                                 "needs two columns",
		"- {less: [came, sex]}":                            "not a number",
		"- {less: [came, came]}":                           "uses a column twice",
		"- {less: [came, height]}":                         "which does not exist",
		"- {less: [low, high], broken: move}":              "only whole numbers",
		"- {less: [came, left], broken: guess}":            "use refuse or move",
		"- {less: [came, left], never: {sex: F, card: 1}}": "must be one of",
		"- {}":                "must be one of",
		"- {never: {sex: F}}": "is about 1 columns",
		"- {never: {sex: F, card: 1}, broken: move}":         "has no target",
		"- {if: {sex: F}}":                                   "one under then",
		"- {if: {sex: F}, then: {age: <9}, broken: move}":    "is a range",
		"- {never: {sex: X, card: 1}}":                       "not one of the schema's categories",
		"- {never: {age: 121, card: 1}}":                     "outside the bounds",
		"- {never: {age: 1.5, card: 1}}":                     "not a whole number",
		"- {never: {age: <0, card: 1}}":                      "without a value of the column",
		"- {never: {age: <>5, card: 1}}":                     "does not start with",
		"- {never: {age: <, card: 1}}":                       "without a number",
		"- {never: {high: <, card: 1}}":                      "without a number",
		"- {never: {age: <121, card: 1}}":                    `number of "age" that is outside the bounds`,
		"- {never: {age: '>=4.5', card: 1}}":                 `number of "age" that is not a whole number`,
		"- {never: {age: '> 5', card: 1}}":                   `the value " 5" of "age": not a number (there are spaces`,
		"- {column: card, follows: kin, as: {wife: [0, 1]}}": "list one",
		"- {column: card, follows: kin}":                     "1 to 1024 values under as",
		"- {never: [sex, card]}":                             "",
		"- {never: {sex: F, sex: M}}":                        "",
		"- {never: {sex: {a: b}, card: 1}}":                  "",
		"- {forbid: {sex: F, card: 1}}":                      `unknown field "forbid"`,
	} {
		_, err := partition.ParseSchema([]byte(households + "  " + strings.ReplaceAll(constraints, "\n", "\n  ")))
		if err == nil || !strings.Contains(err.Error(), want) ||
			want != "" && !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: error %v, want one with a line and %q", constraints, err, want)
		}
	}
	for spikes, want := range map[string]string{"[11]": "outside the bounds", "[a]": "a number"} {
		text := strings.Replace(households, "[0.1, 3.7]", spikes, 1)
		if _, err := partition.ParseSchema([]byte(strings.TrimSuffix(text, "constraints:\n"))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("spikes %s: error %v, want %q", spikes, err, want)
		}
	}
}

// The search finds a contradiction exactly when no row is valid: the test tries all rows of small tables.
func TestContradictionsAreThose(t *testing.T) {
	const head = `columns:
  - {name: a, kind: integer, lower: 0, upper: 3}
  - {name: b, kind: integer, lower: 1, upper: 3}
  - {name: c, kind: binary, nullable: true}
  - {name: d, kind: integer, lower: 0, upper: 2}
constraints:
`
	some := []string{"{less: [a, b]}", "{less: [b, d]}", "{at_most: [d, a]}", "{at_most: [b, a]}",
		"{if: {c: 1}, then: {a: <=1}}", "{if: {c: 0}, then: {d: 2}}", "{never: {a: <2, d: '>0'}}",
		"{column: c, follows: d, as: {0: 1, 1: '', 2: 0}}", "{if: {a: 1}, then: {b: 3}}"}
	rapid.Check(t, func(rt *rapid.T) {
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(some), 1, 4, rapid.ID[string]).Draw(rt, "constraints")
		s, err := partition.ParseSchema([]byte(head + "  - " + strings.Join(chosen, "\n  - ")))
		if err != nil && !strings.Contains(err.Error(), "contradict") {
			rt.Fatal(err)
		}
		var each []*partition.Schema // each from one constraint
		for _, text := range chosen {
			one, err := partition.ParseSchema([]byte(head + "  - " + text))
			if err != nil {
				return // it contradicts the bounds
			}
			each = append(each, one)
		}
		rows := 0
		for at := range 4 * 3 * 3 * 3 {
			row := []float64{float64(at % 4), float64(at/4%3) + 1, float64(at / 12 % 3), float64(at / 36)}
			if row[2] == 2 {
				row[2] = math.NaN()
			}
			broken := false
			for _, one := range each {
				broken = broken || one.Broken(row) > 0
			}
			if !broken {
				rows++
			}
			if err == nil && broken != (s.Broken(row) > 0) {
				rt.Fatalf("row %v breaks a constraint: %v", row, broken)
			}
		}
		if err == nil && rows == 0 {
			rt.Fatalf("no row is good, and %v are taken", chosen)
		}
		if err != nil && strings.Contains(err.Error(), "no row can satisfy") && rows > 0 {
			rt.Fatalf("%d rows are good, and %v are refused: %v", rows, chosen, err)
		}
	})
}

// Numbers that the schema names decode exactly from features, also spikes with many decimals.
func TestPointsComeBack(t *testing.T) {
	s, err := partition.ParseSchema([]byte(`columns:
  - {name: a, kind: continuous, lower: 0, upper: 1e6, spikes: [0.12345678901, 3.3333333333333]}
  - {name: b, kind: continuous, lower: 0, upper: 1e6, scale: log}
constraints:
  - {never: {a: <3.25, b: 777.0123456789}}
`))
	testkit.Must(t, err)
	e, table := encode.New(s), partition.NewTable(s)
	testkit.Must(t, table.Append([]float64{0.12345678901, 5}, ""))
	testkit.Must(t, table.Append([]float64{3.3333333333333, 777.0123456789}, ""))
	x := e.Encode(table)
	for row, want := range [][]float64{{0.12345678901, 5}, {3.3333333333333, 777.0123456789}} {
		cells, err := e.Decode(x.Row(row), 0, "")
		testkit.Must(t, err)
		testkit.Same(t, "decoded", want, cells, cmpopts.EquateNaNs())
	}
}

// A reader finds a row that breaks a constraint and names its place; the error has no value.
func TestReadersFindBrokenRows(t *testing.T) {
	s, err := partition.ParseSchema([]byte(households + "  - {less: [came, left]}\n" +
		"  - {if: {age: <18}, then: {kin: none}, broken: move}\n"))
	testkit.Must(t, err)
	const csv = "sex,kin,age,low,high,came,left,card\nF,wife,17,1,2,5,6,0\nM,,40,1,2,311,298,0\n"
	_, err = tabular.DecodeCSV(s, strings.NewReader(csv), "f.csv", tabular.Options{})
	if err == nil || !strings.Contains(err.Error(), "row 2 (line 3): the row breaks constraint 1") ||
		strings.Contains(err.Error(), "311") {
		t.Errorf("the error is %v", err)
	}
	table, err := tabular.DecodeCSV(s, strings.NewReader(csv[:len(csv)-len("M,,40,1,2,311,298,0\n")]), "f.csv",
		tabular.Options{})
	testkit.Must(t, err)
	testkit.Same(t, "moved", []float64{0, 2, 17, 1, 2, 5, 6, 0}, table.Cells(0), cmpopts.EquateNaNs())
}

// The advice for a broken row is a schema that can be loaded.
func TestAdviceForABrokenRow(t *testing.T) {
	for constraint, movable := range map[string]bool{
		"{less: [came, left]}":                                   true,
		"{less: [came, left], broken: move}":                     false, // left has no larger value
		"{less: [low, high]}":                                    false,
		"{at_most: [low, high]}":                                 true,
		"{never: {sex: F, kin: wife}}":                           false,
		"{if: {sex: F}, then: {kin: none}}":                      true,
		"{if: {sex: F}, then: {age: '<9'}}":                      false,
		"{column: card, follows: kin, as: {wife: 0}}":            true,
		"{if: {sex: F}, then: {age: [7, '<9']}, broken: refuse}": true,
	} {
		s, err := partition.ParseSchema([]byte(households + "  - " + constraint + "\n"))
		testkit.Must(t, err)
		fault := s.Settle([]float64{0, 0, 40, 9, 2, 366, 366, 1})
		if fault == nil || (fault.SchemaFix == "give the constraint broken: move") != movable {
			t.Errorf("%s: %+v, want the advice to move: %v", constraint, fault, movable)
		}
		moving := strings.TrimSuffix(strings.ReplaceAll(constraint, ", broken: refuse", ""), "}") + ", broken: move}"
		if strings.Contains(constraint, "broken: move") {
			continue
		}
		if _, err := partition.ParseSchema([]byte(households + "  - " + moving + "\n")); (err == nil) != movable {
			t.Errorf("%s: %v", moving, err)
		}
	}
}

// The search for contradictions is bounded. It finds that eight pigeons do not fit in seven holes, and gives up on a
// ladder with too many values.
func TestTheSearchIsBounded(t *testing.T) {
	var pigeons, ladder strings.Builder
	pigeons.WriteString("columns:\n  - {name: a, kind: categorical, categories: [p, q, r, s, t, u, v], repeat: 8}\n" +
		"constraints:\n")
	for i := range 8 {
		for j := range i {
			for _, v := range "pqrstuv" {
				fmt.Fprintf(&pigeons, "  - {never: {a_%d: %c, a_%d: %c}}\n", i, v, j, v)
			}
		}
	}
	ladder.WriteString("columns:\n  - {name: a, kind: categorical, repeat: 250, categories: [")
	for v := range 1000 {
		fmt.Fprintf(&ladder, "c%d, ", v)
	}
	ladder.WriteString("]}\nconstraints:\n")
	for i := range 249 {
		fmt.Fprintf(&ladder, "  - {column: a_%d, follows: a_%d, as: {c0: c999, c999: c998, c998: c997}}\n", i+1, i)
	}
	for text, want := range map[string]string{
		pigeons.String(): "contradict each other", ladder.String(): "too many values to check",
	} {
		if _, err := partition.ParseSchema([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
