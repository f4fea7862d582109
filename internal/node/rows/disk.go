package rows

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/grouping"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// onDisk is rows that are read for each question.
type onDisk struct {
	*tabular.Stream
	schema *partition.Schema
	rows   int
	// numbers is larger than all row numbers in the source.
	numbers int
	places  *grouping.Places // nil if each record is a unit
	key     partition.Key    // of sum
	sum     *partition.DataSum
}

func (r *onDisk) Schema() *partition.Schema { return r.schema }
func (r *onDisk) Len() int                  { return r.rows }

// stream opens the table and reads it once: it checks each cell, and counts the records of each unit.
func (c Config) stream(schema *partition.Schema, o tabular.Options) (Rows, error) {
	table, err := tabular.OpenStream(schema, c.Data, o, c.scratch())
	if err != nil {
		return nil, err
	}
	r := &onDisk{Stream: table, schema: schema}
	if r.key, err = c.keyIfAny(); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	of := func(*partition.Block) error { return nil }
	var places func() (*grouping.Places, error)
	switch {
	case c.Unit == partition.UnitRecord:
	case c.SortedBy == SortedByUnit:
		if of, places, err = c.inOrder(schema); err != nil {
			return nil, err
		}
	default:
		key, err := partition.NewKey() // a secret key, for which nobody can construct colliding units
		if err != nil {
			return nil, err
		}
		groups := grouping.New(ctx, c.scratch())
		of = func(b *partition.Block) error { return groups.Add(b.Numbers, partition.UnitDigests(key, b.Table)) }
		places = groups.Places
	}
	if r.sum, err = r.add(ctx, r.key, of); err != nil {
		return nil, err
	}
	if r.rows = r.sum.Rows(); places != nil {
		r.places, err = places()
	}
	return r, err
}

// inOrder finds the places of rows that are sorted by unit: add takes a block, places ends it.
func (c Config) inOrder(schema *partition.Schema) (add func(*partition.Block) error,
	places func() (*grouping.Places, error), err error) {
	column := &schema.Columns[schema.UnitColumn()]
	ordered, err := grouping.NewOrdered(c.scratch(), column.CompareUnits)
	if err != nil {
		return nil, nil, err
	}
	add = func(b *partition.Block) error {
		units := make([]string, b.Len())
		for i := range units {
			units[i] = b.Unit(i)
		}
		return ordered.Add(b.Numbers, units)
	}
	return add, func() (*grouping.Places, error) {
		places, err := ordered.Places()
		var wrong *grouping.OrderError
		if errors.As(err, &wrong) {
			err = &partition.InputError{File: c.source(), Row: wrong.Row + 1, Column: column.Name,
				Problem: "its unit sorts before that of the row above, against sorted_by",
				Fix:     "sort the rows by this column, text by its bytes and numbers by size, or remove sorted_by"}
		}
		return places, err
	}, nil
}

// add reads all rows and returns their sum under a key; do also sees the rows.
func (r *onDisk) add(ctx context.Context, key partition.Key, do func(*partition.Block) error) (*partition.DataSum,
	error) {
	var mu sync.Mutex
	whole := partition.NewDataSum(key)
	err := r.Blocks(ctx, func(b *partition.Block) error {
		sum := partition.NewDataSum(key)
		sum.Add(b.Table)
		mu.Lock()
		whole.Merge(sum)
		r.numbers = max(r.numbers, b.Numbers[b.Len()-1]+1)
		mu.Unlock()
		return do(b)
	})
	return whole, err
}

func (r *onDisk) Divide(c Config, key *partition.Key) (*Division, error) {
	units := r.rows
	if r.places != nil {
		units = r.places.Groups
	}
	d, err := c.undivided(units)
	if err != nil || key == nil {
		return d, err
	}
	if *key != r.key {
		nothing := func(*partition.Block) error { return nil }
		if r.sum, err = r.add(context.Background(), *key, nothing); err != nil {
			return nil, err
		}
		r.key = *key
	}
	d.Manifest = c.manifest(r.schema, units, *key, r.sum)
	return d, nil
}

func (r *onDisk) Site(p *question.Public, d *Division, c Config) *question.Site {
	site := question.NewStreamedSite(p, r.Stream, r.places, d.Units[0], c.State)
	site.Divides = true
	site.Divisible = &question.Divisible{Table: r.Stream, Rows: r.numbers, Records: r.rows,
		Dir: c.scratch(), By: partition.Divider{Key: r.key, Partitions: c.Teachers, Unit: c.Unit}}
	return site
}

func (r *onDisk) CountUnitsBy(c Config, column int) (map[string]int, error) {
	counts, err := r.countCells(c, column)
	if err != nil {
		return nil, err
	}
	by := map[string]int{}
	for cell, n := range counts {
		by[r.schema.Columns[column].CellText(float64(cell))] = n
	}
	return by, nil
}

// countCells is CountUnitsBy for cells.
func (r *onDisk) countCells(c Config, at int) (map[uint32]int, error) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var mu sync.Mutex
	counts := map[uint32]int{}
	key, err := partition.NewKey()
	if err != nil {
		return nil, err
	}
	units := grouping.New(ctx, c.scratch())
	err = r.Blocks(ctx, func(b *partition.Block) error {
		if r.places == nil {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				if cell := b.Cells(i)[at]; !math.IsNaN(cell) {
					counts[uint32(cell)]++
				}
			}
			return nil
		}
		var numbers []int
		var digests [][32]byte
		for i, d := range partition.UnitDigests(key, b.Table) {
			if cell := b.Cells(i)[at]; !math.IsNaN(cell) {
				binary.BigEndian.PutUint32(d[28:], uint32(cell)) // 28 bytes are enough to identify units
				numbers, digests = append(numbers, b.Numbers[i]), append(digests, d)
			}
		}
		return units.Add(numbers, digests)
	})
	if err != nil || r.places == nil {
		return counts, err
	}
	for unit, err := range units.All() {
		if err != nil {
			return nil, err
		}
		counts[binary.BigEndian.Uint32(unit.Digest[28:])]++
	}
	return counts, nil
}
