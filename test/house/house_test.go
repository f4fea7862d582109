// Package house checks the countable rules for the code in ARCHITECTURE.md.
package house

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const (
	columns = 120
	files   = 20
	lines   = 4000
	benches = 5
	fields  = 18
)

// No line is above 120 columns, with tabs of four. No package has more than 20 files or 4,000 lines without its
// tests, and no package has a meaningless name. Benchmarks are five packages at most. Generated files are exempt.
func TestSizes(t *testing.T) {
	type size struct{ files, lines int }
	packages, seen := map[string]size{}, 0
	root := filepath.Join("..", "..")
	testkit.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() {
			if name != ".." && strings.HasPrefix(name, ".") || name == "testdata" {
				return fs.SkipDir
			}
			if name == "util" || name == "utils" || name == "common" || name == "helpers" {
				t.Errorf("%s: name a package for what it has", path)
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, scanner := 0, bufio.NewScanner(f)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if n++; n == 1 && strings.HasPrefix(scanner.Text(), "// Code generated ") {
				return nil
			}
			if w := utf8.RuneCountInString(strings.ReplaceAll(scanner.Text(), "\t", "    ")); w > columns {
				t.Errorf("%s:%d has %d columns; break it at %d", path, n, w, columns)
			}
		}
		if !strings.HasSuffix(name, "_test.go") {
			seen++
			p := packages[filepath.Dir(path)]
			packages[filepath.Dir(path)] = size{p.files + 1, p.lines + n}
		}
		return scanner.Err()
	}))
	below := 0
	for name, p := range packages {
		if strings.HasPrefix(name, filepath.Join(root, "bench")) {
			below++
		}
		if p.files > files || p.lines > lines {
			t.Errorf("%s has %d files and %d lines; split it at %d and %d", name, p.files, p.lines, files, lines)
		}
	}
	if below == 0 || below > benches {
		t.Errorf("bench has %d packages; make a new measurement a command of one of %d at most", below, benches)
	}
	if seen < 500 {
		t.Errorf("only %d files were seen", seen)
	}
}

// No struct has more than 18 fields, but for those that mirror a file or a message, whose fields have tags.
func TestStructsAreSmall(t *testing.T) {
	structs := 0
	eachFile(t, ".go", func(path string, raw []byte) {
		if strings.HasSuffix(path, ".pb.go") {
			return
		}
		file := testkit.Value(parser.ParseFile(token.NewFileSet(), path, raw, parser.SkipObjectResolution))
		ast.Inspect(file, func(n ast.Node) bool {
			named, _ := n.(*ast.TypeSpec)
			if named == nil {
				return true
			}
			of, _ := named.Type.(*ast.StructType)
			if of == nil {
				return true
			}
			structs++
			has, tagged := 0, false
			for _, f := range of.Fields.List {
				has += max(1, len(f.Names))
				tagged = tagged || f.Tag != nil
			}
			if has > fields && !tagged {
				t.Errorf("%s: %s has %d fields; group those that belong together", path, named.Name, has)
			}
			return true
		})
	})
	if structs < 500 {
		t.Errorf("only %d structs were found", structs)
	}
}
