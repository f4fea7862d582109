package text

import (
	"io"
	"strings"
	"unicode"
)

// Plain is a text of somebody else as a terminal may show it: with spaces in place of what moves the cursor, hides what
// follows or turns the order of letters. Ends of lines and tabs stay.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}

// Line is [Plain] on one line: what somebody else says cannot look like lines of the program.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, Plain(s))
}

// PlainWriter writes what is written to it as [Plain] has it. A write ends with a whole character.
func PlainWriter(w io.Writer) io.Writer { return plainWriter{w} }

type plainWriter struct{ to io.Writer }

func (w plainWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Plain(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
