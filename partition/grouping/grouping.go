// Package grouping finds which rows of a table have something in common, such as their privacy unit, where there are
// too many rows to keep a number of each in memory: it sorts digests of them on the disk.
//
// # How to start
//
//	g := grouping.New(ctx, dir)
//	err := g.Add(rows, digests)  // by several goroutines, in any order
//	places, err := g.Places()    // which record of its group each row is, and of how many
//
// Its files are readable by their owner alone. They have no name from the moment they are made on, so that they are
// gone when they are closed and when the process dies; they are removed when they are closed where a system cannot do that.
// They hold digests, numbers of rows and sizes of groups: they are private.
package grouping

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"iter"
)

// chunkRows is how many rows are sorted in memory at a time, of 24 bytes each.
var chunkRows = 1 << 19

// digestBytes of a digest are compared. Of 2^27 groups two are taken for one with a probability of 2^-74.
const digestBytes = 16

// member is a row of a group.
type member struct {
	digest [digestBytes]byte
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
		return binary.BigEndian.AppendUint64(append(make([]byte, 0, digestBytes+8), m.digest[:]...), m.row)
	}, func(b []byte) (m member) {
		copy(m.digest[:], b)
		m.row = binary.BigEndian.Uint64(b[digestBytes:])
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
		m := member{row: uint64(row)}
		copy(m.digest[:], digests[i][:])
		if err := g.sorted.add(g.ctx, m); err != nil {
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

// All gives the rows of one group after those of another one, and of each group in the order of the table; they are
// good until the next group. A group is held in memory, 16 bytes a row. No more rows can be added.
func (g *Grouper) All() iter.Seq2[[]Placed, error] {
	return func(yield func([]Placed, error) bool) {
		defer g.end()
		var group []Placed
		var last member
		flush := func() bool {
			for i := range group {
				group[i].Of = uint32(len(group))
			}
			ok := len(group) == 0 || yield(group, nil)
			group = group[:0]
			return ok
		}
		for m, err := range g.sorted.all(g.ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if m.digest != last.digest && !flush() {
				return
			}
			last = m
			group = append(group, Placed{Row: int(m.row), Nth: uint32(len(group))})
		}
		flush()
	}
}
