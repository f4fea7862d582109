package question

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/grouping"
	"github.com/conclave-dp/conclave/partition/mapped"
)

// Divisible is a table whose records can be divided among teachers on the disk.
type Divisible struct {
	Table Table
	By    partition.Divider
	// Rows is larger than all row numbers, and Records is how many of them are rows of this node.
	Rows, Records int
	// Dir is the folder for the files.
	Dir string
}

// RoomToDivide is the largest number of bytes on the disk that [Site.Divide] needs for records of a schema, whose row
// numbers are below rows. Each record may be a unit.
func RoomToDivide(schema *partition.Schema, rows, records int) uint64 {
	const sorted = 41 // bytes of a record in the sort by digests
	width := encode.New(schema).Packing().Bytes()
	return uint64(20*rows + max(sorted*records, 8*rows+16*records, (16+width)*records))
}

// Room returns nil, or why the disk has no room for [Site.Divide]; nil for a node that divides nothing. The details
// depend on the number of records and stay at the site. It is safe for concurrent use.
func (s *Site) Room() error {
	t := s.Divisible
	if t == nil {
		return nil
	}
	need := RoomToDivide(s.Schema, t.Rows, t.Records)
	free, err := mapped.Free(t.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRows, err)
	}
	if free < need {
		return fmt.Errorf("%w: dividing them takes %d MiB in %s, and %d MiB are free; make room, or move the state "+
			"folder to another disk", ErrRows, need>>20+1, t.Dir, free>>20)
	}
	return nil
}

// Divide makes the records of a streaming node available by teacher and by unit, in the same order and with the
// same bits as at a node that holds them in memory. The first call reads the table twice and sorts on the disk.
// Further calls do nothing, and so does a node with its records in memory. Its memory does not grow with the rows.
func (s *Site) Divide() error {
	if s.Examples != nil || s.Divisible == nil {
		return nil
	}
	if err := s.Room(); err != nil { // before the table is read twice
		return err
	}
	d, err := s.Divisible.divide(s.context(), s.Public)
	switch {
	case err == nil:
	case s.context().Err() != nil:
		return context.Cause(s.context())
	default:
		return fmt.Errorf("%w: %w", ErrRows, err)
	}
	s.divided, s.UnitsOf, s.Sample = d, d.unitsOf, s.draw
	s.Examples = make([]ensemble.Examples, s.Teachers)
	for t := range s.Examples {
		s.Examples[t].View = ofTeacher{d, t}
	}
	return nil
}

// scratch holds arrays by row while records are divided.
type scratch struct {
	// slot is the row's teacher times classes plus class, plus one; 0 for rows that do not exist.
	slot *mapped.Array[uint32]
	// first is the first row of the row's unit.
	first *mapped.Array[uint64]
	// record is the number of the row's record.
	record *mapped.Array[uint64]
}

