package question

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Rows are a node's records. They can be read any number of times.
type Rows interface {
	// Blocks passes all records to do, in blocks, in no particular order, from several goroutines. It returns the
	// first error of do, the cause of ctx if ctx ends, or an error that wraps [ErrRows].
	Blocks(ctx context.Context, do func(*Block) error) error
}

// ErrRows is wrapped by errors about records that cannot be read again. Their details name the site's files and rows,
// and stay there: only this text leaves.
var ErrRows = errors.New("the node cannot read its records; its log says why")

// Block is some encoded records. It is valid until do returns.
type Block struct {
	Records []float32 // [len(Classes), Features]
	Classes []int
	// Of is the number of records of each record's unit, Nth the record's index among them, from 0; nil if each
	// record is a unit.
	Nth, Of []uint32
}

// Record returns one record.
func (b *Block) Record(i int) []float32 {
	width := len(b.Records) / len(b.Classes)
	return b.Records[i*width : (i+1)*width]
}

// Place returns a record's index within its unit, from 0, and the unit's number of records.
func (b *Block) Place(i int) (nth, of int) {
	if b.Of == nil {
		return 0, 1
	}
	return int(b.Nth[i]), int(b.Of[i])
}

func (b *Block) reset() { *b = Block{b.Records[:0], b.Classes[:0], b.Nth[:0], b.Of[:0]} }

// Adder adds the contribution of a block's records to a sum.
type Adder func(b *Block, sum []int64)

// mostSums bounds the bytes of the sums of all processors.
const mostSums = 256 << 20

// Add adds up vectors of the given number of entries over all records, on all processors. begin makes the state of
// one goroutine, which no other goroutine uses. Integer sums do not depend on the order.
func (s *Site) Add(entries int, begin func() Adder) ([]int64, error) {
	type worker struct {
		add Adder
		sum []int64
	}
	free := make(chan *worker, max(1, min(runtime.GOMAXPROCS(0), mostSums/(8*max(1, entries)))))
	for range cap(free) {
		free <- nil
	}
	err := s.Rows.Blocks(s.context(), func(b *Block) error {
		w := <-free
		if w == nil {
			w = &worker{begin(), make([]int64, entries)}
		}
		w.add(b, w.sum)
		free <- w
		return nil
	})
	if err != nil {
		return nil, err
	}
	sum := make([]int64, entries)
	for range cap(free) {
		if w := <-free; w != nil {
			for i, v := range w.sum {
				sum[i] += v
			}
		}
	}
	return sum, nil
}

// blockRecords is the number of records in a block of records in memory.
const blockRecords = 512

// inMemory is the records of a site that holds all of them in memory.
type inMemory struct{ *Site }

func (m inMemory) Blocks(ctx context.Context, do func(*Block) error) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			var b Block
			for {
				from := int(next.Add(blockRecords)) - blockRecords
				if from >= len(m.Units) {
					return nil
				}
				for _, unit := range m.Units[from:min(from+blockRecords, len(m.Units))] {
					for nth, r := range unit {
						b.Records, b.Classes = append(b.Records, m.Record(r)...), append(b.Classes, r.Class)
						b.Nth, b.Of = append(b.Nth, uint32(nth)), append(b.Of, uint32(len(unit)))
						if len(b.Classes) < blockRecords {
							continue
						}
						if err := give(ctx, &b, do); err != nil {
							return err
						}
					}
				}
				if err := give(ctx, &b, do); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// give passes on a block that is not empty, and empties it, unless the answer is no longer wanted.
func give(ctx context.Context, b *Block, do func(*Block) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(b.Classes) == 0 {
		return nil
	}
	defer b.reset()
	return do(b)
}
