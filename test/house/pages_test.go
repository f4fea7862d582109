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

// notYetShort are pages that are still to be shortened.
var notYetShort = []string{
	"boosting.md", "calculator.md", "dpgan.md", "embed.md", "formats.md", "gpate.md", "marginals.md", "masked.md",
	"masked-protocol.md", "privacy-accounting.md", "privacy-checks.md", "privacy-limits.md", "privacy-mechanisms.md",
	"weights.md",
}

// A page of docs is at most two screens long.
func TestPagesAreShort(t *testing.T) {
	eachFile(t, ".md", func(at string, raw []byte) {
		name := path.Base(at)
		if !strings.HasPrefix(at, "docs/") || slices.Contains(longPages, name) || slices.Contains(notYetShort, name) {
			return
		}
		if lines := bytes.Count(raw, []byte("\n")); lines > longestPage {
			t.Errorf("%s has %d lines, %d are the most: shorten it, or make two pages of it", at, lines, longestPage)
		}
	})
}
