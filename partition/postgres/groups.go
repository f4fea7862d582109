package postgres

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/partition/tally"
)

// If each row is a unit, the server counts groups of rows with equal cells in two blocks of columns instead of each
// table: 22 columns have 253 tables, but 66 pairs of blocks of two columns. The node then adds each group to the
// tables of its columns.

// block is a set of columns of a tally. Its code is a mixed-radix number of their cells.
type block struct {
	columns []int
	size    int
}

// mostCodes bounds the codes of a block of several columns.
const mostCodes = 64

// blocksOf divides columns into blocks, and returns the block of each.
func blocksOf(columns []tally.Cells) (blocks []block, in []int) {
	for i := range columns {
		last := len(blocks) - 1
		if last < 0 || blocks[last].size*columns[i].N > mostCodes {
			blocks, last = append(blocks, block{size: 1}), last+1
		}
		b := &blocks[last]
		b.columns, b.size, in = append(b.columns, i), b.size*columns[i].N, append(in, last)
	}
	return blocks, in
}

// decode writes the cells of a block's columns.
func (b *block) decode(code int, columns []tally.Cells, at []int) {
	for i := len(b.columns) - 1; i >= 0; i-- {
		c := b.columns[i]
		at[c], code = code%columns[c].N, code/columns[c].N
	}
}

// addGroups adds the groups of each pair of blocks that tables need.
func (p *Pushed) addGroups(in *session, t *tally.Tally, places []pieces, sum []int64) error {
	blocks, of := blocksOf(t.Columns)
	tables := map[[2]int][]*tally.Count{}
	var pairs [][2]int
	var first, second, along []int // of pairs; a single block has along 0
	for i := range t.Tables {
		c := &t.Tables[i]
		pair := [2]int{of[c.First], of[c.Second]}
		if tables[pair] == nil {
			pairs = append(pairs, pair)
			first, second = append(first, pair[0]+1), append(second, pair[1]+1)
			along = append(along, blocks[pair[1]].size)
			if pair[0] == pair[1] {
				along[len(along)-1] = 0
			}
		}
		tables[pair] = append(tables[pair], c)
	}
	need := map[int]bool{}
	for _, c := range t.Columns {
		need[c.Column] = true
	}
	s := p.from(need)
	codes := make([]string, len(blocks))
	for i, b := range blocks {
		codes[i] = "0"
		for _, c := range b.columns {
			codes[i] = fmt.Sprintf("(%s) * %d + %s", codes[i], t.Columns[c].N, p.at(s, &t.Columns[c], places[c]))
		}
	}
	// "offset 0" makes the server compute a row's codes once instead of for each pair.
	rows := "select array[" + strings.Join(codes, ", ") + "]::int4[] as codes" + s.from() + " offset 0"
	sql := "select t.number, r.codes[t.a]::int8 * t.along + r.codes[t.b], count(*) from (" + rows +
		") as r cross join unnest(" + s.wholes(first) + ", " + s.wholes(second) + ", " + s.wholes(along) +
		") with ordinality as t(a, b, along, number) group by 1, 2"
	at := make([]int, len(t.Columns))
	return in.ask("count", sql, s.params, func(row [][]byte) error {
		var v [3]int
		for i := range v {
			var err error
			if v[i], err = whole(row[i]); err != nil {
				return err
			}
		}
		if v[0] < 1 || v[0] > len(pairs) || v[1] < 0 {
			return errUnexpected
		}
		pair := pairs[v[0]-1]
		if a, b := &blocks[pair[0]], &blocks[pair[1]]; pair[0] != pair[1] {
			a.decode(v[1]/b.size, t.Columns, at)
			b.decode(v[1]%b.size, t.Columns, at)
		} else {
			b.decode(v[1], t.Columns, at)
		}
		for _, c := range tables[pair] {
			entry, part := entryOf(c, t.Columns, at)
			if entry < 0 || entry >= len(sum) {
				return errUnexpected
			}
			sum[entry] += part * int64(v[2])
		}
		return nil
	})
}

// entry is the entry for a row with these cells, and what the row adds to it.
func entryOf(c *tally.Count, columns []tally.Cells, at []int) (entry int, part int64) {
	entry, part = c.Start, int64(c.Weight)
	add := func(column, along int) {
		switch {
		case !columns[column].Sign:
			entry += at[column] * along
		case at[column] == 0:
			part = -part
		}
	}
	if add(c.Second, 1); c.First != c.Second {
		add(c.First, c.Along)
	}
	return entry, part
}
