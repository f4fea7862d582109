package partition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func clinicManifest(t testing.TB, key partition.Key, table *partition.Table, partitions int,
	unit string) *partition.Manifest {
	t.Helper()
	m, err := partition.BuildManifest(key, "visits", "hospital", "node-1", table, partitions, unit)
	testkit.Must(t, err)
	return m
}

func clinicTable(t testing.TB) *partition.Table {
	t.Helper()
	table, err := tabular.ReadCSV(partitiontest.Clinic(t), partitiontest.File("clinic", "visits.csv"),
		tabular.Options{})
	testkit.Must(t, err)
	return table
}

func TestManifestCounts(t *testing.T) {
	table := clinicTable(t)
	for unit, units := range map[string]int{partition.UnitRecord: 6, "patient": 4} {
		m := clinicManifest(t, partition.Key{1}, table, 3, unit)
		a, err := partition.Assign(partition.Key{1}, table, 3, unit)
		testkit.Must(t, err)
		sum := 0
		for _, n := range a.Units {
			sum += n
		}
		if m.Units != units || m.Rows != 6 || sum != units || len(a.Units) != 3 {
			t.Errorf("unit %s: %d units and %d rows, units of partitions %v", unit, m.Units, m.Rows, a.Units)
		}
	}
}

// copied is a table of another schema with the same rows after change.
func copied(s *partition.Schema, t *partition.Table, change func(row int, cells []float64)) *partition.Table {
	out := partition.NewTable(s)
	for row := range t.Len() {
		cells := slices.Clone(t.Cells(row))
		change(row, cells)
		out.Push(cells, t.Unit(row))
	}
	return out
}

