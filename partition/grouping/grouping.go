// Package grouping groups the rows of a table that share something, such as their privacy unit, when there are too
// many rows to keep a number for each in memory. It sorts digests of them on the disk.
//
// # How to start
//
//	g := grouping.New(ctx, dir)
//	err := g.Add(rows, digests)  // by several goroutines, in any order
//	places, err := g.Places()    // each row's place in its group, and the group's size
//
// Only the owner can read its files. They are unlinked as soon as they are created, so they are gone when they are
// closed or the process dies; where a system cannot do that, they are removed when they are closed. They contain
// digests, row numbers and sizes of groups, which are private.
package grouping

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"iter"
)

// chunkRows is how many rows, of 40 bytes each, are sorted in memory at a time; there are about ten such chunks.
var chunkRows = 1 << 18

// member is a row of a group.
type member struct {
	digest [32]byte
	row    uint64
}

// Grouper collects rows.
type Grouper struct {
	outer  context.Context
	ctx    context.Context // of the sort; end cancels it
	end    context.CancelFunc
	dir    string
	sorted *sorted[member]
}

// New returns a grouper. It creates files in dir if there are many rows.
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

// Add adds rows by their numbers in the table, each once, with the digest of what they share. It is safe for
// concurrent use.
func (g *Grouper) Add(rows []int, digests [][32]byte) error {
	for i, row := range rows {
		if err := g.sorted.add(g.ctx, member{digests[i], uint64(row)}); err != nil {
			return err
		}
	}
	return nil
}

// Close discards everything. It does nothing after All or Places.
func (g *Grouper) Close() { g.end() }

// Placed is a row's position in its group, from 0 in table order, and the size of the group.
type Placed struct {
	Row     int
	Nth, Of uint32
}

// Group has the rows with one digest, in table order.
type Group struct {
	Digest [32]byte
	Rows   []Placed
}

// All yields the groups, each valid until the next one. A group takes 16 bytes of memory per row. No more rows can be
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
