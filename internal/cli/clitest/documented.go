// Package clitest checks commands against the pages that show them.
package clitest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/testkit"
)

var (
	comment = regexp.MustCompile(`\s+#.*$`)
	goesOn  = regexp.MustCompile(`(?:\s*\\\n\s+|\n\s+)([\[(]|--)`)
	flag    = regexp.MustCompile(`(?:^|[\s\[(|])--([a-z][a-z-]*)`)
	subject = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// Documented checks each line of the code blocks in README.md and docs that calls a program: its commands and flags are
// there. The root folder is that of the repository.
func Documented(t *testing.T, root string, program *cobra.Command) {
	t.Helper()
	pages := append(testkit.Value(filepath.Glob(filepath.Join(root, "docs", "*.md"))), filepath.Join(root, "README.md"))
	call := regexp.MustCompile(`^\s*(?:[a-z]+\$ )?(?:bin/)?` + program.Name() + ` ([^&;]*)`)
	calls := 0
	for _, page := range pages {
		if filepath.Base(page) == "formats.md" { // its blocks are of formats, and some begin with the name
			continue
		}
		for _, line := range code(string(testkit.Value(os.ReadFile(page)))) {
			found := call.FindStringSubmatch(line)
			if found == nil || strings.HasPrefix(found[1], "man ") || strings.HasPrefix(found[1], "completion ") {
				continue
			}
			calls++
			c := program
			for _, word := range strings.Fields(found[1]) {
				i := slices.IndexFunc(c.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
				if i < 0 {
					if c.HasSubCommands() && !c.Runnable() && subject.MatchString(word) {
						t.Errorf("%s: %q: there is no command %s", page, line, word)
					}
					break
				}
				c = c.Commands()[i]
			}
			for _, f := range flag.FindAllStringSubmatch(found[1], -1) {
				if c.Flag(f[1]) == nil && f[1] != "help" && f[1] != "version" {
					t.Errorf("%s: %q: %s has no flag --%s", page, line, c.CommandPath(), f[1])
				}
			}
		}
	}
	if calls == 0 {
		t.Errorf("no page calls %s", program.Name())
	}
}

// code is the lines of the code blocks of a page, without comments; a line that goes on in the next is one.
func code(page string) (lines []string) {
	fenced, block := false, strings.Builder{}
	for line := range strings.Lines(page) {
		indented := strings.HasPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			block.WriteByte('\n')
		case fenced:
			block.WriteString(comment.ReplaceAllString(strings.TrimSuffix(line, "\n"), "") + "\n")
		case indented:
			block.WriteString(comment.ReplaceAllString(strings.TrimSuffix(line[4:], "\n"), "") + "\n")
		}
	}
	return strings.Split(goesOn.ReplaceAllString(block.String(), " $1"), "\n")
}
