package partition_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func TestLoadSchema(t *testing.T) {
	s := partitiontest.Clinic(t)
	raw := testkit.Read(t, partitiontest.File("clinic", "schema.yaml"))
	sum := sha256.Sum256(raw)
	if s.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("SHA256 is not that of the file's bytes")
	}
	testkit.Same(t, "Raw", string(raw), string(s.Raw()))
	if s.Name != "clinic" || s.Task != "binary" || s.Label != "outcome" || s.Format != "csv" {
		t.Errorf("head of the schema: %q %q %q %q", s.Name, s.Task, s.Label, s.Format)
	}
	if s.UnitColumn() != 0 || s.SiteColumn() != 1 || s.LabelColumn() != 7 || s.Positive() != 1 {
		t.Errorf("unit %d, site %d, label %d, positive %d", s.UnitColumn(), s.SiteColumn(), s.LabelColumn(),
			s.Positive())
	}
	testkit.Same(t, "classes", []string{"0", "1"}, s.Classes())
	want := []string{
		"any text (unit)",
		"north, south (site)",
		"integer 0 to 120",
		"continuous -1 to 9.5, may be empty",
		"continuous 0 to 100, clipped, log scale",
		"1, 2, b,c, may be empty",
		"0 or 1, may be empty",
		"0 or 1",
	}
	var got []string
	for i := range s.Columns {
		got = append(got, s.Columns[i].Describe())
	}
	testkit.Same(t, "descriptions", want, got)
	testkit.Same(t, "files", map[string]partition.File{"train": {Path: "visits.csv", Rows: 6}}, s.Files)
}

// Some editors write a byte order mark. The digest covers it, as in any other program.
func TestSchemaWithAByteOrderMark(t *testing.T) {
	const text = "columns:\n  - {name: age, kind: integer, lower: 0, upper: 9}\n"
	s := partitiontest.Schema(t, "\ufeff"+text)
	sum := sha256.Sum256([]byte("\ufeff" + text))
	if s.SHA256 != hex.EncodeToString(sum[:]) || string(s.Raw()) != "\ufeff"+text || s.Columns[0].Name != "age" {
		t.Errorf("schema is %+v", s)
	}
	_, err := partition.ParseSchema([]byte("\ufeff" + strings.Replace(text, "upper", "uper", 1)))
	var at *partition.InputError
	if !errors.As(err, &at) || at.Line != 2 || !strings.Contains(err.Error(), `unknown field "uper"`) {
		t.Errorf("error is %v", err)
	}
}

func TestLabelsAndClasses(t *testing.T) {
	for _, tc := range []struct {
		name, label, head string
		classes           []string
		positive          int
		task              string
	}{
		{"none", "{name: y, kind: binary}", "label: null", nil, -1, "none"},
		{"left out", "{name: y, kind: binary}", "name: x", nil, -1, "none"},
		{"binary", "{name: y, kind: binary}", "label: y", []string{"0", "1"}, 1, "binary"},
		{"binary turned", "{name: y, kind: binary}", "label: y\npositive: 0", []string{"0", "1"}, 0, "binary"},
		{"two categories", "{name: y, kind: categorical, categories: [a, b]}", "label: y",
			[]string{"a", "b"}, 1, "binary"},
		{"three", "{name: y, kind: categorical, categories: [a, b, c]}", "label: y",
			[]string{"a", "b", "c"}, -1, "multiclass"},
		{"three with positive", "{name: y, kind: categorical, categories: [a, 2.50, c]}", "label: y\npositive: 2.50",
			[]string{"a", "2.50", "c"}, 1, "multiclass"},
		{"number", "{name: y, kind: integer, lower: 0, upper: 9}", "label: y", nil, -1, "regression"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := partitiontest.Schema(t, tc.head+"\ncolumns:\n  - {name: x, kind: binary}\n  - "+tc.label+"\n")
			testkit.Same(t, "classes", tc.classes, s.Classes())
			if s.Positive() != tc.positive || s.Task != tc.task {
				t.Errorf("positive %d task %q, want %d %q", s.Positive(), s.Task, tc.positive, tc.task)
			}
		})
	}
}

