// Package pattern has regular expressions that are compiled at their first use. The programs start often, and compiling
// all expressions at each start would take a tenth of the time to start.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression. Several goroutines may use it.
type Pattern func() *regexp.Regexp

// Of is the pattern of a valid expression; its first use panics if the expression is not valid.
func Of(expression string) Pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// MatchString reports whether a text has a match.
func (p Pattern) MatchString(text string) bool { return p().MatchString(text) }
