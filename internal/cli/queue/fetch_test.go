package queue

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// gaveOut is what a small run gave out, with the authority of its signatures.
func gaveOut(t *testing.T) (proof.Bundle, *x509.CertPool) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fetch") // short, for the Unix socket below it
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	rows := "age,label\n"
	for i := range 60 {
		rows += fmt.Sprintf("%d,%d\n", 20+i, i%2)
	}
	for name, text := range map[string]string{
		"rows.csv": rows,
		"schema.yaml": "name: tiny\nlabel: label\ncolumns:\n  - {name: age, kind: integer, lower: 0, upper: 120}\n" +
			"  - {name: label, kind: binary}\n",
		"run.yaml": "name: small\nschema: schema.yaml\nteachers: 2\nrelease: {rows: 20}\n" +
			"privacy: {epsilon: 1, delta: 1e-3}\ndata: [{site: s, file: rows.csv}]\n" +
			"pipeline: marginals\nevaluate: {hold_out: 0}\n",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	spec, err := runfile.Load(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	out := filepath.Join(dir, "out")
	_, err = local.Run(t.Context(), spec, local.Options{Out: out})
	testkit.Must(t, err)
	b, _, err := proof.Pack(os.DirFS(out))
	testkit.Must(t, err)
	roots, err := proof.Authorities(filepath.Join(out, "state", "certs", "ca.crt"))
	testkit.Must(t, err)
	return b, roots
}

// What comes is the run's, by the authority, the name and the ledger's entry, or it is refused.
func TestWhatComesIsTheRuns(t *testing.T) {
	b, roots := gaveOut(t)
	head := proof.VerifyBundle(b, roots).Head
	for name, c := range map[string]struct {
		alter     func(proof.Bundle)
		run, head string
		roots     *x509.CertPool
		want      string
	}{
		"as it was given out": {want: ""},
		"another run's":       {run: "other", want: `it is of run "small"`},
		"another ledger's":    {head: strings.Repeat("0", 64), want: "another entry than that of the aggregator"},
		"other rows": {want: "altered", alter: func(b proof.Bundle) {
			b["synthetic.csv"] = []byte("age,label\n")
		}},
		"a file too many": {want: "x.csv: no signed list names it", alter: func(b proof.Bundle) {
			b["x.csv"] = []byte("x")
		}},
		"another authority's": {roots: x509.NewCertPool(), want: "signatures.json"},
	} {
		altered := maps.Clone(b)
		if c.alter != nil {
			c.alter(altered)
		}
		if c.run == "" {
			c.run = "small"
		}
		if c.head == "" {
			c.head = head
		}
		if c.roots == nil {
			c.roots = roots
		}
		var packed bytes.Buffer
		testkit.Must(t, altered.Write(&packed))
		got, worst, err := genuine(bytes.NewReader(packed.Bytes()), int64(packed.Len()), c.roots, c.run, c.head)
		switch {
		case c.want == "" && (err != nil || worst != proof.Proven || !maps.EqualFunc(got, b, bytes.Equal)):
			t.Errorf("%s: %v, %v", name, worst, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	raw := []byte("PK\x05\x06 no zip file")
	if _, _, err := genuine(bytes.NewReader(raw), int64(len(raw)), roots, "small", head); err == nil {
		t.Error("what is no zip file is a bundle")
	}
}

// A folder is made at once, and replaced only where nothing but files of the bundle is lost.
func TestUnpack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	b := proof.Bundle{"a.csv": []byte("1"), "model/x": []byte("2")}
	read := func() map[string]string {
		found := map[string]string{}
		testkit.Must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				found[strings.TrimPrefix(path, dir+"/")] = string(testkit.Read(t, path))
			}
			return err
		}))
		return found
	}
	testkit.Must(t, unpack(b, out))
	b["a.csv"] = []byte("3")
	testkit.Must(t, unpack(b, out+"/"))
	testkit.Same(t, "the folder", map[string]string{"out/a.csv": "3", "out/model/x": "2"}, read())
	for _, mine := range []string{"mine.txt", "model/mine"} {
		path := filepath.Join(out, mine)
		testkit.Must(t, os.WriteFile(path, []byte("m"), 0o600))
		if err := unpack(b, out); err == nil || !strings.Contains(err.Error(), mine+" is not a file of the bundle") {
			t.Errorf("over %s: %v", mine, err)
		}
		testkit.Must(t, os.Remove(path))
	}
	testkit.Must(t, os.Remove(filepath.Join(out, "a.csv")))
	testkit.Must(t, os.Symlink("/etc/passwd", filepath.Join(out, "a.csv")))
	if err := unpack(b, out); err == nil || !strings.Contains(err.Error(), "a.csv is not a file") {
		t.Errorf("over a link: %v", err)
	}
	file := filepath.Join(dir, "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	if err := unpack(b, file); err == nil {
		t.Error("a file was replaced by a folder")
	}
	entries, err := os.ReadDir(dir)
	testkit.Must(t, err)
	if names := slices.Sorted(func(yield func(string) bool) {
		for _, e := range entries {
			if !yield(e.Name()) {
				return
			}
		}
	}); !slices.Equal(names, []string{"file", "out"}) {
		t.Errorf("left are %v", names)
	}
}
