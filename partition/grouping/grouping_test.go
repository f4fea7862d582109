package grouping

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func digestOf(group int) (d [32]byte) {
	d[group], d[31] = byte(group), byte(group)
	return d
}

// small makes sorts of few rows use the disk.
func small(t testing.TB) {
	was := chunkRows
	chunkRows = 7
	t.Cleanup(func() { chunkRows = was })
}

// Places equal those from counting in memory, whatever the order of rows.
func TestPlaces(t *testing.T) {
	small(t)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(t, "groups") // 0: the row is not added
		var rows []int
		size, want := map[int]uint32{}, make([]Placed, len(groups))
		for row, g := range groups {
			if g == 0 {
				continue
			}
			rows, want[row].Nth = append(rows, row), size[g]
			size[g]++
		}
		for row, g := range groups {
			want[row].Row, want[row].Of = row, size[g]
		}
		g := New(context.Background(), dir)
		for _, row := range rapid.Permutation(rows).Draw(t, "order") {
			if err := g.Add([]int{row}, [][32]byte{digestOf(groups[row])}); err != nil {
				t.Fatal(err)
			}
		}
		p, err := g.Places()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if p.Groups != len(size) {
			t.Fatalf("%d groups, want %d", p.Groups, len(size))
		}
		first := rapid.IntRange(0, len(groups)-1).Draw(t, "first")
		nth, of, err := p.At(first, len(groups)-first, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range nth {
			if w := want[first+i]; nth[i] != w.Nth || of[i] != w.Of {
				t.Fatalf("row %d is %d of %d, want %d of %d", first+i, nth[i], of[i], w.Nth, w.Of)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("the folder has %v (%v)", left, err)
		}
	})
}

// A sort ends when it is cancelled, and fails if its folder is not writable.
func TestSortsThatEnd(t *testing.T) {
	small(t)
	why := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(context.Background())
	g := New(ctx, t.TempDir())
	testkit.Must(t, g.Add([]int{1, 2}, [][32]byte{{1}, {2}}))
	cancel(why)
	if _, err := g.Places(); !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
	file := filepath.Join(t.TempDir(), "a-file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	none := New(context.Background(), filepath.Join(file, "below"))
	var err error
	for row := 0; row < 10_000 && err == nil; row++ {
		err = none.Add([]int{row}, [][32]byte{{byte(row)}})
	}
	if err == nil || !strings.Contains(err.Error(), "sort rows on the disk") {
		t.Errorf("no folder: %v", err)
	}
	New(context.Background(), t.TempDir()).Close()
}
