package certificate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A certificate names the columns that its guarantee does not cover, in a field and in a note, and reads back.
func TestColumnsOutsideTheGuarantee(t *testing.T) {
	raw, plain, _ := example(t)
	if len(plain.ColumnsFromRows) > 0 || slices.ContainsFunc(plain.Notes, func(n string) bool {
		return strings.HasPrefix(n, "Outside")
	}) {
		t.Errorf("a certificate without such columns says %q, %q", plain.ColumnsFromRows, plain.Notes)
	}
	verified, err := ledger.VerifyStrict(strings.NewReader(string(raw)))
	testkit.Must(t, err)
	f := facts()
	f.ColumnsFromRows = []string{"ward", "job"}
	c, err := New(f, verified)
	testkit.Must(t, err)
	const note = `Outside the guarantee: the schema takes bounds or categories from the rows (source: rows) of ` +
		`"ward", "job".`
	if !slices.Contains(c.Notes, note) {
		t.Errorf("the notes are %q", c.Notes)
	}
	text, err := c.Canonical()
	testkit.Must(t, err)
	again, err := Parse(text)
	testkit.Must(t, err)
	testkit.Same(t, "columns", f.ColumnsFromRows, again.ColumnsFromRows)

	c.ColumnsFromRows = []string{"ward", "ward"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "columns_from_rows: name 2") {
		t.Errorf("a column that is named twice: %v", err)
	}
}

// The note fits a certificate, for any number and length of names.
func TestTheNoteOfManyColumnsIsBounded(t *testing.T) {
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("%s%d", strings.Repeat("ü", 500), i))
	}
	note := OutsideGuarantee(names)
	testkit.Must(t, checkNotes([]string{note}))
	if !strings.HasSuffix(note, ", 4,992 other columns.") {
		t.Errorf("the note is %s", note)
	}
}
