package gnmax

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/conclave-dp/conclave/"

// noisePath returns the non-test files of this package and of every package of
// this module that it reaches, by import path.
func noisePath(t *testing.T, fset *token.FileSet) map[string][]*ast.File {
	t.Helper()
	packages := make(map[string][]*ast.File)
	waiting := []string{module + "gnmax"}
	for len(waiting) > 0 {
		path := waiting[0]
		waiting = waiting[1:]
		if packages[path] != nil {
			continue
		}
		dir := filepath.Join("..", strings.TrimPrefix(path, module))
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			packages[path] = append(packages[path], file)
			for _, imported := range imports(file) {
				if strings.HasPrefix(imported, module) {
					waiting = append(waiting, imported)
				}
			}
		}
	}
	return packages
}

func imports(file *ast.File) []string {
	var paths []string
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, path)
	}
	return paths
}

// Noise never comes from a generator that can be predicted. (The standard
// library's math/big imports math/rand for a function that nobody here calls,
// so the packages of this module are what counts, and they use the standard
// library alone.)
func TestNoPredictableRandomness(t *testing.T) {
	fset := token.NewFileSet()
	packages := noisePath(t, fset)
	usesCryptoRand := false
	for path, files := range packages {
		for _, file := range files {
			for _, imported := range imports(file) {
				if imported == "math/rand" || imported == "math/rand/v2" {
					t.Errorf("%s imports %s", path, imported)
				}
				if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") && !strings.HasPrefix(imported, module) {
					t.Errorf("%s imports %s, which is not the standard library", path, imported)
				}
				usesCryptoRand = usesCryptoRand || imported == "crypto/rand"
			}
		}
	}
	if len(packages[module+"privacy"]) == 0 || !usesCryptoRand {
		t.Errorf("looked at the wrong packages: %v", len(packages))
	}
}

// The files that accept and reject hold no floating-point number and none of the
// functions on them.
func TestSamplersHoldNoFloat(t *testing.T) {
	samplers := map[string]bool{"source.go": false, "bernoulli.go": false, "laplace.go": false, "gaussian.go": false}
	fset := token.NewFileSet()
	for _, file := range noisePath(t, fset)[module+"gnmax"] {
		name := filepath.Base(fset.Position(file.Pos()).Filename)
		if _, sampler := samplers[name]; !sampler {
			continue
		}
		samplers[name] = true
		for _, imported := range imports(file) {
			if imported == "math" || imported == "math/big" {
				t.Errorf("%s imports %s", name, imported)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if strings.HasPrefix(n.Name, "float") || strings.HasPrefix(n.Name, "complex") || n.Name == "Float" {
					t.Errorf("%s: %s", fset.Position(n.Pos()), n.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.FLOAT || n.Kind == token.IMAG {
					t.Errorf("%s: the number %s", fset.Position(n.Pos()), n.Value)
				}
			}
			return true
		})
	}
	for name, seen := range samplers {
		if !seen {
			t.Errorf("%s is not there any more: name the files that sample", name)
		}
	}
}
