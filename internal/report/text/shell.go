package text

import (
	"regexp"
	"strings"
)

// plainWord matches words that a POSIX shell takes as they are.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord is an argument of a command that people copy into a POSIX shell.
func ShellWord(argument string) string {
	if plainWord.MatchString(argument) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
