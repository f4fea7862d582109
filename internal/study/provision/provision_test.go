package provision_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/provision"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const text = `name: heart
title: Heart failure in three hospitals
purpose: Synthetic rows for teaching
permit: IRB 2026-114
contact: Dr. Berg, +49 30 1234
expires: 2036-06-30
dataset: heart
schema: schema.yaml
budget: {epsilon: 2, delta: 1e-6}
pipelines: [marginals]
aggregator: {hosts: [agg.example.org, 10.0.0.7]}
sites: [north, south]
students: [lab, dept]
`

// written is a folder with a study.yaml and its schema.
func written(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"study.yaml": text, "schema.yaml": "name: heart\n"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return filepath.Join(dir, "study.yaml")
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[strings.TrimPrefix(path, dir+"/")] = string(testkit.Read(t, path))
		}
		return err
	}))
	return all
}

// Making a folder again changes nothing; an interrupted one is completed.
func TestAFolderIsFinishedAndNotOverwritten(t *testing.T) {
	path := written(t, text)
	dir := filepath.Join(t.TempDir(), "study")
	_, kits, err := provision.Make(path, dir)
	testkit.Must(t, err)
	if len(kits) != 2 || kits[0].Site != "north" || len(kits[0].SHA256) != 64 {
		t.Errorf("kits %+v", kits)
	}
	first := contents(t, dir)
	for name := range first {
		if strings.HasSuffix(name, ".key") {
			if info := testkit.Value(os.Stat(filepath.Join(dir, name))); info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", name, info.Mode())
			}
		}
	}
	_, again, err := provision.Make(path, dir)
	testkit.Must(t, err)
	testkit.Same(t, "kits", kits, again)
	testkit.Same(t, "files", first, contents(t, dir))

	for _, lost := range []string{
		"aggregator/aggregator.yaml", "worker/student-worker.crt", "students/lab/run.yaml", "kits/south.zip",
		"operator/operator.yaml", "aggregator/revoked.crl", "students/dept/student-dept.crt",
	} {
		testkit.Must(t, os.Remove(filepath.Join(dir, lost)))
		_, _, err := provision.Make(path, dir)
		testkit.Must(t, err)
		now := contents(t, dir)
		for name, was := range first {
			made := name == lost || strings.HasPrefix(name, "authority/issued") // the register grows
			if now[name] == "" && !strings.HasSuffix(name, ".lock") || !made && now[name] != was {
				t.Errorf("without %s: %s is gone, or another one", lost, name)
			}
		}
		first = now
	}
}

func TestFoldersThatAreRefused(t *testing.T) {
	path := written(t, text)
	made := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "study")
		_, _, err := provision.Make(path, dir)
		testkit.Must(t, err)
		return dir
	}
	for name, c := range map[string]struct {
		path string
		dir  func(t *testing.T) string
		says string
	}{
		"another study's": {written(t, strings.Replace(text, "heart\n", "brain\n", 1)), made, "belongs to another " +
			"study"},
		"of another command": {path, func(t *testing.T) string {
			dir := t.TempDir()
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
			return dir
		}, "is not empty"},
		"half an authority": {path, func(t *testing.T) string {
			dir := made(t)
			testkit.Must(t, os.Remove(filepath.Join(dir, "authority", "ca.crt")))
			return dir
		}, "an incomplete authority"},
		"a key that is another's": {path, func(t *testing.T) string {
			dir := made(t)
			key := testkit.Read(t, filepath.Join(dir, "worker", "student-worker.key"))
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "students", "lab", "student-lab.key"), key, 0o600))
			return dir
		}, "do not match"},
		"another study or site kit": {path, func(t *testing.T) string {
			dir := made(t)
			raw := testkit.Read(t, filepath.Join(dir, "kits", "south.zip"))
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "kits", "north.zip"), raw, 0o600))
			return dir
		}, "another study or site"},
		"a study that is over": {written(t, strings.Replace(text, "2036", "2020", 1)),
			func(t *testing.T) string { return filepath.Join(t.TempDir(), "new") }, "expires: the study ended on"},
		"no schema": {written(t, strings.Replace(text, "schema: schema", "schema: none", 1)),
			func(t *testing.T) string { return filepath.Join(t.TempDir(), "new") }, "schema: "},
	} {
		dir := c.dir(t)
		if _, _, err := provision.Make(c.path, dir); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %q", name, err, c.says)
		}
	}
}

// The template asks for everything that it leaves empty, and for nothing else.
func TestTheTemplateAsksForWhatIsMissing(t *testing.T) {
	_, err := study.Parse([]byte(provision.Template))
	if err == nil {
		t.Fatal("a template is a study")
	}
	for _, field := range []string{"title", "purpose", "permit", "contact", "expires", "aggregator.hosts", "sites",
		"students"} {
		if !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%q does not ask for %s", err, field)
		}
	}
	if got := strings.Count(err.Error(), "\n"); got != 7 {
		t.Errorf("%d lines in %q", got+1, err)
	}
}
