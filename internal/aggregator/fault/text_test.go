package fault

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// A repeated peer message is short, valid text on one line.
func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		most := rapid.IntRange(1, 50).Draw(t, "most")
		got := clip(s, most)
		if len(got) > most+len("...") || !utf8.ValidString(got) ||
			strings.ContainsAny(got, "\n\r\x00\x1b\u0085\u2028") {
			t.Fatalf("%q becomes %q", s, got)
		}
	})
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "no reason given",
		"\n\x00\x7f":            "no reason given",
		"budget\r\nlevel=error": "budgetlevel=error",
		"é\xff":                 "é",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := Printable(string(make([]byte, 1000)) + string([]rune{'é'})); got != "é" {
		t.Errorf("got %q", got)
	}
}
