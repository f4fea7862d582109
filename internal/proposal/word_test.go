package proposal

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// A schema reads every character as the proposal wrote it. Line breaks are not allowed in one.
func TestEveryCharacterIsReadBack(t *testing.T) {
	const block = 0x1000
	for first := rune(0); first <= utf8.MaxRune; first += block {
		var b strings.Builder
		for r := first; r < first+block; r++ {
			if utf8.ValidRune(r) && r != '\n' && r != '\r' {
				b.WriteRune(r)
			}
		}
		text := "a" + b.String() + "z" // spaces around a category do not count
		c := Column{Name: "a", Kind: kindCategorical, Categories: []string{text, "b"}}
		s, err := partition.ParseSchema((&Proposal{Name: "p", Columns: []Column{c}}).YAML())
		if err != nil {
			t.Fatalf("characters from %U: %v", first, err)
		}
		if got := s.Columns[0].Categories[0]; got != text {
			t.Errorf("characters from %U are read as %+q", first, got)
		}
	}
	testkit.Same(t, "a word without quotes", "größe_cm", word("größe_cm"))
}
