package partition

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Assignment says which partition each row of a table belongs to.
type Assignment struct {
	Partitions int
	Of         []int // row -> partition, 0 to Partitions-1
	Units      []int // number of privacy units in each partition
}

// Assign puts every privacy unit in one partition by its hash under the key. unit is "record" (each row is a unit) or
// the name of the schema's column with role unit. The partition is floor(h * partitions / 2^64) for the first 64 bits
// h of HMAC-SHA256; its probability differs from uniform by less than partitions/2^64.
//
// More partitions than units is ErrTooManyPartitions, and more units than MostUnits ErrTooManyUnits. Only these
// checks look at more than one unit.
func Assign(key Key, t *Table, partitions int, unit string) (*Assignment, error) {
	if partitions < 1 {
		return nil, fmt.Errorf("assign partitions: their number must be at least 1, not %d", partitions)
	}
	if err := t.schema.CheckUnit(unit); err != nil {
		return nil, fmt.Errorf("assign partitions: %w", err)
	}
	if unit != UnitRecord && !t.hasUnits() {
		return nil, fmt.Errorf("assign partitions: a row has no %q; read the table without ignoring its unit column",
			unit)
	}
	a := &Assignment{Partitions: partitions, Of: make([]int, t.rows), Units: make([]int, partitions)}
	var seen map[digest]struct{}
	if unit != UnitRecord {
		seen = map[digest]struct{}{}
	}
	units := 0
	for row, d := range unitDigests(key, t, unit) {
		high, _ := bits.Mul64(binary.BigEndian.Uint64(d[:8]), uint64(partitions))
		a.Of[row] = int(high)
		if seen != nil {
			if _, again := seen[d]; again {
				continue
			}
			seen[d] = struct{}{}
		}
		a.Units[high]++
		units++
	}
	if err := CheckUnits(units, partitions, MostUnits); err != nil {
		return nil, err
	}
	return a, nil
}

// CheckUnits returns ErrTooManyPartitions if there are fewer units than partitions, and ErrTooManyUnits if there are
// more than most. Numbers of units are private, so the error omits them.
func CheckUnits(units, partitions, most int) error {
	switch {
	case units < partitions:
		return fmt.Errorf("assign partitions: %w: each of %d teachers needs one of its own;"+
			" use fewer teachers (teachers in teacher.yaml, of a local run in run.yaml) or more data",
			ErrTooManyPartitions, partitions)
	case units > most:
		return fmt.Errorf("assign partitions: %w: a node holds %d at most; divide its data among several nodes",
			ErrTooManyUnits, most)
	}
	return nil
}

// Shards divides a table among the nodes of a site. All rows of a privacy unit (the unit column's text if the schema
// has one, else each record) go to one of n tables, in order. Shard i has the rows of the share [i/n, (i+1)/n), see
// Options. Adding or removing a unit moves no other, so it changes one shard and one of its partitions.
//
// The size of a shard is as private as the rows. A shard without rows is an error, because no node could start with
// it.
func (t *Table) Shards(n int) ([]*Table, error) {
	if n < 1 {
		return nil, fmt.Errorf("divide the table: %d shards; ask for 1 or more", n)
	}
	rows := make([][]int, n)
	for row, at := range SharePositions(t) {
		shard := min(int(at*float64(n)), n-1)
		rows[shard] = append(rows[shard], row)
	}
	shards := make([]*Table, n)
	for i := range shards {
		if len(rows[i]) == 0 {
			return nil, fmt.Errorf("divide the table: shard %d of %d has no row; ask for fewer shards", i, n)
		}
		shards[i] = t.Subset(rows[i])
	}
	return shards, nil
}
