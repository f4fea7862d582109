package gnmax

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const module = "github.com/conclave-dp/conclave/"

// noisePath returns the non-test files of the packages that hold private numbers
// and noise, and of every package of this module that they reach, by import
// path.
func noisePath(t *testing.T, fset *token.FileSet) map[string][]*ast.File {
	t.Helper()
	packages := make(map[string][]*ast.File)
	waiting := []string{module + "gnmax", module + "internal/privacy", module + "internal/aggregator"}
	for len(waiting) > 0 {
		path := waiting[0]
		waiting = waiting[1:]
		if packages[path] != nil {
			continue
		}
		dir := filepath.Join("..", strings.TrimPrefix(path, module))
		entries, err := os.ReadDir(dir)
		testkit.Must(t, err)
		for _, entry := range entries {
			name := entry.Name()
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
			testkit.Must(t, err)
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

// predictable reports whether a package generates numbers from a seed: math/rand, math/rand/v2, and other packages
// called rand, such as golang.org/x/exp/rand.
func predictable(imported string) bool {
	return slices.Contains(strings.Split(imported, "/"), "rand") && imported != "crypto/rand"
}

// Noise never comes from a predictable generator: no package between the votes' arrival and their release may import
// one. (The standard library's math/big imports math/rand for a function that nobody here calls, so only the packages
// of this module are checked.) This package itself uses only the standard library and the smallest sigma that is
// charged. Random bits enter at one place, and the files that accept and reject use no floating-point numbers or
// functions.
func TestNoisePath(t *testing.T) {
	for imported, want := range map[string]bool{"math/rand": true, "math/rand/v2": true,
		"golang.org/x/exp/rand": true, "crypto/rand": false} {
		if predictable(imported) != want {
			t.Errorf("%s is taken for the other kind", imported)
		}
	}
	fset := token.NewFileSet()
	packages := noisePath(t, fset)
	for _, needed := range []string{"gnmax", "internal/privacy", "internal/ledger", "internal/aggregator",
		"coordinator"} {
		if len(packages[module+needed]) == 0 {
			t.Errorf("package %s was not looked at", needed)
		}
	}
	for path, files := range packages {
		for _, file := range files {
			if slices.ContainsFunc(imports(file), predictable) {
				t.Errorf("%s imports one of %v", path, imports(file))
			}
		}
	}
	var sources []string
	samplers := map[string]bool{"source.go": false, "bernoulli.go": false, "laplace.go": false, "gaussian.go": false,
		"normgamma.go": false, "exponential.go": false}
	for _, file := range packages[module+"gnmax"] {
		name := filepath.Base(fset.Position(file.Pos()).Filename)
		_, sampler := samplers[name]
		samplers[name] = true
		for _, imported := range imports(file) {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") &&
				imported != module+"internal/privacy" || sampler && (imported == "math" || imported == "math/big") {
				t.Errorf("%s imports %s", name, imported)
			}
			if imported == "crypto/rand" {
				sources = append(sources, name)
			}
		}
		if sampler {
			holdsNoFloat(t, fset, file)
		}
	}
	if !slices.Equal(sources, []string{"source.go"}) {
		t.Errorf("crypto/rand is read in %v, want source.go alone", sources)
	}
	for name, seen := range samplers {
		if !seen {
			t.Errorf("%s is no longer there: name the files that sample", name)
		}
	}
}

func holdsNoFloat(t *testing.T, fset *token.FileSet, file *ast.File) {
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
