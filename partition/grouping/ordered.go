package grouping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Ordered finds the places of rows that are declared as sorted by group, without a sort. Start with [NewOrdered].
type Ordered struct {
	compare func(a, b string) int
	places  *Places
	mu      sync.Mutex
	blocks  []edges
	broken  int // the smallest row that breaks the order, -1 for none
}

// OrderError names the first row, from 0, whose group should come before that of an earlier row.
type OrderError struct{ Row int }

func (e *OrderError) Error() string {
	return fmt.Sprintf("row %d: its group sorts before that of the row above", e.Row+1)
}

// run is consecutive rows of one group: the first and last row, and their number.
type run struct {
	group              string
	first, last, count int
}

// edges holds the first and the last run of a block, which may continue in neighbouring blocks.
type edges struct {
	head, tail run
	runs       int
}

// NewOrdered starts. compare is the order of groups. The places are written to a file in dir.
func NewOrdered(dir string, compare func(a, b string) int) (*Ordered, error) {
	places, err := create(dir)
	return &Ordered{compare: compare, places: places, broken: -1}, err
}

// Add adds the rows of a block, in ascending order, by their numbers in the table and their groups. A block has
// all rows between its first and its last one. Blocks may come in any order. Add is safe for concurrent use.
func (o *Ordered) Add(rows []int, groups []string) error {
	broken, block := -1, edges{}
	raw := make([]byte, placeBytes*(rows[len(rows)-1]-rows[0]+1))
	for at := 0; at < len(rows); {
		end := at + 1
		for end < len(rows) && groups[end] == groups[at] {
			end++
		}
		for i := at; i < end; i++ {
			Placed{Nth: uint32(i - at), Of: uint32(end - at)}.append(raw[placeBytes*(rows[i]-rows[0]):][:0])
		}
		r := run{groups[at], rows[at], rows[end-1], end - at}
		if block.runs == 0 {
			block.head = r
		} else if broken < 0 && o.compare(block.tail.group, r.group) > 0 {
			broken = r.first
		}
		block.tail = r
		block.runs++
		at = end
	}
	o.mu.Lock()
	o.blocks = append(o.blocks, block)
	o.breaks(broken)
	o.mu.Unlock()
	if _, err := o.places.file.WriteAt(raw, placeBytes*int64(rows[0])); err != nil {
		return errPlaces(err)
	}
	return nil
}

// breaks records a row that breaks the order, -1 for none.
func (o *Ordered) breaks(row int) {
	if row >= 0 && (o.broken < 0 || row < o.broken) {
		o.broken = row
	}
}

// Places joins the runs that cross the end of a block. It fails with an *[OrderError] if rows are not sorted. No
// more rows can be added.
func (o *Ordered) Places() (*Places, error) {
	slices.SortFunc(o.blocks, func(a, b edges) int { return cmp.Compare(a.head.first, b.head.first) })
	var open []run // runs of the last group, one for each of its blocks
	var err error
	flush := func() {
		err = errors.Join(err, o.join(open))
		open = open[:0]
	}
	for _, b := range o.blocks {
		if len(open) > 0 && open[0].group != b.head.group {
			if o.compare(open[0].group, b.head.group) > 0 {
				o.breaks(b.head.first)
			}
			flush()
		}
		if len(open) == 0 {
			o.places.Groups++
		}
		open = append(open, b.head)
		if b.runs > 1 {
			flush()
			o.places.Groups += b.runs - 1
			open = append(open, b.tail)
		}
	}
	if flush(); err == nil && o.broken >= 0 {
		err = &OrderError{o.broken}
	}
	if err != nil {
		return nil, errors.Join(err, o.places.Close())
	}
	return o.places, nil
}

// join writes the places of the rows of one group, whose runs came from several blocks.
func (o *Ordered) join(runs []run) error {
	total, before := 0, 0
	for _, r := range runs {
		total += r.count
	}
	for _, r := range runs {
		if len(runs) == 1 {
			break // already correct
		}
		nth, of, err := o.places.At(r.first, r.last-r.first+1, nil, nil)
		if err != nil {
			return err
		}
		raw := make([]byte, 0, placeBytes*len(nth))
		for i := range nth {
			p := Placed{}
			if of[i] > 0 { // otherwise it was not added
				p = Placed{Nth: uint32(before) + nth[i], Of: uint32(total)}
			}
			raw = p.append(raw)
		}
		if _, err := o.places.file.WriteAt(raw, placeBytes*int64(r.first)); err != nil {
			return errPlaces(err)
		}
		before += r.count
	}
	return nil
}
