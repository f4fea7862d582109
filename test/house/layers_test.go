package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const module = "github.com/conclave-dp/conclave/"

// pkg is what the files of a package, without its tests, import and contain.
type pkg struct {
	imports  map[string]bool // of this module, without its path
	literals map[string]token.Position
}

// tree reads all packages of the module, by folder.
func tree(t *testing.T) map[string]pkg {
	t.Helper()
	all, files := map[string]pkg{}, token.NewFileSet()
	root := filepath.Join("..", "..")
	testkit.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() {
			if name != ".." && strings.HasPrefix(name, ".") || name == "testdata" {
				return fs.SkipDir
			}
			if _, other := os.Stat(filepath.Join(path, "go.mod")); other == nil && path != root {
				return fs.SkipDir // a separate module
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if _, ok := all[folder]; !ok {
			all[folder] = pkg{map[string]bool{}, map[string]token.Position{}}
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if imported, ok := n.(*ast.ImportSpec); ok {
				of, _ := strconv.Unquote(imported.Path.Value)
				all[folder].imports[strings.TrimPrefix(of, module)] = true
				return false
			}
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				all[folder].literals[literal.Value] = files.Position(literal.Pos())
			}
			return true
		})
		return nil
	}))
	if len(all) < 100 {
		t.Fatalf("only %d packages were seen", len(all))
	}
	return all
}

// row is a package in the table of ARCHITECTURE.md, perhaps with those below it.
type row struct {
	name  string // without internal/
	below bool
	group int
}

// rows reads the table. Groups are in order, and a row names one package or several; later ones may omit the folder
// of the first.
func rows(t *testing.T, packages map[string]pkg) (all []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	testkit.Must(t, err)
	head, quoted := regexp.MustCompile(`^\| \*\*.*\*\* \|`), regexp.MustCompile("`([^`]+)`")
	group := -1
	for line := range strings.Lines(string(text)) {
		if head.MatchString(line) {
			group++
			continue
		}
		if group < 0 || !strings.HasPrefix(line, "| `") {
			continue
		}
		folder := ""
		for i, name := range quoted.FindAllStringSubmatch(strings.SplitN(line, " | ", 2)[0], -1) {
			of, below := strings.CutSuffix(name[1], "/...")
			if i == 0 && !below {
				folder = filepath.ToSlash(filepath.Dir(of)) // for the others, if they omit it
			}
			candidates := []row{{of, below, group}}
			if folder != "." && folder != "" && !strings.Contains(of, "/") {
				candidates = append(candidates, row{folder + "/" + of, below, group})
			}
			there := slices.DeleteFunc(candidates, func(r row) bool { return !r.found(packages) })
			if len(there) == 0 && of != "test/deploy" { // a separate module
				t.Errorf("ARCHITECTURE.md names %s, and there is no such package", of)
			}
			all = append(all, there...)
		}
	}
	if len(all) < 50 || group < 8 {
		t.Fatalf("the table of packages has %d rows of %d groups", len(all), group+1)
	}
	return all
}

// found reports whether a package of the row exists.
func (r row) found(packages map[string]pkg) bool {
	for folder := range packages {
		if folder = strings.TrimPrefix(folder, "internal/"); folder == r.name ||
			r.below && strings.HasPrefix(folder, r.name+"/") {
			return true
		}
	}
	return false
}

// groupOf is the group of a package by the closest row; ok is false for none.
func groupOf(table []row, folder string) (group int, ok bool) {
	folder, longest := strings.TrimPrefix(folder, "internal/"), -1
	for _, r := range table {
		switch {
		case r.name == folder && !r.below:
			return r.group, true
		case r.below && (r.name == folder || strings.HasPrefix(folder, r.name+"/")) && len(r.name) > longest:
			group, longest, ok = r.group, len(r.name), true
		}
	}
	return group, ok
}

// Each package is in the table of ARCHITECTURE.md, which has no others, and imports only packages of its own group
// and of groups above it.
func TestLayers(t *testing.T) {
	packages := tree(t)
	table := rows(t, packages)
	for folder, p := range packages {
		own, ok := groupOf(table, folder)
		if strings.HasSuffix(folder, "test") { // shared by its neighbours' tests
			continue
		}
		if !ok {
			t.Errorf("%s: give it a row in the packages of ARCHITECTURE.md", folder)
			continue
		}
		for imported := range p.imports {
			if _, ours := packages[imported]; !ours {
				continue
			}
			if of, ok := groupOf(table, imported); ok && of > own {
				t.Errorf("%s imports %s, which stands in a group below its own", folder, imported)
			}
		}
	}
}

