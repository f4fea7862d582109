package fault

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxWord bounds what errors and logs repeat of a name that a peer made up, in bytes.
	MaxWord = 128
	// MaxReason bounds the stored part of a peer's own words, in bytes.
	MaxReason = 200
)

// Word makes a name that a peer says fit for an error or a line of a log.
func Word(s string) string { return clip(s, MaxWord) }

// Printable makes a peer's own words fit for logs and errors.
func Printable(s string) string {
	if clean := clip(s, MaxReason); clean != "" {
		return clean
	}
	return "no reason given"
}

// Clean makes a peer's own words fit for logs and terminals. It puts spaces in place of control
// characters and leaves the length to others.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// clip removes control characters and cuts the text to a length.
func clip(s string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd' || r == '\u2028' || r == '\u2029' {
			return -1
		}
		return r
	}, s)
	if len(clean) > most {
		clean = strings.ToValidUTF8(clean[:most], "") + "..."
	}
	return clean
}
