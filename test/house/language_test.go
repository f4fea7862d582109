package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	md "github.com/yuin/goldmark/ast"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const (
	// longest and average bound the words per sentence of a plain page.
	longest = 30
	average = 18.0
)

type banned struct{ pattern, instead string }

// bannedWords are images and phrases for which the field has its own word.
var bannedWords = []banned{
	{`mend(s|ed|ing)?`, "fix"},
	{`heard`, "counted, contributors"},
	{`owed|owing`, "pending, in flight"},
	{`forlorn`, "stalled"},
	{`disowned?`, "revoked"},
	{`any more`, "no longer"},
	{`he|him|his|she|her|hers`, "it for software, they for people"},
}

// bannedInPages are phrases that plain pages write otherwise.
var bannedInPages = []banned{
	{`whoever`, "everyone who, or say who"},
	{`of which`, "two sentences, or one of them"},
}

// bannedInTexts are phrases that messages, help texts and reports write otherwise.
var bannedInTexts = []banned{
	{`whoever`, "everyone who, or say who"},
	{`of which`, "two sentences, or one of them"},
	{`any(?:body|one) (?:who|else)`, "other users, or say who"},
	{`(?:is|stands) there twice|stands there`, "is listed twice, appears twice"},
	{`anew`, "again"},
	{`(?:goes|go|going|went) on`, "continue"},
	{`turn(?:s|ed)? down`, "refuse, reject"},
	{`let in`, "admit, accept"},
	{`(?:came|comes) or (?:went|goes)`, "joined or left"},
	{`1 (?:teachers|nodes|sites|rows|records|rounds|queries)`, "singular: text.Several"},
}

// bannedIdentifiers are parts of names that are meaningless to readers who know the field.
var bannedIdentifiers = []string{"mend", "heard", "owed", "forlorn", "disowned", "voices"}

// plainPages are the pages whose sentences are measured.
var plainPages = []string{"ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs/*.md"}

var wordPatterns, pagePatterns, textPatterns = patterns(bannedWords), patterns(bannedInPages), patterns(bannedInTexts)

func patterns(list []banned) map[*regexp.Regexp]string {
	of := map[*regexp.Regexp]string{}
	for _, b := range list {
		of[regexp.MustCompile(`(?i)\b(?:`+b.pattern+`)\b`)] = b.instead
	}
	return of
}

func checkWords(t *testing.T, at, prose string, patterns map[*regexp.Regexp]string) {
	t.Helper()
	for pattern, instead := range patterns {
		if found := pattern.FindString(prose); found != "" {
			t.Errorf("%s: %q in %q; write: %s", at, found, shortened(prose), instead)
		}
	}
}

func shortened(s string) string {
	if len(s) > 90 {
		return s[:90] + "..."
	}
	return s
}

// Pages use the field's words, and those that people read first use short sentences.
func TestPagesAreInPlainEnglish(t *testing.T) {
	seen := 0
	eachFile(t, ".md", func(path string, raw []byte) {
		seen++
		plain := slices.ContainsFunc(plainPages, func(p string) bool { return testkit.Value(filepath.Match(p, path)) })
		words, count := 0, 0
		for _, p := range proseOf(raw) {
			checkWords(t, path, p, wordPatterns)
			if plain {
				checkWords(t, path, p, pagePatterns)
			}
			for _, s := range sentences(p) {
				n := wordCount(s)
				words, count = words+n, count+1
				if plain && n > longest {
					t.Errorf("%s: %d words in %q; %d are the most", path, n, shortened(s), longest)
				}
			}
		}
		if plain && float64(words) > average*float64(count) {
			t.Errorf("%s: %.1f words a sentence; %v are the most", path, float64(words)/float64(count), average)
		}
	})
	if seen < 40 {
		t.Errorf("only %d pages were seen", seen)
	}
}

