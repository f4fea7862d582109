package questiontest

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/grouping"
)

// blocks passes a table as one in files: in blocks, on several goroutines. Other packages show what files add to that.
type blocks struct {
	*partition.Table
	size int
}

func (b blocks) Blocks(_ context.Context, do func(*partition.Block) error) error {
	var several errgroup.Group
	for first := 0; first < b.Len(); first += b.size {
		numbers := make([]int, min(b.size, b.Len()-first))
		for i := range numbers {
			numbers[i] = first + i
		}
		several.Go(func() error { return do(&partition.Block{Table: b.Subset(numbers), Numbers: numbers}) })
	}
	return several.Wait()
}

// StreamedSite is a [Site] whose records are read in blocks for each question.
func StreamedSite(t testing.TB, table *partition.Table, teachers, size int) *question.Site {
	t.Helper()
	s, dir, stream := table.Schema(), t.TempDir(), blocks{table, size}
	var places *grouping.Places
	units := table.Len()
	if s.UnitColumn() >= 0 {
		g := grouping.New(t.Context(), dir)
		testkit.Must(t, stream.Blocks(t.Context(), func(b *partition.Block) error {
			return g.Add(b.Numbers, partition.UnitDigests(partition.Key{7}, b.Table))
		}))
		var err error
		places, err = g.Places()
		testkit.Must(t, err)
		units = places.Groups
		t.Cleanup(func() { _ = places.Close() })
	}
	site := question.NewStreamedSite(question.NewPublic(s, teachers, 11), stream, places, units, dir)
	site.Divides = true
	site.Divisible = &question.Divisible{Table: stream, Rows: table.Len(), Records: table.Len(), Dir: dir,
		By: partition.Divider{Key: partition.Key{1, 2, 3}, Partitions: teachers, Unit: unitOf(s)}}
	return site
}

// cut passes records in blocks of another size, the last ones first.
type cut struct {
	question.Rows
	size int
}

func (c cut) Blocks(ctx context.Context, do func(*question.Block) error) error {
	var mu sync.Mutex
	var pieces []question.Block
	err := c.Rows.Blocks(ctx, func(b *question.Block) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range b.Classes {
			if n := len(pieces); n == 0 || len(pieces[n-1].Classes) == c.size {
				pieces = append(pieces, question.Block{})
			}
			p := &pieces[len(pieces)-1]
			nth, of := b.Place(i)
			p.Records, p.Classes = append(p.Records, b.Record(i)...), append(p.Classes, b.Classes[i])
			p.Nth, p.Of = append(p.Nth, uint32(nth)), append(p.Of, uint32(of))
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(pieces)
	for i := range pieces {
		if err := do(&pieces[i]); err != nil {
			return err
		}
	}
	return nil
}

// streams checks that an answer is exactly the same from memory and from a stream, in blocks of any size, on one core
// and on several.
func (r *runner) streams(t *testing.T) {
	if !r.kind.Streams && !r.kind.Divides {
		t.Skip("nodes that stream do not answer it")
	}
	for _, unit := range []string{partition.UnitRecord, UnitColumn} {
		table := r.c.Units(t, unit, units, func(int) bool { return true })
		memory := Site(t, table, teachers)
		sites := map[string]*question.Site{
			"a stream of 7 rows":    StreamedSite(t, table, teachers, 7),
			"a stream of many rows": StreamedSite(t, table, teachers, 1000),
		}
		for name, size := range map[string]int{"blocks of one": 1, "blocks of 7": 7, "blocks of 300": 300} {
			of := Site(t, table, teachers)
			of.Rows = cut{of.Rows, size}
			sites[name] = of
		}
		sample := func(s *question.Site) { // the same units for all storage forms
			s.Sample = func(gnmax.Rate) ([]int, error) { return []int{0, 2, 3, 7, 11}, nil }
		}
		for _, s := range sites {
			testkit.Must(t, s.Divide())
			sample(s)
		}
		sample(memory)
		for name, params := range r.answered() {
			for round := range uint64(2) {
				want := MustAsk(t, memory, r.kind, params, name, 2*round+1)
				for source, s := range sites {
					cores := 1 + 2*int(round)
					before := runtime.GOMAXPROCS(cores)
					got := MustAsk(t, s, r.kind, params, name, 2*round+1)
					runtime.GOMAXPROCS(before)
					if !slices.Equal(got.Sum, want.Sum) || !bytes.Equal(got.Votes, want.Votes) {
						t.Errorf("%s by %s of %s on %d cores: the answer is another one", name, unit, source, cores)
					}
				}
			}
		}
	}
}
