package proof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Only regular files of the folder are read: a pipe or a device would never end, and a link can lead anywhere.
func TestOnlyFilesOfTheFolderAreRead(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	testkit.Must(t, os.WriteFile(outside, []byte("x"), 0o600))
	for name, place := range map[string]func(path string) error{
		"a pipe":                func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link to a device":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"a link out of it":      func(path string) error { return os.Symlink(outside, path) },
		"a link to a pipe":      linkedPipe,
		"a folder of that name": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testkit.Must(t, place(filepath.Join(dir, certFile)))
			folder, err := OpenFolder(dir)
			testkit.Must(t, err)
			defer folder.Close()
			found := make(chan Findings, 1)
			go func() { found <- Verify(folder, nil) }()
			select {
			case f := <-found:
				if f.Worst() != Failed || f.Checks[0].What != certFile {
					t.Errorf("%+v", f.Checks)
				}
			case <-time.After(time.Minute):
				t.Fatal("it is still being read")
			}
		})
	}
}

func linkedPipe(path string) error {
	if err := syscall.Mkfifo(path+".pipe", 0o600); err != nil {
		return err
	}
	return os.Symlink(filepath.Base(path)+".pipe", path)
}

// A file name of two lines would look like two reports in the statement that a student signs.
func TestANameIsOneLine(t *testing.T) {
	t.Parallel()
	sum := sumOf(nil)
	for _, name := range []string{"a\n" + sum + " b", "a\r", "\x1b[2K", "a\u202eb", "a\xff"} {
		s := Signatures{Reports: []File{{name, 0, sum}}}
		if _, err := ParseSignatures(testkit.Value(s.Canonical())); err == nil {
			t.Errorf("%q is the name of a report", name)
		}
		m := Manifest{Run: "r", Rows: 1, Files: []File{{name, 0, sum}}}
		if _, err := ParseManifest(testkit.Value(m.Canonical())); err == nil {
			t.Errorf("%q is the name of a file", name)
		}
	}
}

// A zip file with names only takes no more memory than one that could be a bundle.
func TestABundleHasNoEndlessList(t *testing.T) {
	t.Parallel()
	many := Bundle{}
	for i := range 20_000 {
		many[fmt.Sprintf("a-name-of-some-length-for-number-%06d", i)] = []byte{}
	}
	var packed bytes.Buffer
	testkit.Must(t, many.Write(&packed))
	raw := packed.Bytes()
	for name, raw := range map[string][]byte{
		"a long list":    raw,
		"a hidden list":  slices.Concat(raw[:len(raw)-10], []byte{1, 0, 0, 0}, raw[len(raw)-6:]),
		"after the list": append(slices.Clone(raw), 0),
		"no end":         raw[:10],
	} {
		if err := boundedList(bytes.NewReader(raw), int64(len(raw))); err == nil {
			t.Errorf("%s is read", name)
		}
		if _, err := ReadBundle(bytes.NewReader(raw), int64(len(raw))); !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v, want ErrBundle", name, err)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(testkit.Value(Manifest{Run: "r", Rows: 1, Files: []File{{"a/b", 3, sumOf(nil)}}}.Canonical()))
	f.Add([]byte(`{"run":"r","RUN":"s","rows":1e0,"files":[]}`))
	f.Add([]byte(strings.Repeat("[", 20_000)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ParseManifest(raw)
		if err != nil {
			return
		}
		if again, err := m.Canonical(); err != nil || !bytes.Equal(raw, again) {
			t.Errorf("%q is read, and written as %q, %v", raw, again, err)
		}
	})
}

func FuzzSignatures(f *testing.F) {
	f.Add(testkit.Value(Signatures{Reports: []File{{"a/b", 3, sumOf(nil)}}}.Canonical()))
	f.Add([]byte("{\n \"ledger\": [{\"chain\": [\"AA==\", \"AB==\"], \"signature\": \"\"}],\n \"reports\": null\n}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseSignatures(raw)
		if err != nil {
			return
		}
		if again, err := s.Canonical(); err != nil || !bytes.Equal(raw, again) {
			t.Errorf("%q is read, and written as %q, %v", raw, again, err)
		}
		for _, g := range s.Ledger {
			_, _ = g.Check("statement")
		}
	})
}

func FuzzBundle(f *testing.F) {
	var packed bytes.Buffer
	testkit.Must(f, Bundle{"a": []byte("x"), "b/c": nil}.Write(&packed))
	f.Add(packed.Bytes())
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\xff", 18)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ReadBundle(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := b.Write(&again); err != nil || !bytes.Equal(raw, again.Bytes()) {
			t.Errorf("%q is read, and packed again otherwise, %v", raw, err)
		}
	})
}
