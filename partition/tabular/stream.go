package tabular

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/grouping"
)

// Stream is a table that can be read any number of times, in blocks and on all cores, and is never in memory as a
// whole. Its source is CSV or Parquet, in one file or in parts. Start with [OpenStream].
type Stream struct {
	schema  *partition.Schema
	path    string
	files   []string
	options Options
	dir     string
	stamps  []os.FileInfo
	// chosen has a bit for each row in the share, if that depends on other rows; otherwise nil.
	chosen []uint64
}

// OpenStream finds the files that [Read] would read, and reads nothing. Sorts of rows on the disk use files in
// dir. Weights are not read. Errors are *InputError.
func OpenStream(s *partition.Schema, path string, o Options, dir string) (*Stream, error) {
	fail := func(file, problem, fix string) (*Stream, error) {
		return nil, &partition.InputError{File: file, Problem: problem, Fix: fix}
	}
	if err := o.check(s); err != nil {
		return fail(path, err.Error(), "")
	}
	o.Weights = false
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	t := &Stream{schema: s, path: path, files: files, options: o, dir: dir}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, &partition.InputError{File: file, Problem: "cannot read the table",
				Fix: "check path and permissions", Err: partition.WithoutPath(err)}
		}
		if !info.Mode().IsRegular() {
			return fail(file, "a streamed table must be a regular file",
				"copy it to a disk")
		}
		switch archive, err := isArchive(file); {
		case err != nil:
			return nil, err
		case archive && len(files) == 1:
			return fail(path, "a workbook cannot be streamed",
				"remove stream: true, or save it as CSV")
		case s.Image != nil && !isParquet(file) && !isCSV(file):
			return fail(path, "images cannot be streamed", "remove stream: true")
		}
		t.stamps = append(t.stamps, info)
	}
	return t, nil
}

// unchanged fails if a file was replaced or written.
func (t *Stream) unchanged() error {
	for i, file := range t.files {
		info, err := os.Stat(file)
		was := t.stamps[i]
		if err != nil || !os.SameFile(info, was) || info.Size() != was.Size() || !info.ModTime().Equal(was.ModTime()) {
			changed := partition.ErrChanged
			if err != nil {
				changed = fmt.Errorf("%w (%w)", partition.ErrChanged, partition.WithoutPath(err))
			}
			return &partition.InputError{File: file, Problem: "cannot read the table again", Err: changed}
		}
	}
	return nil
}

// Blocks passes all rows of the site and share in the options to do, in blocks, in no particular order, from
// several goroutines. A block is valid until do returns. Errors are those of [Read], of do, and the cause of ctx;
// after an error the blocks passed are not the whole table.
func (t *Stream) Blocks(ctx context.Context, do func(*partition.Block) error) error {
	if t.options.byShare() && t.schema.UnitColumn() < 0 && t.chosen == nil {
		if err := t.choose(ctx); err != nil {
			return err
		}
		t.options.Warn = nil // already reported
	}
	var some atomic.Bool
	err := t.pass(ctx, func(b *partition.Block) error {
		if t.keep(b); b.Len() == 0 {
			return nil
		}
		some.Store(true)
		return do(b)
	})
	t.options.Warn = nil
	if err == nil && !some.Load() {
		err = errNoRow(t.path)
	}
	return err
}

// choose finds the rows in a share of records. Equal records are distinguished by how many come before.
func (t *Stream) choose(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	g := grouping.New(ctx, t.dir)
	var mu sync.Mutex
	rows := 0
	err := t.pass(ctx, func(b *partition.Block) error {
		mu.Lock()
		rows = max(rows, b.Numbers[b.Len()-1]+1)
		mu.Unlock()
		return g.Add(b.Numbers, partition.ShareContents(b.Table))
	})
	if err != nil {
		return err
	}
	chosen := make([]uint64, (rows+63)/64)
	for group, err := range g.All() {
		if err != nil {
			return err
		}
		for _, p := range group.Rows {
			if at := partition.SharePosition(group.Digest, uint64(p.Nth)); at >= t.options.From && at < t.options.To {
				chosen[p.Row/64] |= 1 << (p.Row % 64)
			}
		}
	}
	t.chosen = chosen
	return nil
}

