package fault

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxWord bounds in bytes how much of a peer-chosen name errors and logs repeat.
	MaxWord = 128
	// MaxReason bounds in bytes how much of a peer's message is stored.
	MaxReason = 200
)

// Word makes a peer-chosen name safe for an error or a log line.
func Word(s string) string { return clip(s, MaxWord) }

// Printable makes a peer's message safe for logs and errors.
func Printable(s string) string {
	if clean := clip(s, MaxReason); clean != "" {
		return clean
	}
	return "no reason given"
}

// Clean replaces control characters in a peer's message with spaces, for logs and terminals. It does not limit the
// length.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// clip removes control characters and truncates the text.
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
