package questiontest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/grouping"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// StreamedSite is a [Site] whose records are read for each question from a file of a format, tabular.CSV or
// Parquet.
func StreamedSite(t testing.TB, table *partition.Table, teachers int, form string) *question.Site {
	t.Helper()
	s, dir := table.Schema(), t.TempDir()
	path := filepath.Join(dir, "table."+form)
	f, err := os.Create(path)
	testkit.Must(t, err)
	testkit.Must(t, tabular.Write(f, form, table, nil))
	testkit.Must(t, f.Close())
	stream, err := tabular.OpenStream(s, path, tabular.Options{}, dir)
	testkit.Must(t, err)
	var places *grouping.Places
	units := table.Len()
	if s.UnitColumn() >= 0 {
		g := grouping.New(t.Context(), dir)
		testkit.Must(t, stream.Blocks(t.Context(), func(b *tabular.Block) error {
			return g.Add(b.Numbers, partition.UnitDigests(partition.Key{7}, b.Table))
		}))
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

// streams checks that an answer is exactly the same from memory, from CSV and from Parquet, in blocks of any size,
// on one core and on several.
func (r *runner) streams(t *testing.T) {
	if !r.kind.Streams && !r.kind.Divides {
		t.Skip("nodes that stream do not answer it")
	}
	for _, unit := range []string{partition.UnitRecord, UnitColumn} {
		table := r.c.Units(t, unit, units, func(int) bool { return true })
		memory := Site(t, table, teachers)
		sites := map[string]*question.Site{
			"CSV":     StreamedSite(t, table, teachers, tabular.CSV),
			"Parquet": StreamedSite(t, table, teachers, tabular.Parquet),
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
