package tabular

import (
	"context"
	"iter"
	"math"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/parquet"
)

// blockRows is the number of rows of a Parquet file in a block. Tests set a smaller one.
var blockRows = 4096

// rowGroup is a row group of one of a table's files.
type rowGroup struct {
	file, at int
	first    int // rows of the table before it
	table    *Builder
	err      error // why its end was not read
}

// groupsOf holds the files of a pass, and all their row groups.
type groupsOf struct {
	*pass
	stream *Stream
	tables []*Builder // by file; nil if it cannot be opened, with the reason in errs
	errs   []error
	groups []*rowGroup

	mu     sync.Mutex
	next   int
	broken map[int]bool // files with errors
}

// parquet reads the row groups of all files concurrently on all cores, each with its own cursor.
func (p *pass) parquet(t *Stream) error {
	g := &groupsOf{pass: p, stream: t, broken: map[int]bool{}}
	first := 0
	for i := range t.files {
		f, file, table, err := g.open(i)
		g.tables, g.errs = append(g.tables, table), append(g.errs, err)
		if err != nil {
			if p.wrong == nil {
				return err
			}
			g.broken[i] = true
			continue
		}
		f.Close()
		for at, rows := range file.Groups() {
			of := *table
			of.wrong, of.decimals = tally{}, newDecimals()
			g.groups = append(g.groups, &rowGroup{file: i, at: at, first: first, table: &of})
			first += rows
		}
	}
	workers, ctx := errgroup.WithContext(p.ctx)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() error { return g.work(ctx) })
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	return g.end()
}

// open opens a file; the caller closes it.
func (g *groupsOf) open(i int) (*os.File, *parquet.File, *Builder, error) {
	path := g.stream.files[i]
	if g.wrong != nil {
		if err := checkPart(path, true); err != nil {
			return nil, nil, nil, err
		}
	}
	f, err := open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	file, table, err := openParquet(g.stream.schema, f, g.stream.stamps[i].Size(), path, g.options)
	if err != nil {
		f.Close()
		return nil, nil, nil, err
	}
	return f, file, table, nil
}

// take returns the next row group, nil after the last. It starts no further file once many have errors.
func (g *groupsOf) take() *rowGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == len(g.groups) {
		return nil
	}
	r := g.groups[g.next]
	if len(g.broken) >= mostWrongParts && r.at == 0 {
		return nil
	}
	g.next++
	return r
}

func (g *groupsOf) work(ctx context.Context) error {
	var f *os.File
	var file *parquet.File
	defer func() { f.Close() }() // nil would be an error
	which, rows := -1, (*part)(nil)
	for r := g.take(); r != nil; r = g.take() {
		if r.file != which {
			f.Close()
			var err error
			if f, file, _, err = g.open(r.file); err != nil {
				return err // it was opened before
			}
			which, rows = r.file, r.table.newPart()
		}
		if err := g.read(ctx, r, file, rows); err != nil {
			return err
		}
		if r.err != nil || len(r.table.wrong) > 0 {
			g.mu.Lock()
			g.broken[r.file] = true
			g.mu.Unlock()
		}
	}
	return nil
}

// read reads a row group. Its error is one of the consumer of the rows.
func (g *groupsOf) read(ctx context.Context, r *rowGroup, file *parquet.File, rows *part) error {
	flush := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		first := r.first + r.table.row
		if !r.table.count(rows, 0) || rows.rows == 0 {
			rows.reset()
			return nil
		}
		return g.give(first, rows, rows.reset)
	}
	for err := range rows.group(r.table, file, r.at) {
		if err != nil {
			r.err = parquetError(r.table.name, err)
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// group adds the rows of a row group, and yields the error after each block. The caller empties the part.
func (p *part) group(b *Builder, file *parquet.File, group int) iter.Seq[error] {
	noLine := func(int) int { return 0 }
	stored := func(column int) bool { return b.plain[column] != nil && b.plain[column].Number() }
	p.stored, p.known = make([]bool, len(b.target)), make([][]float64, len(b.target))
	for i := range p.stored {
		p.stored[i] = stored(i) && file.InNumbers(i)
	}
	return func(yield func(error) bool) {
		for cells, err := range file.GroupRows(group, b.reads, stored) {
			if err != nil {
				yield(err)
				return
			}
			p.numbers, p.entries = cells.Numbers, cells.Entries
			if p.add(cells.Texts, nil, noLine); p.rows == blockRows && !yield(nil) {
				return
			}
		}
		yield(nil)
	}
}

// knownCell is the cell for a text in a dictionary.
func (p *part) knownCell(i int, text string) (float64, *partition.CellFault) {
	entry := int(p.entries[i])
	for len(p.known[i]) <= entry {
		p.known[i] = append(p.known[i], math.Inf(1))
	}
	if cell := p.known[i][entry]; !math.IsInf(cell, 1) {
		return cell, nil
	}
	cell, fault := p.plain[i].ParseCell(text)
	if fault == nil {
		p.known[i][entry] = cell
	}
	return cell, fault
}

// end combines the errors of the files, in order.
func (g *groupsOf) end() error {
	groups := g.groups
	for i, table := range g.tables {
		if g.wrong != nil && len(g.wrong.Wrong) == mostWrongParts {
			g.wrong.Unread = len(g.tables) - i
			break
		}
		err := g.errs[i]
		for ; len(groups) > 0 && groups[0].file == i; groups = groups[1:] {
			if r := groups[0]; err == nil {
				table.wrong.merge(r.table.wrong, table.row, 0)
				for j := range table.decimals {
					table.decimals[j].merge(r.table.decimals[j], table.row, 0)
				}
				if table.row += r.table.row; r.err != nil {
					err = table.Broken(r.err)
				}
			}
		}
		rows := 0
		if table != nil {
			if rows = table.row; err == nil {
				err = table.end()
			}
		}
		if err := g.ended(rows, err); err != nil {
			return err
		}
	}
	return g.pass.end(g.stream)
}
