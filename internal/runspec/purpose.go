package runspec

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPurpose bounds what a run says of its purpose, in characters.
const MaxPurpose = 200

// CheckPurpose refuses what a terminal may not show as it is, or not on a line: people at sites
// read the purpose of a run when they decide about it.
func CheckPurpose(purpose string) error {
	hidden := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	switch n := utf8.RuneCountInString(purpose); {
	case n > MaxPurpose:
		return fmt.Errorf("purpose has %d characters; %d are the most", n, MaxPurpose)
	case strings.ContainsFunc(purpose, hidden):
		return fmt.Errorf("purpose has a character that is not printable; write one line of text")
	}
	return nil
}