// keep keeps the rows of the site and share.
func (t *Stream) keep(b *partition.Block) {
	s, o := t.schema, &t.options
	bySite := o.Site != "" && s.SiteColumn() >= 0
	if !bySite && !o.byShare() {
		return
	}
	var positions []float64
	if o.byShare() && t.chosen == nil {
		positions = partition.SharePositions(b.Table)
	}
	var rows []int
	for row, number := range b.Numbers {
		if bySite && s.Columns[s.SiteColumn()].Categories[int(b.Cells(row)[s.SiteColumn()])] != o.Site ||
			positions != nil && !(positions[row] >= o.From && positions[row] < o.To) ||
			t.chosen != nil && t.chosen[number/64]>>(number%64)&1 == 0 {
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) == b.Len() {
		return
	}
	b.Table = b.Subset(rows)
	for i, row := range rows {
		b.Numbers[i] = b.Numbers[row]
	}
	b.Numbers = b.Numbers[:len(rows)]
}

// pass reads all files once, and passes the blocks of all rows.
func (t *Stream) pass(ctx context.Context, do func(*partition.Block) error) error {
	if err := t.unchanged(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	p := &pass{ctx: ctx, group: group, do: do, free: sync.Pool{New: func() any { return partition.NewTable(t.schema) }},
		options: t.options}
	if len(t.files) > 1 || t.files[0] != t.path {
		p.ofParts(len(t.files))
	}
	var err error
	if isParquet(t.files[0]) {
		err = p.parquet(t)
	} else {
		err = p.csv(t)
	}
	if failed := group.Wait(); failed != nil {
		return failed
	}
	// If a file was written meanwhile, report that as the reason for its errors.
	return cmp.Or(t.unchanged(), err)
}

// pass is a pass over the files of a stream.
type pass struct {
	ctx     context.Context
	group   *errgroup.Group // processes blocks
	do      func(*partition.Block) error
	free    sync.Pool // of tables
	options Options
	wrong   *WrongParts // nil for a single file
}

// ofParts sets the options for parts.
func (p *pass) ofParts(files int) {
	p.wrong = &WrongParts{Parts: files}
	p.options.ofPart = true
	told, warn := map[string]bool{}, p.options.Warn
	p.options.Warn = func(warning string) { // parts are unusual in the same way
		if warn != nil && !told[warning] {
			warn(warning)
		}
		told[warning] = true
	}
}

// ended records how a file ended, after the given number of rows. It returns the error of a single file.
func (p *pass) ended(rows int, err error) error {
	switch {
	case p.wrong == nil:
		return err
	case err != nil:
		p.wrong.add(err)
	default:
		p.wrong.Rows += rows
	}
	return nil
}

// end reports what is wrong with the files.
func (p *pass) end(t *Stream) error {
	switch {
	case p.wrong == nil:
		return nil
	case len(p.wrong.Wrong) > 0:
		return p.wrong
	case p.wrong.Rows == 0:
		return errNoRows(t.path)
	}
	return nil
}

// give passes on the rows of a part of a file, with the number of rows before it in the source, and calls back.
func (p *pass) give(first int, rows *part, back func()) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	table := p.free.Get().(*partition.Table)
	defer p.free.Put(table)
	table.Reset()
	table.Extend(rows.cells, rows.units)
	back()
	b := &partition.Block{Table: table, Numbers: make([]int, table.Len())}
	for i := range b.Numbers {
		b.Numbers[i] = first + i
	}
	return p.do(b)
}

// csv reads text files, one after another.
func (p *pass) csv(t *Stream) error {
	first := 0
	for i, path := range t.files {
		if p.wrong != nil && len(p.wrong.Wrong) == mostWrongParts {
			p.wrong.Unread = len(t.files) - i
			break
		}
		rows, err := p.csvFile(t, path, first)
		if err := p.ended(rows, err); err != nil {
			return err
		}
		first += rows
	}
	return p.end(t)
}

func (p *pass) csvFile(t *Stream, path string, first int) (rows int, err error) {
	if p.wrong != nil {
		if err := checkPart(path, false); err != nil {
			return 0, err
		}
	}
	f, err := open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	d, err := newCSVDecoder(t.schema, f, path, p.options)
	if err != nil {
		return 0, err
	}
	err = d.rows(func(before int, rows *part, back func()) error {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		p.group.Go(func() error { return p.give(first+before, rows, back) })
		return nil
	})
	if err == nil {
		err = d.table.end()
	}
	return d.table.row, err
}

func errNoRow(name string) error {
	return &partition.InputError{File: name, Problem: "no row belongs to this site and share",
		Fix: "check site and share"}
}

func errNoRows(name string) error {
	return &partition.InputError{File: name, Problem: "there is no row in any part",
		Fix: "check that it is the right folder, and that it was copied completely"}
}
