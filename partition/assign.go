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
		at := partitionOf(d, partitions)
		a.Of[row] = at
		if seen != nil {
			if _, again := seen[d]; again {
				continue
			}
			seen[d] = struct{}{}
		}
		a.Units[at]++
		units++
	}
	if err := CheckUnits(units, partitions, MostUnits); err != nil {
		return nil, err
	}
	return a, nil
}

// Divider says which partition each unit of a table is in, as [Assign] does, for rows that arrive in blocks.
type Divider struct {
	Key        Key
	Partitions int
	Unit       string
}

// Digests gives each row the digest of its unit, or of its values if each record is a unit.
func (d Divider) Digests(t *Table) [][32]byte {
	if d.Unit != UnitRecord {
		return textDigests(d.Key, t)
	}
	return recordContents(d.Key, t)
}

// Partition returns the partition of a row with this digest, given how many rows before it have the same digest.
func (d Divider) Partition(shared [32]byte, before uint64) int {
	if d.Unit == UnitRecord {
		shared = newHasher(d.Key).occurrence(shared, before)
	}
	return partitionOf(shared, d.Partitions)
}

// partitionOf is the partition of a unit's digest.
func partitionOf(unit digest, partitions int) int {
	high, _ := bits.Mul64(binary.BigEndian.Uint64(unit[:8]), uint64(partitions))
	return int(high)
}

// CheckUnits returns ErrTooManyPartitions if there are fewer units than partitions, and ErrTooManyUnits if there are
// more than most. Numbers of units are private, so the error omits them.
func CheckUnits(units, partitions, most int) error {
	switch {
	case units < partitions:
		return fmt.Errorf("assign partitions: %w: each of %d teachers needs its own; use fewer teachers (in "+
			"teacher.yaml, or in a local run's run.yaml) or more data",
			ErrTooManyPartitions, partitions)
	case units > most:
		return fmt.Errorf("assign partitions: %w: the maximum is %d; divide the data among several nodes",
			ErrTooManyUnits, most)
	}
	return nil
}

// Shards divides a table among the nodes of a site. All rows of a privacy unit (the unit column's text if the schema
// has one, else each record) go to one of n tables, in order. A public hash decides, which is independent of that of
// [SharePositions]. Adding or removing a unit moves no other, so it changes one shard and one of its partitions.
//
// The size of a shard is as private as the rows. A shard without rows is an error, because no node could start with
// it.
func (t *Table) Shards(n int) ([]*Table, error) {
	if n < 1 {
		return nil, fmt.Errorf("divide the table: %d shards; ask for 1 or more", n)
	}
	rows := make([][]int, n)
	for row, at := range shardPart.positions(shareDigests(t)) {
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
