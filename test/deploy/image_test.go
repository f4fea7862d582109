package deploy

import (
	"bufio"
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const repository = "../.."

// instruction is a line of a Dockerfile.
type instruction struct{ word, rest string }

func dockerfile(t testing.TB) []instruction {
	t.Helper()
	f, err := os.Open(filepath.Join(repository, "Dockerfile"))
	testkit.Must(t, err)
	defer f.Close()
	var all []instruction
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		all = append(all, instruction{word, rest})
	}
	return all
}

// TestDockerfile requires an empty last stage with only the built programs and the licenses, and a numeric user,
// which Kubernetes can distinguish from root.
func TestDockerfile(t *testing.T) {
	all := dockerfile(t)
	last := 0
	for i, in := range all {
		if in.word == "FROM" {
			last = i
		}
	}
	want := []instruction{
		{"FROM", "scratch"}, {"COPY", "--from=build /out/ /"}, {"COPY", "LICENSE NOTICE /"}, {"USER", "65532:65532"},
		{"ENTRYPOINT", `["/conclave"]`},
	}
	if !slices.Equal(all[last:], want) {
		t.Errorf("the last stage is %v", all[last:])
	}
	raw, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	testkit.Must(t, err)
	_, rest, _ := strings.Cut(string(raw), "\ngo ")
	least, _, _ := strings.Cut(rest, "\n")
	minor := least[:strings.LastIndex(least, ".")]
	if first := all[0]; first.word != "FROM" || !strings.HasPrefix(first.rest, "golang:"+minor+".") ||
		!strings.HasSuffix(first.rest, " AS build") {
		t.Errorf("%v builds a module of go %s", first, least)
	}
}

// ignored reports whether .dockerignore excludes a path from the build. Its patterns are folders, and names in any
// folder.
func ignored(t testing.TB, name string) bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, ".dockerignore"))
	testkit.Must(t, err)
	for pattern := range strings.Lines(string(raw)) {
		pattern = strings.TrimSpace(pattern)
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			continue
		}
		if base, anywhere := strings.CutPrefix(pattern, "**/"); anywhere {
			if ok, err := path.Match(base, path.Base(name)); err != nil || ok {
				return true
			}
		} else if name == pattern || strings.HasPrefix(name, pattern+"/") {
			return true
		}
	}
	return false
}

// buildImage does the Dockerfile's steps in place of a daemon: the context after .dockerignore, each RUN of the build
// stage, and the COPYs into the last one. It returns the image's root.
func buildImage(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the image is not built with -short")
	}
	source, out, root := t.TempDir(), t.TempDir(), t.TempDir()
	err := filepath.WalkDir(repository, func(from string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repository, from)
		if err != nil || name == "." {
			return err
		}
		switch to := filepath.Join(source, name); {
		case ignored(t, name) && entry.IsDir():
			return fs.SkipDir
		case ignored(t, name):
			return nil
		case entry.IsDir():
			return os.Mkdir(to, 0o755)
		case entry.Type().IsRegular():
			raw, err := os.ReadFile(from)
			if err != nil {
				return err
			}
			return os.WriteFile(to, raw, 0o644)
		}
		return nil
	})
	testkit.Must(t, err)
	ran := 0
	for _, in := range dockerfile(t) {
		if in.word != "RUN" || in.rest == "go mod download" {
			continue // the test's own modules are used
		}
		ran++
		command := exec.Command("sh", "-c", strings.ReplaceAll(in.rest, "/out/", out+"/"))
		command.Dir = source
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("RUN %s: %v\n%s", in.rest, err, said)
		}
	}
	if ran != 1 {
		t.Fatalf("the Dockerfile has %d steps that build", ran)
	}
	testkit.Must(t, os.Chmod(root, 0o755))
	testkit.Must(t, os.CopyFS(root, os.DirFS(out)))
	for _, name := range []string{"LICENSE", "NOTICE"} {
		raw, err := os.ReadFile(filepath.Join(source, name))
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(root, name), raw, 0o644))
	}
	return root
}

// checkStatic requires programs that need no loader and no library, and that contain no module of the tests.
func checkStatic(t *testing.T, root string) {
	t.Helper()
	for _, name := range []string{"aggregator", "conclave", "student", "teacher"} {
		program := filepath.Join(root, name)
		file, err := elf.Open(program)
		testkit.Must(t, err)
		for _, part := range file.Progs {
			if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is not static", name)
			}
		}
		testkit.Must(t, file.Close())
		said, err := exec.Command("go", "version", "-m", program).Output()
		testkit.Must(t, err)
		for _, module := range []string{"k8s.io/api", "sigs.k8s.io/kustomize", "prometheus-operator"} {
			if bytes.Contains(said, []byte(module)) {
				t.Errorf("%s holds %s", name, module)
			}
		}
	}
}
