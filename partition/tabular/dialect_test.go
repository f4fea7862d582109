package tabular

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const wards = `ignore: [remarks, Second Remark]
columns:
  - {name: ward, kind: categorical, categories: [Süd, Österreich]}
  - {name: age in years, kind: integer, lower: 0, upper: 120}
  - {name: dose, kind: continuous, lower: 0, upper: 100, nullable: true}
`

const wardRows = "ward,age in years,dose\nSüd,40,1.5\nÖsterreich,7,\n"

func encoded(t testing.TB, e encoding.Encoding, text string) string {
	t.Helper()
	return testkit.Value(e.NewEncoder().String(text))
}

// wardTable is the table of wardRows under a schema.
func wardTable(t *testing.T, s *partition.Schema) *partition.Table {
	t.Helper()
	table := partition.NewTable(s)
	testkit.Must(t, table.Append([]float64{0, 40, 1.5}, ""))
	testkit.Must(t, table.Append([]float64{1, 7, math.NaN()}, ""))
	return table
}

// What people have is read as the plain form is.
func TestDialects(t *testing.T) {
	little, big := unicode.LittleEndian, unicode.BigEndian
	utf16 := func(order unicode.Endianness, mark unicode.BOMPolicy) string {
		return encoded(t, unicode.UTF16(order, mark), wardRows)
	}
	windows := encoded(t, charmap.Windows1252, wardRows)
	more := func(name string) string {
		return name + "," + strings.NewReplacer("Süd", "x,Süd", "Öst", "y,Öst").Replace(wardRows)
	}
	semicolons := strings.NewReplacer(",", ";", "1.5", "1,5").Replace(wardRows)
	const latin1 = "csv: {encoding: latin1}"
	for name, c := range map[string]struct{ csv, text string }{
		"semicolons, decimal commas":     {"", semicolons},
		"semicolons, decimal points":     {"", strings.ReplaceAll(wardRows, ",", ";")},
		"tabs":                           {"", strings.ReplaceAll(wardRows, ",", "\t")},
		"bars":                           {"", strings.ReplaceAll(wardRows, ",", "|")},
		"colons, said":                   {`csv: {delimiter: ":"}`, strings.ReplaceAll(wardRows, ",", ":")},
		"decimal commas, said":           {`csv: {decimal: ","}`, strings.ReplaceAll(wardRows, "1.5", `"1,5"`)},
		"commas where another is said":   {`csv: {delimiter: ";", decimal: ","}`, wardRows},
		"quoted header":                  {"", strings.Replace(semicolons, "age in years", `"age in years"`, 1)},
		"UTF-16 with a mark":             {"", utf16(little, unicode.UseBOM)},
		"UTF-16, big end first":          {"", utf16(big, unicode.UseBOM)},
		"UTF-16 without a mark":          {"", utf16(little, unicode.IgnoreBOM)},
		"UTF-16, big end first, no mark": {"", utf16(big, unicode.IgnoreBOM)},
		"zipped UTF-16":                  {"", string(zipped(t, utf16(little, unicode.UseBOM)))},
		"windows-1252, said":             {latin1, windows},
		"windows-1252, zipped":           {latin1, string(zipped(t, windows))},
		"UTF-8 where latin1 is said":     {latin1, wardRows},
		"UTF-16 where latin1 is said":    {latin1, utf16(little, unicode.UseBOM)},
		"ignored columns":                {"", more("remarks")},
		"ignored columns, similar":       {"", more("second_remark")},
	} {
		t.Run(name, func(t *testing.T) {
			s := partitiontest.Schema(t, c.csv+"\n"+wards)
			for _, from := range []io.Reader{strings.NewReader(c.text), io.MultiReader(strings.NewReader(c.text))} {
				got, err := DecodeCSV(s, from, "t.csv", Options{})
				testkit.Must(t, err)
				partitiontest.SameTables(t, wardTable(t, s), got)
			}
		})
	}
}

