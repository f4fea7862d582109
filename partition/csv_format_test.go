package partition

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestCSVOfASchema(t *testing.T) {
	const columns = "\ncolumns: [{name: x, kind: binary}]\n"
	const csv = `csv: {encoding: latin1, delimiter: "\t", decimal: ","}`
	s, err := ParseSchema([]byte(csv + "\nignore: [name, 12]" + columns))
	testkit.Must(t, err)
	testkit.Same(t, "csv", CSV{Encoding: Latin1, Delimiter: "\t", Decimal: ","}, s.CSV)
	testkit.Same(t, "ignore", []string{"name", "12"}, s.Ignore)
	for text, want := range map[string]string{
		"csv: {encoding: utf-7}":    `line 1: unknown encoding "utf-7"; use latin1, or leave it out`,
		`csv: {delimiter: ";;"}`:    "line 1: a delimiter must be one character",
		`csv: {delimiter: x}`:       "line 1: a delimiter must be one character",
		`csv: {delimiter: "\""}`:    "line 1: a delimiter must be one character",
		`csv: {delimiter: "."}`:     "line 1: a delimiter must be one character",
		`csv: {delimiter: "\n"}`:    "line 1: a delimiter must be one character",
		"csv: {decimal: x}":         "line 1: decimals begin with a point or a comma",
		"csv: {quote: x}":           `line 1: unknown field "quote"`,
		"ignore: [a, a]":            `line 1: column "a" is listed twice under ignore`,
		`ignore: [" "]`:             "line 1: a column to ignore has no name",
		"ignore: [x]":               `line 1: column "x" is in both columns and ignore`,
		"csv: {encoding: [latin1]}": "line 1: ",
	} {
		if _, err := ParseSchema([]byte(text + columns)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
