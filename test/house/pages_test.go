package house

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"
)

// longestPage is two screens, in lines of Markdown.
const longestPage = 120

// longPages are the generated references, and the results.
var longPages = []string{"results.md", "run-yaml.md", "schema.md"}

// A page of docs is at most two screens long.
func TestPagesAreShort(t *testing.T) {
	eachFile(t, ".md", func(at string, raw []byte) {
		name := path.Base(at)
		if !strings.HasPrefix(at, "docs/") || slices.Contains(longPages, name) {
			return
		}
		if lines := bytes.Count(raw, []byte("\n")); lines > longestPage {
			t.Errorf("%s has %d lines, %d are the most: shorten it, or make two pages of it", at, lines, longestPage)
		}
	})
}