// Categories are the words in the file, however YAML would interpret them.
func TestCategoriesAreText(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: c, kind: categorical, categories: [1, 2.50, true, 0x1F,"+
		" \"x\", No, 1e3, 'a b']}\n")
	want := []string{"1", "2.50", "true", "0x1F", "x", "No", "1e3", "a b"}
	testkit.Same(t, "categories", want, s.Columns[0].Categories)
}

// Numbers are decimal, as in cells, where YAML would take a zero before a number for octal.
func TestNumbersAreDecimal(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: a, kind: integer, lower: -010, upper: 0200, clip: [+07, 0100], "+
		"spikes: [060, 010]}\n  - {name: b, kind: categorical, categories: [x, y]}\n")
	c := s.Columns[0]
	testkit.Same(t, "bounds, clip and spikes", []float64{-10, 200, 7, 100, 10, 60},
		slices.Concat([]float64{c.Lower, c.Upper}, c.Clip[:], c.Points))
	for _, text := range []string{"0x10", "0b11", "0o17", "1_000"} {
		_, err := partition.ParseSchema([]byte("columns: [{name: a, kind: integer, lower: 0, upper: " + text + "}]"))
		if err == nil || !strings.Contains(err.Error(), "must be a number") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRepeat(t *testing.T) {
	s := partitiontest.Schema(t, "label: y\nformat: idx\nimage: {height: 2, width: 3, channels: 1}\ncolumns:\n"+
		"  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 6}\n  - {name: y, kind: categorical,"+
		" categories: [0, 1], names: [shoe, hat]}\n")
	if len(s.Columns) != 7 || s.Columns[0].Name != "pixel_0" || s.Columns[5].Name != "pixel_5" {
		t.Errorf("columns are not written out: %d", len(s.Columns))
	}
	if encode.New(s).Width() != 6 {
		t.Errorf("width %d, want 6", encode.New(s).Width())
	}
	if got := s.Columns[6].Describe(); got != "shoe, hat" {
		t.Errorf("described as %q", got)
	}
	table, err := tabular.DecodeCSV(s,
		strings.NewReader("y,pixel_0,pixel_1,pixel_2,pixel_3,pixel_4,pixel_5\n1,0,1,2,3,4,255\n"),
		"x.csv", tabular.Options{})
	if err != nil || table.Label(0) != 1 || table.Cells(0)[5] != 255 {
		t.Errorf("reading CSV with an image schema: %v", err)
	}
}

func TestBadSchemas(t *testing.T) {
	const ok = "columns:\n  - {name: a, kind: binary}\n"
	for _, tc := range []struct {
		name, text string
		line       int
		column     string
		want       string
	}{
		{"empty", "", 0, "", "empty"},
		{"only a remark", "# nothing\n", 0, "", "empty"},
		{"not YAML", "columns: [", 0, "", "not a valid schema"},
		{"a tab", "columns:\n\t- {name: a}\n", 0, "", "not a valid schema"},
		{"a list", "- a\n- b\n", 0, "", "not a valid schema"},
		{"two documents", ok + "---\n" + ok, 0, "", "more than one YAML document"},
		{"binary data", "\xff\xfe\x00", 0, "", "UTF-8"},
		{"unknown field", "nmae: x\n" + ok, 1, "", `unknown field "nmae"`},
		{"unknown column field", ok + "  - name: b\n    kind: binary\n    lowwer: 0\n",
			5, "", `unknown field "lowwer"`},
		{"unknown file field", "files:\n  train: {pth: a.csv}\n" + ok, 2, "", `unknown field "pth"`},
		{"field twice", ok + "  - name: b\n    kind: binary\n    kind: integer\n", 5, "", "already defined"},
		{"word for a number", ok + "  - name: b\n    kind: integer\n    lower: low\n    upper: 3\n",
			5, "b", `"lower" must be a number`},
		{"word for a flag", ok + "  - name: b\n    kind: binary\n    nullable: maybe\n",
			5, "", `"nullable" must be true or false`},
		{"word for a count", "files:\n  train: {rows: many}\n" + ok, 2, "", `"rows" must be a whole number`},
		{"bounds of text", ok + "  - {name: b, role: unit, upper: 3}\n", 3, "b", "upper does not belong"},
		{"categories of text", ok + "  - {name: b, kind: text, role: unit, categories: [x]}\n", 3, "b",
			"categories does not belong"},
		{"scale of binary", ok + "  - {name: b, kind: binary, scale: log}\n", 3, "b", "scale does not belong"},
		{"no columns", "name: x\n", 0, "", "no columns"},
		{"no name", "columns:\n  - {kind: binary}\n", 2, "", "no name"},
		{"spaces in name", "columns:\n  - {name: ' a', kind: binary}\n", 2, " a", "spaces"},
		{"no kind", ok + "  - name: b\n", 3, "b", "no kind"},
		{"unknown kind", ok + "  - name: b\n    kind: ordinal\n", 4, "b", `unknown kind "ordinal"`},
		{"unknown role", ok + "  - {name: b, kind: binary, role: patient}\n", 3, "b", `unknown role "patient"`},
		{"text without role", ok + "  - {name: b, kind: text}\n", 3, "b", "free text is not learned"},
		{"column twice", ok + ok[len("columns:\n"):], 3, "a", "listed twice"},
		{"column twice by repeat", "columns:\n  - {name: a_1, kind: binary}\n  - {name: a, kind: binary, repeat: 2}\n",
			3, "a_1", "listed twice"},
		{"no bounds", ok + "  - {name: b, kind: continuous, lower: 0}\n", 3, "b", "needs public bounds"},
		{"bounds turned", ok + "  - {name: b, kind: continuous, lower: 1, upper: 0}\n", 3, "b", "lower must be less"},
		{"bounds equal", ok + "  - {name: b, kind: continuous, lower: 1, upper: 1}\n", 3, "b", "lower must be less"},
		{"bound infinite", ok + "  - {name: b, kind: continuous, lower: 0, upper: .inf}\n", 3, "b",
			`field "upper" must be a number; write it as 12 or -0.5`},
		{"bound nan", ok + "  - {name: b, kind: continuous, lower: .nan, upper: 1}\n", 3, "b", "must be a number"},
		{"range infinite", ok + "  - {name: b, kind: continuous, lower: -1.7e308, upper: 1.7e308}\n",
			3, "b", "the difference of lower and upper"},
		{"integer with fraction", ok + "  - {name: b, kind: integer, lower: 0.5, upper: 3}\n",
			3, "b", "whole numbers"},
		{"integer too large", ok + "  - {name: b, kind: integer, lower: 0, upper: 1e17}\n", 3, "b", "2^53"},
		{"clip of one", ok + "  - {name: b, kind: continuous, lower: 0, upper: 3, clip: [1]}\n", 3, "b",
			"clip must be"},
		{"clip turned", ok + "  - {name: b, kind: continuous, lower: 0, upper: 3, clip: [2, 1]}\n",
			3, "b", "clip must be"},
		{"clip outside", ok + "  - {name: b, kind: continuous, lower: 0, upper: 3, clip: [1, 4]}\n",
			3, "b", "inside lower and upper"},
		{"clip nan", ok + "  - {name: b, kind: continuous, lower: 0, upper: 3, clip: [.nan, 4]}\n",
			3, "b", `"clip" must be a number`},
		{"clip of binary", ok + "  - {name: b, kind: binary, clip: [0, 1]}\n", 3, "b", "clip does not belong"},
		{"log of negative", ok + "  - {name: b, kind: continuous, lower: -1, upper: 3, scale: log}\n", 3, "b",
			"negative"},
		{"unknown scale", ok + "  - {name: b, kind: continuous, lower: 0, upper: 3, scale: sqrt}\n",
			3, "b", `unknown scale "sqrt"`},
		{"scale of category", ok + "  - {name: b, kind: categorical, categories: [x], scale: log}\n", 3, "b",
			"scale does not belong"},
		{"categories of number", ok + "  - {name: b, kind: integer, lower: 0, upper: 1, categories: [0, 1]}\n",
			3, "b", "categories does not belong"},
		{"binary 1 and 2", ok + "  - {name: b, kind: binary, lower: 1, upper: 2}\n", 3, "b", "0 and 1"},
		{"no categories", ok + "  - {name: b, kind: categorical}\n", 3, "b", "needs its categories"},
		{"bounds of category", ok + "  - {name: b, kind: categorical, categories: [x], lower: 0}\n",
			3, "b", "lower does not belong"},
		{"category twice", ok + "  - name: b\n    kind: categorical\n    categories:\n      - x\n      - x\n",
			7, "b", `"x" is listed twice`},
		{"category empty", ok + "  - {name: b, kind: categorical, categories: ['']}\n", 3, "b", "category is empty"},
		{"category null", ok + "  - {name: b, kind: categorical, categories: [x, null]}\n", 3, "b",
			"a category is empty"},
		{"category list", ok + "  - {name: b, kind: categorical, categories: [x, [y]]}\n", 0, "", "a word or a number"},
		{"category line break", ok + "  - {name: b, kind: categorical, categories: [\"x\\ny\"]}\n",
			3, "b", "line break"},
		{"names too few", ok + "  - {name: b, kind: categorical, categories: [x, y], names: [z]}\n",
			3, "b", "one entry per category"},
		{"repeat 0", ok + "  - {name: b, kind: binary, repeat: 0}\n", 3, "b", "repeat must be"},
		{"repeat huge", ok + "  - {name: b, kind: binary, repeat: 1000000000}\n", 3, "b", "repeat must be"},
		{"repeat with role", ok + "  - {name: b, role: unit, repeat: 2}\n", 3, "b", "cannot repeat"},
		{"two sites", ok + "  - {name: b, kind: categorical, categories: [x], role: site}\n  - {name: c, kind:" +
			" categorical, categories: [x], role: site}\n", 0, "c", "second column of role site"},
		{"site a number", ok + "  - {name: b, kind: integer, lower: 0, upper: 3, role: site}\n", 0, "b",
			"must be categorical"},
		{"nullable site", ok + "  - {name: b, kind: categorical, categories: [x], role: site, nullable: true}\n",
			0, "b", "cannot be nullable"},
		{"nullable unit", ok + "  - {name: b, role: unit, nullable: true}\n", 0, "b", "cannot be nullable"},
		{"clipped unit", ok + "  - {name: b, kind: integer, lower: 0, upper: 9, clip: [1, 2], role: unit}\n",
			0, "b", "join units"},
		{"unit called record", ok + "  - {name: record, role: unit}\n", 0, "record", "cannot be called record"},
		{"label not a column", "label: z\n" + ok, 1, "", "not one of the columns"},
		{"label nullable", "label: b\n" + ok + "  - {name: b, kind: binary, nullable: true}\n", 1, "b",
			"cannot be nullable"},
		{"label is unit", "label: b\n" + ok + "  - {name: b, role: unit}\n", 1, "b", "have a role"},
		{"positive without label", "positive: 1\n" + ok, 1, "", "no label"},
		{"positive unknown", "label: b\npositive: 2\n" + ok + "  - {name: b, kind: binary}\n", 2, "",
			"not a value of the label"},
		{"task does not fit", "label: b\ntask: regression\n" + ok + "  - {name: b, kind: binary}\n",
			2, "", `task "regression" does not fit`},
		{"task unknown", "task: ranking\n" + ok, 1, "", `task "ranking" does not fit`},
		{"only the label", "label: a\n" + ok, 0, "", "no column beside"},
		{"unknown format", "format: parquet\n" + ok, 1, "", `unknown format "parquet"`},
		{"image of a table", "image: {height: 1, width: 1, channels: 1}\n" + ok, 1, "", "format idx"},
		{"idx without image", "format: idx\n" + ok, 1, "", "images' shape"},
		{"pixels beyond a byte", "label: y\nformat: idx\nimage: {height: 1, width: 1, channels:" +
			" 1}\ncolumns:\n  - {name: p, kind: integer, lower: 0, upper: 256}\n  - {name: y, kind: binary}\n",
			0, "p", "whole number from 0 to 255"},
		{"pixels with clip", "label: y\nformat: idx\nimage: {height: 1, width: 1, channels: 1}\ncolumns:\n  - {name:" +
			" p, kind: integer, lower: 0, upper: 255, clip: [0, 9]}\n  - {name: y, kind: binary}\n",
			0, "p", "whole number from 0 to 255"},
		{"images of people", "label: y\nformat: idx\nimage: {height: 1, width: 1, channels: 1}\ncolumns:\n  - {name:" +
			" p, kind: integer, lower: 0, upper: 255}\n  - {name: y, kind: binary}\n  - {name: who, role: unit}\n",
			0, "who", "no column of role unit"},
		{"images without label", "format: idx\nimage: {height: 1, width: 1, channels: 1}\n" + ok, 0, "",
			"label of 1 to 256 classes"},
		{"date without bounds", ok + "  - {name: b, kind: date, lower: 2015-01-01}\n",
			3, "b", "a date needs public bounds"},
		{"date that is none", ok + "  - {name: b, kind: date, lower: 2015-02-29, upper: 2016-01-01}\n", 3, "b",
			"lower is not a date; write it as 2024-02-29"},
		{"date that is a year", ok + "  - {name: b, kind: date, lower: 2015, upper: 2016}\n",
			3, "b", "lower is not a date"},
		{"dates turned", ok + "  - {name: b, kind: date, lower: 2016-01-01, upper: 2015-01-01}\n", 3, "b",
			"upper must be in a later day than lower"},
		{"dates within a month", ok + "  - {name: b, kind: date, " +
			"lower: 2015-01-01, upper: 2015-01-31, resolution: month}\n",
			3, "b", "upper must be in a later month than lower"},
		{"lower within a month", ok + "  - {name: b, kind: date, " +
			"lower: 2015-01-02, upper: 2016-01-31, resolution: month}\n",
			3, "b", "lower is not the start of a month"},
		{"lower within an hour", ok + "  - {name: b, kind: datetime, " +
			"lower: \"2020-01-01T00:30\", upper: 2021-01-01, resolution: hour}\n",
			3, "b", "lower is not the start of an hour"},
		{"clip of dates turned", ok + "  - name: b\n    kind: date\n    lower: 2015-01-01\n    upper: 2016-01-01\n" +
			"    clip: [2015-03-01, 2015-02-01]\n", 7, "b", "clip must be"},
		{"clip of a date by numbers", ok + "  - {name: b, kind: date, " +
			"lower: 2015-01-01, upper: 2016-01-01, clip: [1, 2]}\n",
			3, "b", "clip is not a date"},
		{"clip of a number by words", ok + "  - {name: b, kind: integer, lower: 1, upper: 9, clip: [2, x]}\n",
			3, "b", `field "clip" must be a number`},
		{"date by the hour", ok + "  - {name: b, kind: date, lower: 2015-01-01, upper: 2016-01-01, resolution: hour}\n",
			3, "b", `unknown resolution "hour" of a date; use one of [day week month quarter year]`},
		{"two-digit years", ok + "  - {name: b, kind: date, " +
			"lower: 2015-01-01, upper: 2016-01-01, format: DD.MM.YY}\n",
			3, "b", "two-digit years"},
		{"format without days", ok + "  - {name: b, kind: date, " +
			"lower: 2015-01-01, upper: 2016-01-01, format: YYYY-MM}\n",
			3, "b", "format YYYY-MM does not tell one day from the next"},
		{"scale of dates", ok + "  - {name: b, kind: date, lower: 2015-01-01, upper: 2016-01-01, scale: log}\n",
			3, "b",
			"scale does not belong to kind date"},
		{"spikes of dates", ok + "  - {name: b, kind: date, lower: 2015-01-01, upper: 2016-01-01, spikes: [1]}\n",
			3, "b",
			"spikes does not belong to kind date"},
		{"format of a number", ok + "  - {name: b, kind: integer, lower: 0, upper: 9, format: YYYY}\n", 3, "b",
			"format does not belong"},
		{"unit of dates", ok + "  - {name: b, kind: date, lower: 2015-01-01, upper: 2016-01-01, role: unit}\n",
			3, "b",
			"a column of kind date cannot have a role"},
		{"unit of identifiers", ok + "  - {name: b, kind: identifier, role: unit}\n", 3, "b", "cannot have a role"},
		{"code without prefixes", ok + "  - {name: b, kind: code}\n", 3, "b", "a column of codes needs prefixes"},
		{"prefix twice", ok + "  - {name: b, kind: code, prefixes: [I, I]}\n", 3, "b", `prefix "I" is listed twice`},
		{"prefix empty", ok + "  - {name: b, kind: code, prefixes: [\"\"]}\n", 3, "b", "a prefix is empty"},
		{"prefix with spaces", ok + "  - {name: b, kind: code, prefixes: [\" I\"]}\n", 3, "b", "spaces around it"},
		{"list elsewhere", ok + "  - {name: b, kind: code, prefixes: [I], codes: ../icd.csv}\n", 3, "b",
			"not the name of a file next to the schema"},
		{"pattern without digits", ok + "  - {name: b, kind: identifier, pattern: P}\n",
			3, "b", "write it as P-######"},
		{"pattern of two numbers", ok + "  - {name: b, kind: identifier, pattern: \"#-#\"}\n",
			3, "b", "write it as P-######"},
		{"identifier that may be empty", ok + "  - {name: b, kind: identifier, nullable: true}\n", 3, "b",
			"nullable does not belong to kind identifier"},
		{"identifier as label", "label: b\n" + ok + "  - {name: b, kind: identifier}\n", 1, "b", "be an identifier"},
		{"only identifiers", "columns:\n  - {name: b, kind: identifier}\n", 0, "", "no column beside"},
		{"idx of other shape", "format: idx\nimage: {height: 2, width: 1, channels: 1}\n" + ok, 2, "",
			"number of pixel columns"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := partition.ParseSchema([]byte(tc.text))
			var input *partition.InputError
			if !errors.As(err, &input) {
				t.Fatalf("error %v (%T), want an *InputError", err, err)
			}
			message := err.Error()
			if !strings.HasPrefix(message, "schema") || !strings.Contains(message, tc.want) {
				t.Errorf("error %q, want one of the schema with %q", message, tc.want)
			}
			if tc.line != 0 && input.Line != tc.line || input.Column != tc.column {
				t.Errorf("line %d column %q, want %d %q: %s", input.Line, input.Column, tc.line, tc.column, message)
			}
			if input.Fix == "" || strings.Contains(message, "\n") {
				t.Errorf("error without fix or of several lines: %q", message)
			}
		})
	}
}