// The order of rows does not matter; any other change is detected and named.
func TestManifestCheck(t *testing.T) {
	table := clinicTable(t)
	key := partition.Key{1}
	stored := clinicManifest(t, key, table, 3, "patient")
	if err := clinicManifest(t, key, table.Subset([]int{5, 3, 1, 0, 2, 4}),
		3, "patient").CheckAgainst(stored); err != nil {
		t.Errorf("the same rows in another order: %v", err)
	}
	changed := copied(table.Schema(), table, func(row int, cells []float64) {
		if row == 3 {
			cells[2]++ // the age of one visit
		}
	})
	schema := *table.Schema()
	schema.SHA256 = strings.Repeat("0", 64)
	otherSchema := copied(&schema, table, func(int, []float64) {})
	named := func(dataset, site, node string) *partition.Manifest {
		m, err := partition.BuildManifest(key, dataset, site, node, table, 3, "patient")
		testkit.Must(t, err)
		return m
	}
	for part, m := range map[string]*partition.Manifest{
		"data set":        named("other", "hospital", "node-1"),
		"site":            named("visits", "other", "node-1"),
		"node":            named("visits", "hospital", "node-2"),
		"schema":          clinicManifest(t, key, otherSchema, 3, "patient"),
		"privacy unit":    clinicManifest(t, key, table, 3, partition.UnitRecord),
		"partition count": clinicManifest(t, key, table, 2, "patient"),
		"key":             clinicManifest(t, partition.Key{2}, table, 3, "patient"),
		"data":            clinicManifest(t, key, changed, 3, "patient"),
	} {
		err := m.CheckAgainst(stored)
		if !errors.Is(err, partition.ErrManifestChanged) || !strings.Contains(fmt.Sprint(err), "its "+part+" differs") {
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
	if _, err := partition.BuildManifest(partition.Key{1}, "d", "s", "n", table, 0, partition.UnitRecord); err == nil {
		t.Error("no partitions: accepted")
	}
	if _, err := partition.BuildManifest(partition.Key{1}, "d", "s", "n", table, 2, "ward"); err == nil {
		t.Error("not a unit column: accepted")
	}
}

// A table in parts, in any order, has the sum of the whole. A row that occurs twice counts twice.
func TestDataSumOfParts(t *testing.T) {
	table := clinicTable(t)
	want := clinicManifest(t, partition.Key{1}, table, 3, partition.UnitRecord)
	seal := func(rows ...[]int) *partition.Manifest {
		whole := partition.NewDataSum(partition.Key{1})
		for _, r := range rows {
			part := partition.NewDataSum(partition.Key{1})
			part.Add(table.Subset(r))
			whole.Merge(part)
		}
		m := *want
		m.Seal(partition.Key{1}, whole)
		return &m
	}
	if got := seal([]int{5, 0}, []int{2}, nil, []int{4, 3, 1}); *got != *want {
		t.Errorf("in parts: %+v, want %+v", got, want)
	}
	for name, rows := range map[string][]int{"less": {0, 1, 2, 3, 4}, "twice": {0, 1, 2, 3, 4, 5, 0},
		"another": {0, 1, 2, 3, 4, 0}} {
		if got := seal(rows); got.Data == want.Data || got.Fingerprint == want.Fingerprint {
			t.Errorf("%s: the same data", name)
		}
	}
}

func TestManifestFile(t *testing.T) {
	m := clinicManifest(t, partition.Key{1}, clinicTable(t), 3, "patient")
	path := filepath.Join(t.TempDir(), "manifest.json")
	if _, err := partition.LoadManifest(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for range 2 { // also over an older one
		testkit.Must(t, m.Save(path))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	got, err := partition.LoadManifest(path)
	testkit.Must(t, err)
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("(-saved +loaded):\n%s", diff)
	}
	if err := m.Save(filepath.Join(path, "below", "a-file")); err == nil {
		t.Errorf("saved below a file")
	}
	whole, err := json.Marshal(m)
	testkit.Must(t, err)
	for name, text := range map[string]string{
		"empty":         "",
		"cut":           string(whole[:50]),
		"unknown field": `{"version":2,"extra":2}`,
		"two values":    string(whole) + string(whole),
		"other version": strings.Replace(string(whole), `"version":2`, `"version":1`, 1),
		"too few units": strings.Replace(string(whole), `"units":4`, `"units":0`, 1),
		"no print":      strings.Replace(string(whole), m.Fingerprint, "", 1),
	} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		var input *partition.InputError
		if _, err := partition.LoadManifest(path); !errors.As(err, &input) || input.File != path || input.Fix == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "partition.key")
	key, err := partition.LoadOrCreateKey(path)
	testkit.Must(t, err)
	again, err := partition.LoadOrCreateKey(path)
	if err != nil || again != key || key == (partition.Key{}) {
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
	if other, err := partition.LoadOrCreateKey(filepath.Join(dir, "other.key")); err != nil || other == key {
		t.Errorf("another file has the same key, %v", err)
	}
	var input *partition.InputError
	if _, err := partition.LoadOrCreateKey(filepath.Join(dir, "no", "folder.key")); !errors.As(err, &input) ||
		!errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	for name, text := range map[string]string{
		"empty": "", "short": "00ff\n", "long": strings.Repeat("a", 66), "not hex": strings.Repeat("g", 64),
		"zeros": strings.Repeat("0", 64),
	} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := partition.LoadOrCreateKey(path)
		if !errors.As(err, &input) || text != "" && strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Must(t, os.WriteFile(path, []byte(strings.Repeat("ab", 32)), 0o600))
	testkit.Must(t, os.Chmod(path, 0o644))
	if _, err := partition.LoadOrCreateKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that everybody can read: %v", err)
	}
}

// Processes that start at once get the same key.
func TestKeyFileRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partition.key")
	keys := make([]partition.Key, 16)
	errs := make([]error, len(keys))
	var wait sync.WaitGroup
	for i := range keys {
		wait.Go(func() { keys[i], errs[i] = partition.LoadOrCreateKey(path) })
	}
	wait.Wait()
	for i := range keys {
		if errs[i] != nil || keys[i] != keys[0] {
			t.Errorf("process %d: same key %v, %v", i, keys[i] == keys[0], errs[i])
		}
	}
}

// Printing, logging or encoding a key does not reveal it.
func TestKeyIsNotPrinted(t *testing.T) {
	key := partition.Key{0xab, 0xcd, 0xef}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		if got := fmt.Sprintf(verb, key); got != "partition key (secret)" {
			t.Errorf("%s prints %q", verb, got)
		}
		if got := fmt.Sprintf(verb, struct{ K partition.Key }{key}); strings.Contains(strings.ToLower(got), "abcd") ||
			strings.Contains(got, "171") {
			t.Errorf("%s in a struct prints %q", verb, got)
		}
	}
	if raw, err := json.Marshal(key); err == nil {
		t.Errorf("JSON gives %s", raw)
	}
}
