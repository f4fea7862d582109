//go:build darwin || linux

package mapped_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/mapped"
)

// An array begins with zeros, keeps what is written, and its file has no name.
func TestArrays(t *testing.T) {
	dir := t.TempDir()
	const n = 300_000 // more than is written at a time
	a, err := mapped.New[uint64](dir, n)
	testkit.Must(t, err)
	for i, v := range a.Of {
		if v != 0 {
			t.Fatalf("element %d begins with %d", i, v)
		}
		a.Of[i] = uint64(i) << 33
	}
	testkit.Must(t, a.Seal())
	if len(a.Of) != n || a.Of[n-1] != (n-1)<<33 || a.Of[1] != 1<<33 {
		t.Errorf("%d elements, the last is %d", len(a.Of), a.Of[n-1])
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the folder has %v (%v)", left, err)
	}
	testkit.Must(t, a.Close())
	testkit.Must(t, a.Close())
	none, err := mapped.New[byte](dir, 0)
	testkit.Must(t, err)
	if none.Of == nil || len(none.Of) > 0 {
		t.Errorf("no elements are %v", none.Of)
	}
	testkit.Must(t, none.Seal())
	testkit.Must(t, none.Close())
	_, err = mapped.New[byte](filepath.Join(dir, "none"), 1)
	if err == nil || !strings.HasPrefix(err.Error(), "create a file for records: ") {
		t.Errorf("without a folder: %v", err)
	}
}