// All mistakes of a schema are reported, one per line, except those that follow from a wrong column.
func TestAllMistakesOfASchemaAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"label: dead\ncolumns:\n  - {name: age, kind: integer, lower: 18, upper: 10}\n" +
			"  - {name: dose, kind: continuous, lower: 0}\n  - {name: sex, kind: categorical, categories: [F, M]}\n" +
			"  - {name: died, kind: bin}\n  - {name: sex, kind: binary}\n": "" +
			"schema, line 3, column \"age\": lower must be |schema, line 4, column \"dose\": |" +
			"schema, line 6, column \"died\": unknown kind \"bin\"; " +
			"|schema, line 7, column \"sex\": this column is listed twice; " +
			"|schema, line 1: the label \"dead\" is not one of the columns; use the name of a column: age, dose, ",
		"label: age\ncolumns:\n  - {name: age, kind: integer, lower: 18, upper: 10}\n" +
			"  - {name: x, kind: binary}\n": "schema, line 3, column \"age\": lower must be ",
		"label: dead\ntask: other\ncsv: {decimal: x}\ncolumns:\n  - {name: a, role: unit, nullable: true}\n" +
			"  - {name: b, kind: binary}\n": "schema, column \"a\": a column of role unit cannot be nullable; |" +
			"schema, line 3: decimals begin |schema, line 1: the label \"dead\" ",
		"columns:\n" + strings.Repeat("  - {name: a, kind: b}\n", 22): strings.Repeat("schema, line |", 20) +
			"and 2 more, shown after these are corrected",
	} {
		_, err := partition.ParseSchema([]byte(text))
		if err == nil {
			t.Fatalf("%s is read", text)
		}
		lines, begins := strings.Split(err.Error(), "\n"), strings.Split(want, "|")
		testkit.Same(t, err.Error(), len(begins), len(lines))
		for i, begin := range begins {
			if !strings.HasPrefix(lines[i], begin) {
				t.Errorf("line %q, want %q", lines[i], begin)
			}
		}
	}
}