func (t *Divisible) divide(ctx context.Context, p *Public) (_ *divided, err error) {
	d := &divided{packing: encode.New(p.Schema).Packing(), classes: p.Classes, unitsOf: make([]int, p.Teachers)}
	var by scratch
	defer func() {
		err = errors.Join(err, by.slot.Close(), by.first.Close(), by.record.Close())
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if by.slot, err = mapped.New[uint32](t.Dir, t.Rows); err != nil {
		return nil, err
	}
	if by.first, err = mapped.New[uint64](t.Dir, t.Rows); err != nil {
		return nil, err
	}
	if by.record, err = mapped.New[uint64](t.Dir, t.Rows); err != nil {
		return nil, err
	}
	units, err := t.group(ctx, &by, d)
	if err != nil {
		return nil, err
	}
	rows := d.order(&by, p.Teachers)
	if err := d.groupByUnit(t.Dir, &by, rows, units); err != nil {
		return nil, err
	}
	if d.records, err = mapped.New[byte](t.Dir, rows*d.packing.Bytes()); err != nil {
		return nil, err
	}
	if err := t.pack(ctx, &by, d, p); err != nil {
		return nil, err
	}
	if err := errors.Join(d.records.Seal(), d.units.Seal(), d.members.Seal()); err != nil {
		return nil, err
	}
	runtime.AddCleanup(d, func(of [3]interface{ Close() error }) {
		for _, file := range of {
			_ = file.Close()
		}
	}, [3]interface{ Close() error }{d.records, d.units, d.members})
	return d, nil
}

// group finds the teacher, the class and the unit of each row, and the number of units.
func (t *Divisible) group(ctx context.Context, by *scratch, d *divided) (units int, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	groups := grouping.New(ctx, t.Dir)
	err = t.Table.Blocks(ctx, func(b *partition.Block) error {
		if b.Numbers[b.Len()-1] >= t.Rows {
			return partition.ErrChanged
		}
		for i, number := range b.Numbers {
			by.slot.Of[number] = uint32(b.Label(i))
		}
		return groups.Add(b.Numbers, t.By.Digests(b.Table))
	})
	if err != nil {
		return 0, err
	}
	for group, err := range groups.All() {
		if err != nil {
			return 0, err
		}
		for _, row := range group.Rows {
			teacher, first := t.By.Partition(group.Digest, uint64(row.Nth)), group.Rows[0].Row
			if t.By.Unit == partition.UnitRecord {
				first = row.Row
			}
			if first == row.Row {
				d.unitsOf[teacher]++
				units++
			}
			by.slot.Of[row.Row] += uint32(teacher*d.classes + 1)
			by.first.Of[row.Row] = uint64(first)
		}
	}
	return units, nil
}

// order numbers the records by teacher and class, and then in table order. It returns their number.
func (d *divided) order(by *scratch, teachers int) (rows int) {
	next := make([]int, teachers*d.classes+1)
	for _, slot := range by.slot.Of {
		if slot > 0 {
			next[slot]++
		}
	}
	for i, n := range next { // records of earlier slots
		next[i] = rows
		rows += n
	}
	d.starts = append(next[1:len(next):len(next)], rows)
	next = append([]int{0}, d.starts...)
	for row, slot := range by.slot.Of {
		if slot > 0 {
			by.record.Of[row] = uint64(next[slot])
			next[slot]++
		}
	}
	return rows
}

// groupByUnit lists the records of each unit. Units are in the order of their first rows.
func (d *divided) groupByUnit(dir string, by *scratch, rows, units int) (err error) {
	if d.units, err = mapped.New[uint64](dir, units+1); err != nil {
		return err
	}
	if d.members, err = mapped.New[uint64](dir, rows); err != nil {
		return err
	}
	size, err := mapped.New[uint64](dir, len(by.slot.Of)) // unit size by first row, then its next place
	if err != nil {
		return err
	}
	for row, slot := range by.slot.Of {
		if slot > 0 {
			size.Of[by.first.Of[row]]++
		}
	}
	unit, at := 0, uint64(0)
	for row, slot := range by.slot.Of {
		if first := by.first.Of[row]; slot > 0 {
			if first == uint64(row) {
				d.units.Of[unit] = at
				unit++
				at, size.Of[row] = at+size.Of[row], at
			}
			d.members.Of[size.Of[first]] = by.record.Of[row]
			size.Of[first]++
		}
	}
	d.units.Of[unit] = at
	return size.Close()
}

// pack reads the rows again and stores each in its place.
func (t *Divisible) pack(ctx context.Context, by *scratch, d *divided, p *Public) error {
	encoder, width := encode.New(p.Schema), d.packing.Bytes()
	free := sync.Pool{New: func() any { return new(encode.Encoded) }}
	return t.Table.Blocks(ctx, func(b *partition.Block) error {
		in := free.Get().(*encode.Encoded)
		defer free.Put(in)
		encoder.EncodeInto(in, b.Table)
		for i, number := range b.Numbers {
			if number >= t.Rows || by.slot.Of[number] == 0 {
				return partition.ErrChanged
			}
			at := int(by.record.Of[number]) * width
			d.packing.Pack(d.records.Of[at:at+width], in.Row(i))
		}
		return nil
	})
}
