package grouping

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
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

// Sorted rows get the places that a sort gives, for any blocks in any order. The error names the first row that breaks
// the order.
func TestPlacesOfSortedRows(t *testing.T) {
	small(t)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 60).Draw(t, "groups")
		slices.Sort(groups)
		broken := -1
		if rapid.IntRange(0, 4).Draw(t, "broken") == 0 {
			groups = rapid.Permutation(groups).Draw(t, "order of groups")
		}
		out := rapid.SliceOfN(rapid.IntRange(0, 3), len(groups), len(groups)).Draw(t, "0: not added")
		var rows [][]int
		var names [][]string
		size, want := map[int]uint32{}, make([]Placed, len(groups))
		last := 0
		for row, left := 0, 0; row < len(groups); row, left = row+1, left-1 {
			if left == 0 {
				left = rapid.IntRange(1, 9).Draw(t, "rows of a block")
				rows, names = append(rows, nil), append(names, nil)
			}
			if g, at := groups[row], len(rows)-1; out[row] > 0 {
				rows[at], names[at] = append(rows[at], row), append(names[at], strconv.Itoa(g))
				want[row].Nth = size[g]
				size[g]++
				if g < last && broken < 0 {
					broken = row
				}
				last = g
			}
		}
		o, err := NewOrdered(dir, strings.Compare)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range rapid.Permutation(indexes(len(rows))).Draw(t, "order of blocks") {
			if len(rows[at]) > 0 {
				if err := o.Add(rows[at], names[at]); err != nil {
					t.Fatal(err)
				}
			}
		}
		p, err := o.Places()
		var wrong *OrderError
		if broken >= 0 {
			if !errors.As(err, &wrong) || wrong.Row != broken {
				t.Fatalf("row %d breaks the order: %v", broken, err)
			}
			return
		} else if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if p.Groups != len(size) {
			t.Fatalf("%d groups, want %d", p.Groups, len(size))
		}
		nth, of, err := p.At(0, len(groups), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for row, w := range want {
			if out[row] > 0 {
				w.Of = size[groups[row]]
			}
			if nth[row] != w.Nth || of[row] != w.Of {
				t.Fatalf("row %d is %d of %d, want %d of %d", row, nth[row], of[row], w.Nth, w.Of)
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatalf("the folder has %v (%v)", left, err)
	}
}

func indexes(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
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
