package text

import (
	"io"
	"strings"
	"unicode"
)

// Plain is foreign text made safe for a terminal: spaces replace characters that move the cursor, hide text or change
// its direction. Line ends and tabs stay.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}

// Line is [Plain] on one line: foreign text cannot look like lines of the program.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, Plain(s))
}

// Visible is foreign text whose characters can all be seen: U+FFFD replaces the others, and line ends and tabs.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// PlainWriter applies [Plain] to what is written to it. Each write must end with a complete character.
func PlainWriter(w io.Writer) io.Writer { return plainWriter{w} }

type plainWriter struct{ to io.Writer }

func (w plainWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Plain(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
