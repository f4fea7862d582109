package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/cli/programs/conclave"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var (
	// A comment hides a block from readers, for what a page takes as given.
	pageBlock = regexp.MustCompile("(?ms)^ *(?:```|<!-- )(sh run|text|[a-z]+ file )([^\n]*)\n(.*?)^ *(?:```|-->)$")
	exitCode  = regexp.MustCompile(`(?m)^(.*?)\s+# exit code (\d+).*$`)
	// plain are lines with conclave alone, in which a shell would replace nothing.
	plain   = regexp.MustCompile(`^( *conclave( +[\w./,:=@-]+| +"[\w ]*")*( +#.*)?\n)+$`)
	comment = regexp.MustCompile(` +#.*`)
)

// Pages run: in each page, blocks marked "sh run" are typed in order in a folder of the page's own, which has
// examples/ and deploy/ of the repository if the page names them. All commands must succeed, unless the line ends
// with "# exit code N". A block "yaml file NAME", of any language, is written to that file. Each line of a "text"
// block after a "sh run" must have been printed. $RUN is the output folder of a finished run. The tutorials have
// tests of their own.
func TestBlocksOfPagesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("slow with a race detector, and nothing concurrent in it")
	}
	finished := finishedRun(t)
	pages := testkit.Value(filepath.Glob(filepath.Join("..", "..", "docs", "*.md")))
	ran := 0
	for _, page := range pages {
		text := string(testkit.Read(t, page))
		if strings.Contains(text, "```sh\n") && !strings.HasPrefix(filepath.Base(page), "tutorial-") {
			t.Errorf("%s: a block of sh does not run: write `sh run`, or leave sh out", page)
		}
		if !strings.Contains(text, "sh run\n") {
			continue
		}
		ran++
		t.Run(filepath.Base(page), func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range []string{"examples", "deploy"} {
				if !strings.Contains(text, folder+"/") {
					continue // a page that does not name it does not need the copy
				}
				from := os.DirFS(filepath.Join("..", "..", folder))
				testkit.Must(t, os.CopyFS(filepath.Join(dir, folder), from))
			}
			printed, state := "", filepath.Join(t.TempDir(), "state")
			for _, b := range pageBlock.FindAllStringSubmatch(text, -1) {
				switch name, lines := b[2], b[3]; b[1] {
				case "sh run":
					if plain.MatchString(lines) {
						printed = "\n" + typed(t, dir, state, lines)
						continue
					}
					c := exec.Command("bash", "-euo", "pipefail", "-c",
						exitCode.ReplaceAllString(lines, "code=0; $1 || code=$$?; test $$code = $2"))
					c.Dir, c.Env = dir, append(os.Environ(), clitest.StateHome+"="+state, "RUN="+finished())
					said, err := c.CombinedOutput()
					if err != nil {
						t.Fatalf("%v:\n%s%s", err, lines, said)
					}
					printed = "\n" + string(said)
				case "text":
					for line := range strings.Lines(lines) {
						if printed != "" && !strings.Contains(printed, "\n"+line) {
							t.Errorf("%q is not printed, but%s", line, printed)
						}
					}
					printed = ""
				default:
					testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(lines), 0o600))
				}
			}
		})
	}
	if ran < 5 {
		t.Errorf("%d pages have blocks that run", ran)
	}
}

// typed runs plain lines in this process, and returns what they print.
func typed(t *testing.T, dir, state, lines string) (printed string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		want := 0
		if m := exitCode.FindStringSubmatch(line); m != nil {
			want = testkit.Value(strconv.Atoi(m[2]))
		}
		code, stdout, stderr := clitest.Call(conclave.Command(), clitest.At{Folder: dir, State: state},
			arguments(comment.ReplaceAllString(line, ""))...)
		if code != want {
			t.Fatalf("%s ended with code %d:\n%s%s", line, code, stdout, stderr)
		}
		printed += stdout + stderr
	}
	return printed
}

// arguments are those of a line with conclave.
func arguments(line string) (args []string) {
	for _, w := range word.FindAllString(line, -1)[1:] {
		args = append(args, strings.Trim(w, `"`))
	}
	return args
}
