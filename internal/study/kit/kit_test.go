package kit_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/kit"
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
aggregator: {hosts: [agg.example.org]}
sites: [north, south]
students: [lab]
`

// made returns a kit with a certificate of a role and name, and its bytes.
func made(t testing.TB, role certs.Role, name string) (*kit.Kit, []byte) {
	t.Helper()
	return madeFor(t, role, name, time.Hour)
}

func madeFor(t testing.TB, role certs.Role, name string, life time.Duration) (*kit.Kit, []byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "authority")
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, role, name, nil, life))
	files := certs.IssuedFiles(dir, role, name)
	k := &kit.Kit{
		Site: name, Study: testkit.Value(study.Parse([]byte(text))),
		StudyText: []byte(text), Schema: []byte("name: s\n"),
		Authority: testkit.Read(t, files.CA), Cert: testkit.Read(t, files.Cert), Key: testkit.Read(t, files.Key),
	}
	return k, packed(t, k)
}

func packed(t testing.TB, k *kit.Kit) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, k.Write(&b))
	return b.Bytes()
}

func TestAKitIsUnpackedOnce(t *testing.T) {
	_, raw := made(t, certs.RoleJoiner, "north")
	path := filepath.Join(t.TempDir(), "kit.zip")
	testkit.Must(t, os.WriteFile(path, raw, 0o600))
	for _, f := range testkit.Value(zip.NewReader(bytes.NewReader(raw), int64(len(raw)))).File {
		if want := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); !f.Modified.Equal(want) {
			t.Errorf("%s is of %v", f.Name, f.Modified)
		}
	}
	k, hash, err := kit.Read(path)
	testkit.Must(t, err)
	if k.Site != "north" || k.Study.Dataset != "heart" || len(hash) != 64 {
		t.Errorf("read %+v with %s", k, hash)
	}
	dir := filepath.Join(t.TempDir(), "new")
	files, err := k.Unpack(dir)
	testkit.Must(t, err)
	if info := testkit.Value(os.Stat(files.Key)); info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v", info.Mode())
	}
	_, err = k.Unpack(dir)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "study.yaml"), []byte("another"), 0o600))
	if _, err := k.Unpack(dir); !errors.Is(err, kit.ErrDiffers) || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("over another study: %v", err)
	}
	if got := string(testkit.Read(t, filepath.Join(dir, "study.yaml"))); got != "another" {
		t.Errorf("it was overwritten by %q", got)
	}
}

// A new kit of the same study takes the place of an earlier one after two files are deleted, which the error names.
func TestANewKitNamesTheFilesOfTheEarlierOne(t *testing.T) {
	k, _ := made(t, certs.RoleJoiner, "north")
	k.Site = "north"
	dir := t.TempDir()
	files, err := k.Unpack(dir)
	testkit.Must(t, err)
	other, _ := made(t, certs.RoleJoiner, "north")
	k.Cert, k.Key = other.Cert, other.Key
	if _, err := k.Unpack(dir); !errors.Is(err, kit.ErrDiffers) ||
		!strings.Contains(err.Error(), "delete the two files "+files.Cert+" and "+files.Key) {
		t.Errorf("over an earlier kit: %v", err)
	}
	testkit.Must(t, os.Remove(files.Cert))
	testkit.Must(t, os.Remove(files.Key))
	_, err = k.Unpack(dir)
	testkit.Must(t, err)
	if _, _, err := kit.Read(filepath.Join(dir, "none.zip")); err == nil || !strings.Contains(err.Error(),
		"none.zip does not exist; give the path") {
		t.Errorf("without a kit: %v", err)
	}
	_, raw := madeFor(t, certs.RoleJoiner, "north", time.Nanosecond)
	old := filepath.Join(dir, "old.zip")
	testkit.Must(t, os.WriteFile(old, raw, 0o600))
	if _, _, err := kit.Read(old); !errors.Is(err, certs.ErrExpired) ||
		!strings.Contains(err.Error(), "the operator can make a new kit: delete this one") {
		t.Errorf("an expired kit: %v", err)
	}
}

// Anything but an exact kit is refused, and nothing of it is written.
func TestHostileKits(t *testing.T) {
	good, raw := made(t, certs.RoleJoiner, "north")
	foreign, _ := made(t, certs.RoleJoiner, "north")
	node, _ := made(t, certs.RoleNode, "north")
	stranger, _ := made(t, certs.RoleJoiner, "east")
	change := func(f func(*kit.Kit)) []byte {
		k := *good
		f(&k)
		return packed(t, &k)
	}
	rezip := func(method uint16, rename func(string) string, extra ...string) []byte {
		in := testkit.Value(zip.NewReader(bytes.NewReader(raw), int64(len(raw))))
		var b bytes.Buffer
		out := zip.NewWriter(&b)
		for _, f := range in.File {
			w := testkit.Value(out.CreateHeader(&zip.FileHeader{Name: rename(f.Name), Method: method}))
			testkit.Value(io.Copy(w, testkit.Value(f.Open())))
		}
		for _, name := range extra {
			w := testkit.Value(out.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store}))
			if !strings.HasSuffix(name, "/") {
				testkit.Value(w.Write([]byte("x")))
			}
		}
		testkit.Must(t, out.Close())
		return b.Bytes()
	}
	same := func(s string) string { return s }
	instead := func(name string) func(string) string {
		return func(s string) string { return strings.Replace(s, "schema.yaml", name, 1) }
	}
	for name, c := range map[string]struct {
		raw  []byte
		says string
	}{
		"no zip file":             {[]byte("PK"), "zip"},
		"a path out":              {rezip(zip.Store, instead("../schema.yaml")), "not one of its files"},
		"an absolute path":        {rezip(zip.Store, instead("/etc/passwd")), "not one of its files"},
		"a folder":                {rezip(zip.Store, same, "sub/"), "not one of its files"},
		"another file":            {rezip(zip.Store, same, "teacher.yaml"), "not one of its files"},
		"a file twice":            {rezip(zip.Store, same, "ca.crt"), "listed twice"},
		"a file less":             {rezip(zip.Store, instead("README.txt")), "listed twice"},
		"compressed":              {rezip(zip.Deflate, same), "another program"},
		"too large":               {make([]byte, 5<<20), "more than"},
		"a large file":            {change(func(k *kit.Kit) { k.Schema = make([]byte, 2<<20) }), "schema.yaml"},
		"an empty file":           {change(func(k *kit.Kit) { k.Schema = nil }), "schema.yaml"},
		"no study":                {change(func(k *kit.Kit) { k.StudyText = []byte("name: x\n") }), "study.yaml"},
		"another authority":       {change(func(k *kit.Kit) { k.Authority = foreign.Authority }), "joiner.crt"},
		"no authority":            {change(func(k *kit.Kit) { k.Authority = good.Cert }), "ca.crt"},
		"another key":             {change(func(k *kit.Kit) { k.Key = foreign.Key }), "joiner.crt"},
		"a node's certificate":    {packed(t, node), "wrong role"},
		"a site of another study": {packed(t, stranger), "wrong role"},
		"altered":                 {bytes.Replace(raw, []byte("name: s"), []byte("name: t"), 1), "checksum"},
	} {
		_, err := kit.Parse(c.raw, time.Now())
		if !errors.Is(err, kit.ErrKit) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %q", name, err, c.says)
		}
	}
	if _, err := kit.Parse(raw, time.Now().Add(48*time.Hour)); !errors.Is(err, certs.ErrExpired) {
		t.Errorf("an expired kit: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	_, raw := made(f, certs.RoleJoiner, "north")
	f.Add(raw)
	f.Add([]byte("PK\x05\x06"))
	now := time.Now()
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := kit.Parse(raw, now)
		if err != nil {
			return
		}
		if again, err := kit.Parse(packed(t, k), now); err != nil || again.Site != k.Site {
			t.Fatalf("a kit that was read is none when it is packed: %v", err)
		}
	})
}