// Comments, strings and names in the code use the same words.
func TestCodeIsInPlainEnglish(t *testing.T) {
	seen := 0
	eachFile(t, ".go", func(path string, raw []byte) {
		if bytes.HasPrefix(raw, []byte("// Code generated ")) || strings.HasSuffix(path, "language_test.go") {
			return
		}
		seen++
		files := token.NewFileSet()
		file := testkit.Value(parser.ParseFile(files, path, raw, parser.ParseComments))
		at := func(n ast.Node) string { return fmt.Sprintf("%s:%d", path, files.Position(n.Pos()).Line) }
		for _, c := range file.Comments {
			checkWords(t, at(c), strings.Join(strings.Fields(c.Text()), " "), wordPatterns)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.Contains(n.Value, " ") {
					checkWords(t, at(n), n.Value, wordPatterns)
					if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "bench/") {
						checkWords(t, at(n), n.Value, textPatterns)
					}
				}
			case *ast.Ident:
				for _, part := range parts(n.Name) {
					if slices.Contains(bannedIdentifiers, part) {
						t.Errorf("%s: the name %s has the word %q", at(n), n.Name, part)
					}
				}
			}
			return true
		})
	})
	if seen < 500 {
		t.Errorf("only %d files were seen", seen)
	}
}

// eachFile calls do with each file of a suffix and its path in the repository.
func eachFile(t *testing.T, suffix string, do func(path string, raw []byte)) {
	t.Helper()
	root := filepath.Join("..", "..")
	testkit.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() {
			if name != ".." && strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, suffix) {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err == nil {
			do(filepath.ToSlash(testkit.Value(filepath.Rel(root, path))), raw)
		}
		return err
	}))
}

// proseOf returns the paragraphs, list items and cells of a page, without code.
func proseOf(raw []byte) (list []string) {
	page := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(raw))
	testkit.Value(0, md.Walk(page, func(n md.Node, entering bool) (md.WalkStatus, error) {
		if !entering || n.Type() != md.TypeBlock || n.FirstChild() == nil || n.FirstChild().Type() != md.TypeInline {
			return md.WalkContinue, nil
		}
		var b strings.Builder
		write(&b, n, raw)
		list = append(list, strings.Join(strings.Fields(b.String()), " "))
		return md.WalkSkipChildren, nil
	}))
	return list
}

// write writes the text within a block; code becomes a placeholder word.
func write(b *strings.Builder, n md.Node, raw []byte) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *md.Text:
			b.Write(c.Segment.Value(raw))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *md.CodeSpan:
			b.WriteString("code")
		default:
			write(b, c, raw)
		}
	}
}

var sentenceEnd = regexp.MustCompile(`[.!?:;]["')\]]*\s+`)

// sentences splits a paragraph at its full stops, colons and semicolons.
func sentences(p string) (list []string) {
	for _, s := range sentenceEnd.Split(p, -1) {
		if wordCount(s) > 2 {
			list = append(list, s)
		}
	}
	return list
}

func wordCount(s string) (n int) {
	for _, f := range strings.Fields(s) {
		if strings.ContainsFunc(f, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// parts are the words of a name, in lower case.
func parts(name string) (list []string) {
	start := 0
	for i, r := range name {
		if unicode.IsUpper(r) || r == '_' {
			list, start = append(list, strings.ToLower(strings.Trim(name[start:i], "_"))), i
		}
	}
	return append(list, strings.ToLower(strings.Trim(name[start:], "_")))
}

func TestSentencesAreCut(t *testing.T) {
	page := "# A title\n\nOne two three. Four `x y z` six:\nseven eight\nnine.\n\n- ten eleven twelve\n\n" +
		"| a | b |\n|---|---|\n| one two three | [four five](x.md) six |\n\n    code is not read\n"
	var got []string
	for _, p := range proseOf([]byte(page)) {
		got = append(got, sentences(p)...)
	}
	want := []string{"One two three", "Four code six", "seven eight nine.", "ten eleven twelve", "one two three",
		"four five six"}
	if !slices.Equal(got, want) {
		t.Errorf("sentences %q, want %q", got, want)
	}
	if got := parts("whatWasHeard_by"); !slices.Equal(got, []string{"what", "was", "heard", "by"}) {
		t.Errorf("parts %q", got)
	}
}
