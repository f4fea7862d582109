package partition_test

import (
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func TestColumnsFromRows(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: age, kind: integer, lower: 0, upper: 9, source: built-in}
  - {name: ward, kind: categorical, categories: [TODO, b], source: rows, doc: TODO}
  - {name: pixel, kind: integer, lower: 0, upper: 9, repeat: 2, source: rows}
  - {name: TODO, kind: binary}
`)
	testkit.Same(t, "columns from rows", []string{"ward", "pixel_0", "pixel_1"}, s.ColumnsFromRows())
	if s.Columns[0].Source != partition.SourceBuiltIn {
		t.Errorf("the source is %q", s.Columns[0].Source)
	}
}

// All TODOs are in one error, at the line of the first.
func TestUnfinishedSchema(t *testing.T) {
	for text, want := range map[string]string{
		`label: TODO
columns:
  - {name: a, kind: integer, lower: 0, upper: TODO, source: TODO}
  - {name: b, kind: binary}
  - {name: c, kind: categorical, categories: TODO}
  - {name: d, kind: TODO}
`: `schema, line 1: there is still TODO in the label, a (source, upper), c (categories), d (kind); write what is ` +
			`known publicly, not from the rows, and remove source: TODO`,
		`columns:
  - {name: b, kind: binary}
  - name: a
    kind: integer
    lower: TODO
    upper: 4
`: `schema, line 3: there is still TODO in a (lower); write what is known publicly, not from the ` +
			`rows, and remove source: TODO`,
		`columns:
  - {name: b, kind: binary, source: file}
`: `schema, line 2, column "b": unknown source "file"; use dictionary, built-in or rows, or leave it out`,
	} {
		_, err := partition.ParseSchema([]byte(text))
		var input *partition.InputError
		if !errors.As(err, &input) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
