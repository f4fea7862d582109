package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Cursor reads rows in blocks for each question and never keeps all of them. Start with [OpenCursor].
type Cursor struct {
	schema  *partition.Schema
	config  Config
	options tabular.Options
	unit    bool // whether a unit may have several rows
	query   string
	// key and sum are what the rows are checked against; sum is nil before the first reading.
	key partition.Key
	sum *partition.DataSum
}

// OpenCursor asks the server for the query's columns and reads no row. If units may have several rows, unit is true:
// the server then sorts by unit, and the rows of one unit are in memory together.
func OpenCursor(ctx context.Context, s *partition.Schema, c Config, o tabular.Options, unit bool) (*Cursor, error) {
	if o.From != 0 || o.To != 0 && o.To != 1 {
		return nil, errors.New("stream: a share of a query's rows cannot be streamed; remove share, or stream")
	}
	in, err := c.begin(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer in.end()
	columns, err := in.match(s, o)
	if err != nil {
		return nil, err
	}
	r := &Cursor{schema: s, config: c, options: o, unit: unit, query: c.Query}
	if unit {
		p := &Pushed{schema: s, columns: columns}
		of := &columns[s.UnitColumn()]
		if of.as == asText {
			return nil, &partition.InputError{File: sourceName, Column: of.Name,
				Problem: "the unit column has numbers as text, and one unit may have several spellings",
				Fix:     "cast the column to a number in the query, or remove stream"}
		}
		r.query = "select q.* from (" + strings.TrimRight(c.Query, "; \t\r\n") + "\n) as q order by " + p.unitOf()
	}
	return r, nil
}

// Held returns the same rows, but every reading fails with [ErrChanged] if their sum under the key differs.
func (r *Cursor) Held(key partition.Key, sum *partition.DataSum) *Cursor {
	held := *r
	held.key, held.sum = key, sum
	return &held
}

// Schema is the schema of the rows.
func (r *Cursor) Schema() *partition.Schema { return r.schema }

// blockRows is how many rows a block has, if no unit has more.
const blockRows = 4096

// Blocks passes all rows of the site in blocks to do, on several goroutines at once. A block is valid until do
// returns. Errors are those of [Read], of do, and the cause of ctx; after an error the blocks are not the whole
// table.
func (r *Cursor) Blocks(ctx context.Context, do func(*partition.Block) error) error {
	config := r.config
	config.Query = r.query
	in, err := config.begin(ctx, 1)
	if err != nil {
		return err
	}
	defer in.end()
	columns, err := in.columns()
	if err != nil {
		return err
	}
	o := r.options
	builder, err := tabular.NewBuilder(r.schema, sourceName, tabular.FromSQL, columns, o)
	if err != nil {
		return err
	}
	r.options.Warn = nil // already reported
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	in.ctx = within
	whole, number := partition.NewDataSum(r.key), 0
	var mu sync.Mutex
	give := func(t *partition.Table, nth, of []uint32) {
		b := &partition.Block{Table: t, Nth: nth, Of: of, Numbers: make([]int, t.Len())}
		for i := range b.Numbers {
			b.Numbers[i] = number + i
		}
		number += t.Len()
		group.Go(func() error {
			if r.sum != nil {
				sum := partition.NewDataSum(r.key)
				sum.Add(t)
				mu.Lock()
				whole.Merge(sum)
				mu.Unlock()
			}
			return do(b)
		})
	}
	err = r.read(in, builder, columns, give)
	if failed := group.Wait(); failed != nil {
		return failed
	}
	switch {
	case err == nil && number == 0:
		return &partition.InputError{File: sourceName, Problem: "no row belongs to this site and share",
			Fix: "check site and share"}
	case err == nil && r.sum != nil && !r.sum.Same(whole):
		return ErrChanged
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// read reads the rows and passes on those of the site.
func (r *Cursor) read(in *session, builder *tabular.Builder, columns []tabular.SourceColumn,
	give func(t *partition.Table, nth, of []uint32)) error {
	rows := in.conn.ExecPrepared(in.ctx, "rows", nil, nil, nil) // results as text
	texts, added := make([]string, len(columns)), 0
	rest := partition.NewTable(r.schema) // the rows of the last, perhaps incomplete unit
	flush := func(last bool) {
		t := builder.Take()
		added = 0
		if r.unit {
			t, rest = r.whole(rest, t, last)
		} else {
			t = r.ofSite(t)
		}
		if t.Len() == 0 {
			return
		}
		if !r.unit {
			give(t, nil, nil)
			return
		}
		t, nth, of := places(t)
		give(t, nth, of)
	}
	for rows.NextRow() {
		for i, raw := range rows.Values() {
			texts[i] = text(columns[i].Kind, raw)
		}
		if err := builder.Add(texts); err != nil {
			return err // closing the connection ends the query
		}
		if added++; added == blockRows {
			if in.ctx.Err() != nil {
				return context.Cause(in.ctx)
			}
			flush(false)
		}
	}
	if _, err := rows.Close(); err != nil {
		return builder.Broken(queryError("read the rows", err))
	}
	flush(true)
	return builder.End()
}

// whole adds sorted rows of the site to the rest, and splits off all complete units.
func (r *Cursor) whole(rest, t *partition.Table, last bool) (units, next *partition.Table) {
	t = r.ofSite(t)
	for row := range t.Len() {
		rest.Push(t.Cells(row), t.Unit(row))
	}
	from := rest.Len()
	for !last && from > 0 && rest.Unit(from-1) == rest.Unit(rest.Len()-1) {
		from--
	}
	return rest.Subset(numbers(0, from)), rest.Subset(numbers(from, rest.Len()))
}

// ofSite returns the rows of the site.
func (r *Cursor) ofSite(t *partition.Table) *partition.Table {
	at := r.schema.SiteColumn()
	if r.options.Site == "" || at < 0 {
		return t
	}
	site := float64(slices.Index(r.schema.Columns[at].Categories, r.options.Site))
	return t.Subset(slices.DeleteFunc(numbers(0, t.Len()), func(row int) bool { return t.Cells(row)[at] != site }))
}

// places sorts the rows of each unit as [Read] does, and numbers each row within its unit.
func places(t *partition.Table) (out *partition.Table, nth, of []uint32) {
	rows := numbers(0, t.Len())
	for from, to := 0, 0; from < len(rows); from = to {
		for to = from; to < len(rows) && t.Unit(to) == t.Unit(from); to++ {
			nth = append(nth, uint32(to-from))
		}
		slices.SortStableFunc(rows[from:to], func(a, b int) int { return slices.Compare(t.Cells(a), t.Cells(b)) })
		of = append(of, slices.Repeat([]uint32{uint32(to - from)}, to-from)...)
	}
	return t.Subset(rows), nth, of
}

func numbers(from, to int) []int {
	out := make([]int, to-from)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// CountUnits reads all rows once and returns the number of units and rows, and their sum under a key. PRIVATE.
func (r *Cursor) CountUnits(ctx context.Context, key partition.Key) (units int, sum *partition.DataSum, err error) {
	var mu sync.Mutex
	sum = partition.NewDataSum(key)
	err = r.Blocks(ctx, func(b *partition.Block) error {
		part, begun := partition.NewDataSum(key), b.Len()
		part.Add(b.Table)
		if b.Of != nil {
			begun = 0
			for _, nth := range b.Nth {
				begun += 1 - min(1, int(nth))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		sum.Merge(part)
		units += begun
		return nil
	})
	if err == nil && sum.Rows() > maxCounts {
		err = fmt.Errorf("sql: more than %d rows; divide them among several nodes", maxCounts)
	}
	return units, sum, err
}
