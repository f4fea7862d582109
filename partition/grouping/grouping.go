// Package grouping finds which rows of a table have something in common, such as their privacy unit, where there are
// too many rows to keep a number of each in memory: it sorts digests of them on the disk.
//
// # How to start
//
//	g := grouping.New(ctx, dir)
//	err := g.Add(rows, digests)  // by several goroutines, in any order
//	places, err := g.Places()    // which record of its group each row is, and of how many
//
// [Ordered] does the same without a sort for rows that are declared to be sorted, and checks it.
//
// Its files are readable by their owner alone. They have no name from the moment they are made on, so that they are
// gone when they are closed and when the process dies; where a system cannot do that, they are removed when they are
// closed. They hold digests, numbers of rows and sizes of groups: they are private.
package grouping

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"iter"
)

// chunkRows is how many rows are sorted in memory at a time, of 40 bytes each; there are about ten such chunks.
var chunkRows = 1 << 18

// member is a row of a group.
type member struct {
	digest [32]byte
	row    uint64
}

// Grouper collects rows.
type Grouper struct {
	outer  context.Context
	ctx    context.Context // of the sort, which end ends
	end    context.CancelFunc
	dir    string
	sorted *sorted[member]
}

// New begins. Files are made in dir when there are many rows.
func New(ctx context.Context, dir string) *Grouper {
	g := &Grouper{outer: ctx, dir: dir}
	g.ctx, g.end = context.WithCancel(ctx)
	g.sorted = begin(g.ctx, dir, func(m member) []byte {
		return binary.BigEndian.AppendUint64(append(make([]byte, 0, 40), m.digest[:]...), m.row)
	}, func(b []byte) (m member) {
		copy(m.digest[:], b)
		m.row = binary.BigEndian.Uint64(b[len(m.digest):])
		return m
	}, func(a, b member) int {
		return cmp.Or(bytes.Compare(a.digest[:], b.digest[:]), cmp.Compare(a.row, b.row))
	})
	return g
}

// Add adds rows by their numbers in the table, each once, with the digest of what they have in common. It is safe for
// use by several goroutines.
func (g *Grouper) Add(rows []int, digests [][32]byte) error {
	for i, row := range rows {
		if err := g.sorted.add(g.ctx, member{digests[i], uint64(row)}); err != nil {
			return err
		}
	}
	return nil
}

// Close gives up what was begun. It does nothing after All or Places.
func (g *Grouper) Close() { g.end() }

// Placed says which row of its group a row is, in the order of the table and from 0, and how many the group has.
type Placed struct {
	Row     int
	Nth, Of uint32
}

// Group are the rows of a digest, in the order of the table.
type Group struct {
	Digest [32]byte
	Rows   []Placed
}

// All gives the groups, each good until the next one. A group is held in memory, 16 bytes a row. No more rows can be
// added.
func (g *Grouper) All() iter.Seq2[*Group, error] {
	return func(yield func(*Group, error) bool) {
		defer g.end()
		group := new(Group)
		flush := func() bool {
			for i := range group.Rows {
				group.Rows[i].Of = uint32(len(group.Rows))
			}
			ok := len(group.Rows) == 0 || yield(group, nil)
			group.Rows = group.Rows[:0]
			return ok
		}
		for m, err := range g.sorted.all(g.ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if m.digest != group.Digest && !flush() {
				return
			}
			group.Digest = m.digest
			group.Rows = append(group.Rows, Placed{Row: int(m.row), Nth: uint32(len(group.Rows))})
		}
		flush()
	}
}
