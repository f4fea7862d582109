package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/testkit"
)

var (
	comment = regexp.MustCompile(`\s+#.*$`)
	goesOn  = regexp.MustCompile(`(?:\s*\\\n\s+|\n\s+)([\[(]|--)`)
	option  = regexp.MustCompile(`(?:^|[\s\[(|])--([a-z][a-z-]*)`)
	subject = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// Each line of the code blocks in README.md and docs that calls a program names a command and flags of its manual
// pages.
func TestPagesShowCommandsThatThereAre(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages := append(testkit.Value(filepath.Glob(filepath.Join(root, "docs", "*.md"))), filepath.Join(root, "README.md"))
	pages = slices.DeleteFunc(pages, func(page string) bool {
		return filepath.Base(page) == "formats-signatures.md" // its blocks are of formats, and some begin with a name
	})
	for program := range programs {
		t.Run(program, func(t *testing.T) {
			manual := t.TempDir()
			if _, stderr, code := called(program, "man", "--out", manual); code != 0 {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			call := regexp.MustCompile(`^\s*(?:[a-z]+\$ )?(?:bin/)?` + program + ` ([^&;]*)`)
			calls := 0
			for _, page := range pages {
				for _, line := range code(string(testkit.Read(t, page))) {
					found := call.FindStringSubmatch(line)
					if found != nil && !strings.HasPrefix(found[1], "man ") &&
						!strings.HasPrefix(found[1], "completion ") {
						calls++
						documented(t, page, line, manual, program, found[1])
					}
				}
			}
			if calls == 0 {
				t.Errorf("no page calls %s", program)
			}
		})
	}
}

// documented checks a call of a program against the manual page of its command.
func documented(t *testing.T, page, line, manual, program, call string) {
	t.Helper()
	command := program
	for _, word := range strings.Fields(call) {
		if _, err := os.Stat(filepath.Join(manual, command+"-"+word+".1")); err != nil {
			under := testkit.Value(filepath.Glob(filepath.Join(manual, command+"-*.1")))
			serves := program != "conclave" && command == program // also without a word that follows
			if len(under) > 0 && !serves && subject.MatchString(word) {
				t.Errorf("%s: %q: there is no command %s", page, line, word)
			}
			break
		}
		command += "-" + word
	}
	text := string(testkit.Read(t, filepath.Join(manual, command+".1")))
	for _, f := range option.FindAllStringSubmatch(call, -1) {
		if !strings.Contains(text, `\fB--`+f[1]+`\fP`) && f[1] != "version" {
			t.Errorf("%s: %q: %s has no flag --%s", page, line, command, f[1])
		}
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

// The help of every command fits a terminal of 120 columns.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	var check func(program string, c *cobra.Command, path ...string)
	check = func(program string, c *cobra.Command, path ...string) {
		help, _, _ := called(program, append(slices.Clone(path), "--help")...)
		if !strings.Contains(help, "usage: ") {
			t.Errorf("%s %v has no help: %q", program, path, help)
		}
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 120 {
				t.Errorf("%s %v: a line of help has %d columns: %s", program, path, n, line)
			}
		}
		for _, below := range c.Commands() {
			check(program, below, append(slices.Clone(path), below.Name())...)
		}
	}
	for program, command := range programs {
		check(program, command())
	}
}
