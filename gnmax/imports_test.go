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

// Noise never comes from a generator that can be predicted: nothing from the
// votes' arrival to their release can as much as name one. (The standard
// library's math/big imports math/rand for a function that nobody here calls, so
// the packages of this module are what counts.)
func TestNoPredictableRandomness(t *testing.T) {
	packages := noisePath(t, token.NewFileSet())
	for _, needed := range []string{"gnmax", "internal/privacy", "internal/ledger", "internal/aggregator",
		"coordinator"} {
		if len(packages[module+needed]) == 0 {
			t.Errorf("package %s was not looked at", needed)
		}
	}
	for path, files := range packages {
		for _, file := range files {
			for _, imported := range imports(file) {
				if predictable(imported) {
					t.Errorf("%s imports %s", path, imported)
				}
			}
		}
	}
}

// predictable is whether a package generates numbers from a seed: math/rand,
// math/rand/v2, and what others have called rand, such as golang.org/x/exp/rand.
func predictable(imported string) bool {
	return slices.Contains(strings.Split(imported, "/"), "rand") && imported != "crypto/rand"
}

func TestPredictableKnowsThem(t *testing.T) {
	for _, bad := range []string{"math/rand", "math/rand/v2", "golang.org/x/exp/rand"} {
		if !predictable(bad) {
			t.Errorf("%s was overlooked", bad)
		}
	}
	if predictable("crypto/rand") {
		t.Error("crypto/rand is where noise comes from")
	}
}

// This package itself needs the standard library and the names of costs, and
// random bits come in at one place.
func TestNoiseNeedsNothingElse(t *testing.T) {
	fset := token.NewFileSet()
	var sources []string
	for _, file := range noisePath(t, fset)[module+"gnmax"] {
		for _, imported := range imports(file) {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") &&
				imported != module+"internal/privacy" {
				t.Errorf("gnmax imports %s", imported)
			}
			if imported == "crypto/rand" {
				sources = append(sources, filepath.Base(fset.Position(file.Pos()).Filename))
			}
		}
	}
	if len(sources) != 1 || sources[0] != "source.go" {
		t.Errorf("crypto/rand is read in %v, want source.go alone", sources)
	}
}

// The files that accept and reject hold no floating-point number and none of the
// functions on them.
func TestSamplersHoldNoFloat(t *testing.T) {
	samplers := map[string]bool{"source.go": false, "bernoulli.go": false, "laplace.go": false, "gaussian.go": false,
		"normgamma.go": false, "exponential.go": false}
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
			t.Errorf("%s is no longer there: name the files that sample", name)
		}
	}
}