// A file whose form cannot be told, or is not the one that the schema says, is an error with the way out.
func TestDialectsThatCannotBe(t *testing.T) {
	const line1, looks = "t.csv, line 1: ", "the header seems to have the delimiter "
	for name, c := range map[string]struct{ csv, text, want string }{
		"windows-1252": {"", encoded(t, charmap.Windows1252, wardRows), "t.csv, line 2: the text is not UTF-8; " +
			"save the file as UTF-8, or write csv: {encoding: latin1} in the schema"},
		"windows-1252 in the header": {"", "w\xe4rd,dose,age in years\n", line1 + "the text is not UTF-8; save"},
		"CR alone": {"", strings.ReplaceAll(wardRows, "\n", "\r"), line1 + "the lines end with CR " +
			"only"},
		"sep=": {"", "sep=,\n" + wardRows, line1 + "the first line is for Excel (sep=), not a " +
			"header"},
		"JSON": {"", `[{"ward": "Süd"}]`, "t.csv: this is JSON; write the table as CSV or " +
			"Parquet"},
		"another delimiter than said": {`csv: {delimiter: ","}`, strings.ReplaceAll(wardRows, ",", ";"),
			line1 + looks + `";", and the schema says ","; ` +
				`save the file with another delimiter, or write csv: {delimiter: ";"} in the schema`},
		"a rare delimiter": {"", strings.ReplaceAll(wardRows, ",", "^"), line1 + looks + `"^"; save `},
		"two delimiters alike": {"", "ward;x,dose\nSüd;1,2\n", line1 + `the header fits the delimiters "," and ";" ` +
			`alike; save the file with another delimiter, or write csv: {delimiter: ","} in the schema`},
		"a comma in a number where it is a delimiter": {"", strings.ReplaceAll(wardRows, "1.5", `"1,5"`),
			`t.csv, row 1 (line 2), column "dose": a number with a comma; remove thousands separators, or ` +
				`write csv: {decimal: ","} in the schema if the comma is a decimal sign`},
		"thousands": {"", "ward;age in years;dose\nSüd;1;1.000,5\n", "not a finite decimal number"},
		"twice": {"", "ward,dose,dose,age in years\n",
			`t.csv, line 1, column "dose": the column is in the header twice; remove or rename one`},
		"two twice": {"", "ward,ward,dose,dose,age in years\n",
			line1 + `2 columns are in the header twice: "ward", "dose"; remove or rename one of each`},
		"twice, missing and unknown": {"", "ward,ward,dose,x,y\n",
			line1 + `1 column is in the header twice: "ward", and 1 column is missing from the header: ` +
				`"age in years", ` +
				`and 2 columns are not in the schema: "x", "y"; remove or rename one of each; add what is missing `},
		"unclear and unknown": {"", "ward,dose,Age in years,AGE in years,x\n",
			line1 + `it is not clear which columns of the schema these are: "Age in years", "AGE in years", and 1 ` +
				`column is not in the schema: "x"; name one of them exactly as the schema does; remove from`},
		"not clear": {"", "Ward,WARD,dose,age in years\nx,x,1,1\n", line1 + "it is not clear which columns of the " +
			`schema these are: "Ward", "WARD"; name one of them exactly`},
		"similar to one that is there": {"", "ward,Ward,dose,age in years\nx,x,1,1\n",
			`t.csv, line 1, column "Ward": the column is not in the schema; remove it from the file, or add it to ` +
				"the columns: or ignore: of the schema if no other site uses it"},
		"missing and unknown": {"", "ward,height,weight,width\nx,1,1,1\n",
			line1 + `2 columns are missing from the header: "age in years", "dose", and 3 columns are not in the ` +
				"schema: column 2, column 3, column 4; add what is missing"},
		"missing and unknown, surely": {"", "ward,dose,height,weight,width\nx,1,1,1,1\n",
			line1 + `1 column is missing from the header: "age in years", and 3 columns are not in the schema: ` +
				`"height", "weight", "width"; add what is missing to the file; remove from the file what is not ` +
				"in the schema, or change the columns: or ignore: of the schema if no other site uses it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := partitiontest.Schema(t, c.csv+"\n"+wards)
			_, err := DecodeCSV(s, strings.NewReader(c.text), "t.csv", Options{})
			var input *partition.InputError
			if !errors.As(err, &input) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

// Similar names are taken, with one warning that names them.
func TestSimilarNames(t *testing.T) {
	s := partitiontest.Schema(t, wards)
	var warnings []string
	text := strings.Replace(wardRows, "ward,age in years", "\"WARD\u00a0\", Age_in years", 1)
	got, err := DecodeCSV(s, bytes.NewReader([]byte(text)), "t.csv", Options{Warn: func(w string) {
		warnings = append(warnings, w)
	}})
	testkit.Must(t, err)
	partitiontest.SameTables(t, wardTable(t, s), got)
	testkit.Same(t, "warnings", []string{`t.csv: 2 columns are found by a similar name: "WARD\u00a0" is "ward",` +
		` " Age_in years" is "age in years"`}, warnings)
}

// Characters that are cut by the buffer are still characters.
func TestAllUTF8(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Repeat("aé€😀", 20_000): true, strings.Repeat("é", 50_000) + "\xe9": false, "": true,
		strings.Repeat("a", 1<<16-1) + "é": true, strings.Repeat("a", 1<<16-1) + "\xe9a": false,
	} {
		for shift := range 4 {
			got, err := allUTF8(strings.NewReader(strings.Repeat("x", shift) + text))
			if testkit.Must(t, err); got != want {
				t.Errorf("a text of %d bytes: %v", shift+len(text), got)
			}
		}
	}
}

// What may be a separator of thousands is never read as decimals.
func TestThousands(t *testing.T) {
	const columns = "columns:\n  - {name: n, kind: integer, lower: 0, upper: 9999, nullable: true}\n" +
		"  - {name: v, kind: continuous, lower: 0, upper: 99999, nullable: true}\n"
	said := partitiontest.Schema(t, "csv: {decimal: \",\"}\n"+columns)
	for text, want := range map[string]string{
		"n\tv\n1,000\t2\n":             "what may be a thousands separator",
		"n;v\n1.000;2\n":               "what may be a thousands separator",
		"n\tv\n1\t12,500\n2\t950.50\n": "a decimal point, but other numbers",
		"n\tv\n1\t12,500\n2\t3,250\n":  "may be a decimal sign or a thousands separator",
		"n\tv\n1\t12,500\n2\t3,25\n":   "",
		"n\tv\n1\t0,500\n2\t-\n":       "not a finite decimal number",
		"n\tv\n1\t0,500\n2\t7\n":       "",
		"n,v\n1,1.500\n2,7\n":          "",
		"n,v\n1.000,1.500\n2,7\n":      "",
	} {
		_, err := DecodeCSV(partitiontest.Schema(t, columns), strings.NewReader(text), "t.csv", Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	table, err := DecodeCSV(said, strings.NewReader("n;v\n1;12,500\n2;3,250\n"), "t.csv", Options{})
	testkit.Must(t, err)
	if got := table.Cells(0)[1]; got != 12.5 {
		t.Errorf("12,500 is %v where the schema says that decimals follow a comma", got)
	}
}

// Rows that a header swallowed are not told as names of columns.
func TestAHeaderThatHasRowsInIt(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: age, kind: integer, lower: 0, upper: 99}\n"+
		"  - {name: sex, kind: categorical, categories: [F, M]}\n  - {name: died, kind: binary}\n")
	for text, want := range map[string]string{
		"age,sex,died\r50,F,SECRET\r51,M,0\r":                           "the lines end with CR only",
		"age,sex,\"died\n50,F,SECRET\n51,M,SECRET\"\n50,F,0\n":          "column 3",
		"age,sex,died," + strings.Repeat("SECRET", 100) + "\n1,F,0,1\n": "column 4",
	} {
		_, err := DecodeCSV(s, strings.NewReader(text), "t.csv", Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}
