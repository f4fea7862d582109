package runspec

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPurpose bounds what a run says of its purpose, and each text of its study, in characters.
const MaxPurpose = 200

// CheckPurpose is [CheckLine] for what a run says of its purpose.
func CheckPurpose(purpose string) error {
	if err := CheckLine(purpose); err != nil {
		return fmt.Errorf("purpose has %w", err)
	}
	return nil
}

// CheckLine refuses what a terminal may not show as it is, or not on a line: people at sites
// read the texts of a run when they decide about it.
func CheckLine(text string) error {
	hidden := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	switch n := utf8.RuneCountInString(text); {
	case n > MaxPurpose:
		return fmt.Errorf("%d characters; %d are the most", n, MaxPurpose)
	case strings.ContainsFunc(text, hidden):
		return errors.New("a character that is not printable; write one line of text")
	}
	return nil
}
