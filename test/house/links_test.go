package house

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	md "github.com/yuin/goldmark/ast"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// place is a page, with the heading that a link names, or none.
type place struct{ page, heading string }

// Each link of a page leads to a file and, where it names one, to a heading. From README.md links lead to every page
// of docs.
func TestLinks(t *testing.T) {
	headings, links := map[string][]string{}, map[string][]place{}
	eachFile(t, ".md", func(at string, raw []byte) {
		page := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(raw))
		headings[at] = []string{}
		testkit.Value(0, md.Walk(page, func(n md.Node, entering bool) (md.WalkStatus, error) {
			switch n := n.(type) {
			case *md.Heading:
				if entering {
					headings[at] = append(headings[at], anchor(n, raw))
				}
			case *md.Link:
				if to := string(n.Destination); entering && !strings.Contains(to, "://") {
					links[at] = append(links[at], resolve(at, to))
				}
			}
			return md.WalkContinue, nil
		}))
	})
	for at, list := range links {
		for _, to := range list {
			if _, err := os.Stat(filepath.Join("..", "..", to.page)); err != nil {
				t.Errorf("%s: no file %s", at, to.page)
			}
			if to.heading != "" && !slices.Contains(headings[to.page], to.heading) {
				t.Errorf("%s: %s has no heading #%s", at, to.page, to.heading)
			}
		}
	}
	reached := map[string]bool{}
	var follow func(page string)
	follow = func(page string) {
		if reached[page] {
			return
		}
		reached[page] = true
		for _, to := range links[page] {
			follow(to.page)
		}
	}
	follow("README.md")
	for _, page := range slices.Sorted(maps.Keys(headings)) {
		if strings.HasPrefix(page, "docs/") && !reached[page] {
			t.Errorf("no link from README.md leads to %s", page)
		}
	}
	checkNamedPages(t, headings)
}

var namedPage = regexp.MustCompile(`\b(docs/[a-z0-9-]+\.md)(?:#([a-z0-9-]+))?`)

// checkNamedPages looks for pages that comments and messages of the code name.
func checkNamedPages(t *testing.T, headings map[string][]string) {
	t.Helper()
	for _, suffix := range []string{".go", ".yaml", ".proto"} {
		eachFile(t, suffix, func(at string, raw []byte) {
			for _, m := range namedPage.FindAllStringSubmatch(string(raw), -1) {
				list, there := headings[m[1]]
				if !there || m[2] != "" && !slices.Contains(list, m[2]) {
					t.Errorf("%s names %s, which is not there", at, m[0])
				}
			}
		})
	}
}

func resolve(from, to string) place {
	file, heading, _ := strings.Cut(to, "#")
	if file == "" {
		return place{from, heading}
	}
	return place{path.Join(path.Dir(from), file), heading}
}

// anchor is the name that GitHub gives a heading.
func anchor(n md.Node, raw []byte) string {
	var b strings.Builder
	writeAll(&b, n, raw)
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(b.String()))
}

// writeAll writes the text of a node, code included.
func writeAll(b *strings.Builder, n md.Node, raw []byte) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*md.Text); ok {
			b.Write(t.Segment.Value(raw))
			continue
		}
		writeAll(b, c, raw)
	}
}
