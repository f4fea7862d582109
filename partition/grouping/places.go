package grouping

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Places stores each row's place in its group on the disk, eight bytes per row. It is safe for concurrent use.
type Places struct {
	// Groups is the number of groups.
	Groups  int
	file    *os.File
	removed bool // already unlinked
}

const placeBytes = 8

// Places writes the places to the disk. No more rows can be added.
func (g *Grouper) Places() (p *Places, err error) {
	ctx, end := context.WithCancel(g.outer)
	defer end()
	byRow := begin(ctx, g.dir, func(p Placed) []byte {
		b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+placeBytes), uint64(p.Row))
		return p.append(b)
	}, func(b []byte) Placed {
		return Placed{int(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
	}, func(a, b Placed) int { return cmp.Compare(a.Row, b.Row) })
	groups := 0
	for group, err := range g.All() {
		if err != nil {
			return nil, err
		}
		groups++
		for _, placed := range group.Rows {
			if err := byRow.add(ctx, placed); err != nil {
				return nil, err
			}
		}
	}
	if p, err = create(g.dir); err != nil {
		return nil, err
	}
	p.Groups = groups
	out := bufio.NewWriterSize(p.file, 1<<16)
	next := 0
	for placed, err := range byRow.all(ctx) {
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		for ; next < placed.Row; next++ { // rows that were not added
			_, _ = out.Write(make([]byte, placeBytes)) // keeps the first error
		}
		_, _ = out.Write(placed.append(nil))
		next++
	}
	if err := out.Flush(); err != nil {
		return nil, errors.Join(errPlaces(err), p.Close())
	}
	return p, nil
}

func errPlaces(err error) error {
	return fmt.Errorf("write the places of rows: %w; free space for the state folder", err)
}

func (p Placed) append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, p.Nth), p.Of)
}

// create creates the file, and unlinks it at once if the system can do that.
func create(dir string) (*Places, error) {
	f, err := os.CreateTemp(dir, ".places-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("create a file for the places of rows: %w; make the folder writable", err)
	}
	return &Places{file: f, removed: os.Remove(f.Name()) == nil}, nil
}

// At appends the places of consecutive rows to nth and of. Both are 0 for a row that was not added.
func (p *Places) At(first, rows int, nth, of []uint32) ([]uint32, []uint32, error) {
	raw := make([]byte, rows*placeBytes)
	n, err := p.file.ReadAt(raw, int64(first)*placeBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nth, of, fmt.Errorf("read the places of rows: %w", err)
	}
	clear(raw[n:])
	for ; len(raw) > 0; raw = raw[placeBytes:] {
		nth, of = append(nth, binary.BigEndian.Uint32(raw)), append(of, binary.BigEndian.Uint32(raw[4:]))
	}
	return nth, of, nil
}

// Close removes the file.
func (p *Places) Close() error {
	err := p.file.Close()
	if !p.removed {
		err = errors.Join(err, os.Remove(p.file.Name()))
	}
	return err
}