// needs are all packages of the module that a package depends on, including itself.
func needs(packages map[string]pkg, folder string) map[string]bool {
	all := map[string]bool{folder: true}
	for more := []string{folder}; len(more) > 0; {
		for imported := range packages[more[0]].imports {
			if _, ours := packages[imported]; ours && !all[imported] {
				all[imported] = true
				more = append(more, imported)
			}
		}
		more = more[1:]
	}
	return all
}

// The aggregator knows shapes: it depends on no package of records, features, discriminators, regressions,
// projections or pipelines, and names no pipeline.
func TestTheAggregatorKnowsShapes(t *testing.T) {
	packages := tree(t)
	unknown := regexp.MustCompile(
		`^(projection|partition|internal/(nn|classcounts|teachers|discriminator|embedding|ratio|pipeline|pipelines|` +
			`kinds|question|run|runfile|report|certificate|evaluate|node|student))(/|$)`)
	all := needs(packages, "internal/aggregator")
	for folder := range all {
		if unknown.MatchString(folder) {
			t.Errorf("internal/aggregator needs %s", folder)
		}
	}
	names := regexp.MustCompile(`\b(` + strings.Join(pipelines.Names(nil), "|") + `)\b`)
	for folder := range all {
		if !strings.HasPrefix(folder, "internal/aggregator") && folder != "coordinator" {
			continue
		}
		for literal, at := range packages[folder].literals {
			if names.MatchString(literal) {
				t.Errorf("%s names a pipeline: %s", at, literal)
			}
		}
	}
	if len(all) < 15 {
		t.Errorf("internal/aggregator needs only %v", slices.Sorted(maps.Keys(all)))
	}
}

// Rounds, shapes and the queue know no gRPC. Packages that list, write and check runs know pipelines only by their
// list.
func TestWhoImportsWhat(t *testing.T) {
	packages := tree(t)
	for _, c := range []struct {
		folders []string
		none    *regexp.Regexp
	}{
		{[]string{"internal/aggregator/round", "internal/aggregator/shape", "internal/aggregator/queue"},
			regexp.MustCompile(`^google\.golang\.org/grpc`)},
		{[]string{"internal/run", "internal/run/results", "internal/runfile", "internal/sitepolicy",
			"internal/certificate", "internal/report", "internal/node", "internal/worker", "internal/cli/rows",
			"internal/cli/training", "internal/cli/accounting", "internal/cli/auditing"},
			regexp.MustCompile(`^internal/pipeline/([^p]|p[^l])`)}, // any but pipeline/plan
		{[]string{"internal/nn", "internal/pipeline", "internal/pipeline/embed", "internal/pipeline/pategan",
			"internal/pipeline/gpate", "internal/pipeline/dpgan", "internal/pipeline/pgb", "internal/pipeline/drs",
			"internal/pipeline/iw", "internal/pipeline/tilt", "internal/question"},
			regexp.MustCompile(`^(google\.golang\.org/grpc|go\.etcd\.io|internal/(aggregator|node|student|run)(/|$))`)},
	} {
		for _, folder := range c.folders {
			p, ok := packages[folder]
			if !ok {
				t.Errorf("there is no package %s", folder)
			}
			for imported := range p.imports {
				if c.none.MatchString(imported) {
					t.Errorf("%s imports %s", folder, imported)
				}
			}
		}
	}
}

// Nothing that kinds, pipelines, reports and certificates depend on needs gRPC, whose calls have a Go package of their
// own, or zap. Otherwise the tests of 40 packages would link both, and an HTTP server.
func TestMessagesNeedNoCalls(t *testing.T) {
	packages := tree(t)
	none := []string{"google.golang.org/grpc", "proto/conclave/v1/rpc", "go.uber.org/zap"}
	for _, of := range []string{"internal/pipelines", "internal/kinds", "internal/report", "internal/certificate",
		"internal/runfile", "internal/sitepolicy"} {
		all := needs(packages, of)
		if !all["proto/conclave/v1"] {
			t.Errorf("%s does not need messages: name another package", of)
		}
		for folder := range all {
			for imported := range packages[folder].imports {
				if slices.Contains(none, imported) {
					t.Errorf("%s needs %s, which imports %s", of, folder, imported)
				}
			}
		}
	}
}