func TestLoadSchemaFiles(t *testing.T) {
	if _, err := partition.LoadSchema(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := partition.LoadSchema(t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "cannot read the schema") {
		t.Errorf("a folder: %v", err)
	}
}

func TestSharedSchemas(t *testing.T) {
	partitiontest.Shared(t)
	paths, err := filepath.Glob(filepath.Join(partitiontest.Folder(), "..", "..", "shared", "data", "*", "schema.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	columns := map[string]int{"adult": 15, "mnist": 785, "fashion_mnist": 785, "flchain": 9, "isolet": 618,
		"census1940": 8, "heart_disease": 12}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			s, err := partition.LoadSchema(path)
			testkit.Must(t, err)
			if s.Name != name {
				t.Errorf("name %q", s.Name)
			}
			if want, known := columns[name]; known && len(s.Columns) != want {
				t.Errorf("%d columns, want %d", len(s.Columns), want)
			}
			if s.Format == "idx" && (s.Image == nil || s.Files["train"].Images == "") {
				t.Errorf("image schema without image or files")
			}
		})
	}
}

func FuzzParseSchema(f *testing.F) {
	raw := testkit.Read(f, partitiontest.File("clinic", "schema.yaml"))
	f.Add(string(raw))
	f.Add("columns:\n  - {name: a, kind: binary, repeat: 3}\n")
	f.Add("a: &a [*a]\ncolumns: *a\n")
	f.Add("columns:\n  - {name: a, kind: integer, lower: 0x1, upper: 1e3, clip: [1, 2], scale: log}\n")
	f.Add(visits + "constraints:\n  - {at_most: [visit, month], broken: move}\n" +
		"  - {never: {icd: J, seen: '<2016-01-01'}}\n")
	f.Add("columns:\n  - {name: a, kind: datetime, lower: 2015-01-01, upper: 2016-01-01, clip: [2015-01-02," +
		" 2015-01-03], resolution: second, format: 'D.M.YYYY hh:mm:ss'}\n" +
		"  - {name: b, kind: identifier, pattern: '#'}\n")
	f.Add(households + "  - {never: {age: [<18, '>=100'], kin: ''}}\n  - {at_most: [low, high], broken: move}\n" +
		"  - {column: card, follows: kin, as: {wife: 1, '': 0}}\n  - {if: {sex: F}, then: {kin: none}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := partition.ParseSchema([]byte(text))
		if err != nil {
			var input *partition.InputError
			if !errors.As(err, &input) {
				t.Fatalf("an error of another type: %v", err)
			}
			return
		}
		again, err := partition.ParseSchema(s.Raw())
		if err != nil || again.SHA256 != s.SHA256 || len(again.Columns) != len(s.Columns) {
			t.Fatalf("the raw schema does not load again: %v", err)
		}
		e := encode.New(s)
		if len(e.Names()) != e.Width() {
			t.Fatalf("%d names for %d features", len(e.Names()), e.Width())
		}
	})
}
