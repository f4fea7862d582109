package question

import (
	"context"
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/grouping"
)

// Table passes its rows in blocks, any number of times: a table on the disk, or in a database.
type Table interface {
	Blocks(ctx context.Context, do func(*partition.Block) error) error
}

// NewStreamedSite is a site whose records are read from a table for each question. places holds each row's place
// in its unit. It is nil if each record is its own unit (units in total), or if the table's blocks have the
// places.
func NewStreamedSite(p *Public, table Table, places *grouping.Places, units int, state string) *Site {
	p.Streams = true
	return &Site{Public: p, UnitsOf: []int{units}, State: state,
		Rows: &onDisk{table: table, places: places, encoder: encode.New(p.Schema)}}
}

// onDisk is the records of a table on disk.
type onDisk struct {
	table   Table
	places  *grouping.Places
	encoder *encode.Encoder
	free    sync.Pool // of *room
}

// room is the memory for encoding a block.
type room struct {
	encoded encode.Encoded
	nth, of []uint32
}

func (r *onDisk) Blocks(ctx context.Context, do func(*Block) error) error {
	var given error // error of do
	var once sync.Once
	err := r.table.Blocks(ctx, func(rows *partition.Block) error {
		in, ok := r.free.Get().(*room)
		if !ok {
			in = new(room)
		}
		defer r.free.Put(in)
		r.encoder.EncodeInto(&in.encoded, rows.Table)
		b := &Block{Records: in.encoded.Features, Classes: in.encoded.Classes}
		if b.Nth, b.Of = rows.Nth, rows.Of; r.places != nil {
			if err := in.place(r.places, rows.Numbers); err != nil {
				return err
			}
			b.Nth, b.Of = in.nth, in.of
		}
		err := do(b)
		if err != nil {
			once.Do(func() { given = err })
		}
		return err
	})
	switch {
	case err == nil, given != nil:
		return given
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrRows, err)
}

// place finds the places of rows.
func (in *room) place(places *grouping.Places, numbers []int) (err error) {
	first := numbers[0]
	in.nth, in.of, err = places.At(first, numbers[len(numbers)-1]-first+1, in.nth[:0], in.of[:0])
	if err != nil {
		return err
	}
	for i, number := range numbers { // ascending, so that none is overwritten before it is read
		if in.nth[i], in.of[i] = in.nth[number-first], in.of[number-first]; in.of[i] == 0 {
			return partition.ErrChanged // the row did not exist when units were counted
		}
	}
	in.nth, in.of = in.nth[:len(numbers)], in.of[:len(numbers)]
	return nil
}
