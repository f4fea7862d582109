package partition

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func clinicManifest(t testing.TB, key Key, table *Table, partitions int, unit string) *Manifest {
	t.Helper()
	a, err := Assign(key, table, partitions, unit)
	if err != nil {
		t.Fatal(err)
	}
	m, err := BuildManifest(key, "visits", "hospital", "node-1", table, a, unit)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func clinicTable(t testing.TB) *Table {
	t.Helper()
	table, err := ReadCSV(clinic(t), "testdata/clinic/visits.csv", ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestManifestCounts(t *testing.T) {
	table := clinicTable(t)
	for unit, units := range map[string]int{UnitRecord: 6, "patient": 4} {
		m := clinicManifest(t, Key{1}, table, 3, unit)
		sum := func(counts []int) (n int) {
			for _, c := range counts {
				n += c
			}
			return n
		}
		if sum(m.Units) != units || sum(m.Rows) != 6 || len(m.Units) != 3 {
			t.Errorf("unit %s: units %v rows %v", unit, m.Units, m.Rows)
		}
	}
}

// Order of rows does not matter; any other change shows, and is named.
func TestManifestCheck(t *testing.T) {
	table := clinicTable(t)
	key := Key{1}
	stored := clinicManifest(t, key, table, 3, "patient")
	if err := clinicManifest(t, key, table.Subset([]int{5, 3, 1, 0, 2, 4}), 3, "patient").CheckAgainst(stored); err != nil {
		t.Errorf("the same rows in another order: %v", err)
	}
	changed := clinicTable(t)
	changed.cells[3*8+2]++ // the age of one visit
	moved, err := Assign(key, table, 3, "patient")
	if err != nil {
		t.Fatal(err)
	}
	for row := range moved.Of {
		if table.Unit(row) == "p4" {
			moved.Of[row] = (moved.Of[row] + 1) % 3
		}
	}
	movedManifest, err := BuildManifest(key, "visits", "hospital", "node-1", table, moved, "patient")
	if err != nil {
		t.Fatal(err)
	}
	otherSchema := clinicTable(t)
	schema := *otherSchema.schema
	schema.SHA256 = strings.Repeat("0", 64)
	otherSchema.schema = &schema
	named := func(dataset, site, node string) *Manifest {
		a, err := Assign(key, table, 3, "patient")
		if err != nil {
			t.Fatal(err)
		}
		m, err := BuildManifest(key, dataset, site, node, table, a, "patient")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for part, m := range map[string]*Manifest{
		"data set":        named("other", "hospital", "node-1"),
		"site":            named("visits", "other", "node-1"),
		"node":            named("visits", "hospital", "node-2"),
		"schema":          clinicManifest(t, key, otherSchema, 3, "patient"),
		"privacy unit":    clinicManifest(t, key, table, 3, UnitRecord),
		"partition count": clinicManifest(t, key, table, 2, "patient"),
		"key":             clinicManifest(t, Key{2}, table, 3, "patient"),
		"data":            clinicManifest(t, key, changed, 3, "patient"),
		"partition map":   movedManifest,
	} {
		err := m.CheckAgainst(stored)
		if !errors.Is(err, ErrManifestChanged) || !strings.Contains(fmt.Sprint(err), "its "+part+" differs") {
			t.Errorf("%s: error %v", part, err)
		}
		if m.Fingerprint == stored.Fingerprint {
			t.Errorf("%s: the fingerprint is the same", part)
		}
	}
	one := clinicManifest(t, key, table.Subset([]int{0, 1, 2, 3, 4}), 3, "patient")
	if err := one.CheckAgainst(stored); err == nil || !strings.Contains(err.Error(), "its data differs") {
		t.Errorf("one of two equal rows removed: %v", err)
	}
}

func TestBuildManifestRefuses(t *testing.T) {
	table := clinicTable(t)
	for name, tc := range map[string]struct {
		a    *Assignment
		unit string
	}{
		"other table":      {&Assignment{Partitions: 2, Of: []int{0, 1}}, UnitRecord},
		"no partitions":    {&Assignment{Of: make([]int, 6)}, UnitRecord},
		"beyond":           {&Assignment{Partitions: 2, Of: []int{0, 1, 0, 1, 0, 2}}, UnitRecord},
		"negative":         {&Assignment{Partitions: 2, Of: []int{0, 1, 0, 1, 0, -1}}, UnitRecord},
		"unit in two":      {&Assignment{Partitions: 2, Of: []int{0, 1, 0, 1, 0, 0}}, "patient"},
		"not a unit colum": {&Assignment{Partitions: 2, Of: make([]int, 6)}, "ward"},
	} {
		if _, err := BuildManifest(Key{1}, "d", "s", "n", table, tc.a, tc.unit); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestManifestFile(t *testing.T) {
	m := clinicManifest(t, Key{1}, clinicTable(t), 3, "patient")
	path := filepath.Join(t.TempDir(), "manifest.json")
	if _, err := LoadManifest(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for range 2 { // also over an older one
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	got, err := LoadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("(-saved +loaded):\n%s", diff)
	}
	if err := m.Save(filepath.Join(path, "below", "a-file")); err == nil {
		t.Errorf("saved below a file")
	}
	whole, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":         "",
		"cut":           string(whole[:50]),
		"unknown field": `{"version":1,"extra":2}`,
		"two values":    string(whole) + string(whole),
		"other version": strings.Replace(string(whole), `"version":1`, `"version":2`, 1),
		"too few units": strings.Replace(string(whole), `"partitions":3`, `"partitions":4`, 1),
		"no print":      strings.Replace(string(whole), m.Fingerprint, "", 1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var input *InputError
		if _, err := LoadManifest(path); !errors.As(err, &input) || input.File != path || input.Mend == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "partition.key")
	key, err := LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadOrCreateKey(path)
	if err != nil || again != key || key == (Key{}) {
		t.Errorf("the second time: same %v, %v", again == key, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 65 {
		t.Errorf("the file: %v, %v", info, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	if other, err := LoadOrCreateKey(filepath.Join(dir, "other.key")); err != nil || other == key {
		t.Errorf("another file has the same key, %v", err)
	}
	var input *InputError
	if _, err := LoadOrCreateKey(filepath.Join(dir, "no", "folder.key")); !errors.As(err, &input) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	for name, text := range map[string]string{
		"empty": "", "short": "00ff\n", "long": strings.Repeat("a", 66), "not hex": strings.Repeat("g", 64), "zeros": strings.Repeat("0", 64),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadOrCreateKey(path)
		if !errors.As(err, &input) || text != "" && strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that everybody can read: %v", err)
	}
}

// Processes that start at once end up with one key.
func TestKeyFileRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partition.key")
	keys := make([]Key, 16)
	errs := make([]error, len(keys))
	var wait sync.WaitGroup
	for i := range keys {
		wait.Go(func() { keys[i], errs[i] = LoadOrCreateKey(path) })
	}
	wait.Wait()
	for i := range keys {
		if errs[i] != nil || keys[i] != keys[0] {
			t.Errorf("process %d: same key %v, %v", i, keys[i] == keys[0], errs[i])
		}
	}
}

// A key does not show itself in prints, logs or JSON.
func TestKeyIsNotPrinted(t *testing.T) {
	key := Key{0xab, 0xcd, 0xef}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		if got := fmt.Sprintf(verb, key); got != "partition key (secret)" {
			t.Errorf("%s prints %q", verb, got)
		}
		if got := fmt.Sprintf(verb, struct{ K Key }{key}); strings.Contains(strings.ToLower(got), "abcd") || strings.Contains(got, "171") {
			t.Errorf("%s in a struct prints %q", verb, got)
		}
	}
	if raw, err := json.Marshal(key); err == nil {
		t.Errorf("JSON gives %s", raw)
	}
}
