package draws

import (
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// A package with property tests that does not import this one would draw new seeds in every run, and fail by chance.
func TestPropertyTestsTakeTheSeed(t *testing.T) {
	drawing, seeded := map[string]bool{}, map[string]bool{}
	testkit.Must(t, fs.WalkDir(os.DirFS("../../.."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../../..", path), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			switch dir := filepath.Dir(path); strings.Trim(i.Path.Value, `"`) {
			case "pgregory.net/rapid":
				drawing[dir] = true
			case "github.com/conclave-dp/conclave/internal/testkit/draws":
				seeded[dir] = true
			}
		}
		return nil
	}))
	if len(drawing) < 20 {
		t.Errorf("only %d packages with property tests were found: %v", len(drawing), drawing)
	}
	for dir := range drawing {
		if !seeded[dir] {
			t.Errorf("%s has property tests, and its tests do not import internal/testkit/draws", dir)
		}
	}
}

// The default is the fixed seed.
func TestSeedIsFixed(t *testing.T) {
	if _, given := os.LookupEnv(seedVariable); given {
		t.Skip(seedVariable + " is set")
	}
	if got := flag.Lookup("rapid.seed").Value.String(); got != strconv.Itoa(fixedSeed) {
		t.Errorf("the seed is %s", got)
	}
}
