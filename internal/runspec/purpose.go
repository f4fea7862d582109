package runspec

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPurpose bounds the purpose of a run, and each text of its study, in characters.
const MaxPurpose = 200

// CheckPurpose is [CheckLine] for the purpose of a run.
func CheckPurpose(purpose string) error {
	if err := CheckLine(purpose); err != nil {
		return fmt.Errorf("purpose has %w", err)
	}
	return nil
}

// CheckLine refuses text that a terminal may show differently, or that is not one line: people at sites read
// the texts of a run when they decide about it.
func CheckLine(text string) error {
	hidden := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	switch n := utf8.RuneCountInString(text); {
	case n > MaxPurpose:
		return fmt.Errorf("%d characters; the maximum is %d", n, MaxPurpose)
	case strings.ContainsFunc(text, hidden):
		return errors.New("a character that is not printable; write one line of text")
	}
	return nil
}
