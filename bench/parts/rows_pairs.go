package main

import (
	"context"
	"slices"
	"sync"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// inMemory are blocks of records that were encoded before.
type inMemory []*question.Block

// Blocks gives all blocks on the caller's goroutine: one core.
func (m inMemory) Blocks(_ context.Context, do func(*question.Block) error) error {
	for _, b := range m {
		if err := do(b); err != nil {
			return err
		}
	}
	return nil
}

// encoded reads and encodes a whole table.
func encoded(s *partition.Schema, stream *tabular.Stream) (*question.Site, error) {
	site := question.NewStreamedSite(question.NewPublic(s, 1, 1), stream, nil, 1, "")
	var all inMemory
	var mu sync.Mutex
	err := site.Rows.Blocks(context.Background(), func(b *question.Block) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, &question.Block{Records: slices.Clone(b.Records), Classes: slices.Clone(b.Classes)})
		return nil
	})
	site.Rows = all
	return site, err
}

// bytes is what a sum reads of a record: its features and its class.
func (m inMemory) bytes() (bytes int64) {
	for _, b := range m {
		bytes += int64(4*len(b.Records) + 8*len(b.Classes))
	}
	return bytes
}

// triadNumbers is the length of each of three vectors, of 64 MiB each: more than caches hold.
const triadNumbers = 8 << 20

// triad is the bandwidth of memory for one core: bytes a second of processor time, the best of ten passes of
// a = b + 3c. A pass reads two vectors and writes one. What the processor reads in order to write is not counted.
func triad() float64 {
	a, b, c := make([]float64, triadNumbers), make([]float64, triadNumbers), make([]float64, triadNumbers)
	for i := range a {
		a[i], b[i], c[i] = 1, 2, float64(i)
	}
	best := 0.0
	for range 10 {
		begin := cpu()
		for i := range a {
			a[i] = b[i] + 3*c[i]
		}
		best = max(best, 3*8*triadNumbers/(cpu()-begin))
	}
	return best
}
