package sitepolicy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/statelock"
)

// ErrLedger says that a site's ledger cannot be used.
var ErrLedger = errors.New("the site's ledger cannot be used")

// siteLedger is a site's ledger: an append-only file, written by the node and by people's commands, one at a time.
// Each use opens it, reads and verifies what is new.
type siteLedger struct {
	path, head string
	readOnly   bool
	now        func() time.Time
	sync       func(*os.File) error // syncs a file to the disk

	// file is the file that was read, size how far; both are zero before the first use and after an error.
	file os.FileInfo
	size int64
	book *book
	// known is the last head seen; the ledger must not fall behind it.
	known *LedgerHead
}

func newSiteLedger(path string, readOnly bool) *siteLedger {
	return &siteLedger{path: path, head: strings.TrimSuffix(path, filepath.Ext(path)) + ".head", readOnly: readOnly,
		now: time.Now, sync: (*os.File).Sync}
}

// use calls do with the content of the ledger while nobody else may write to it. Entries that do returns are
// appended, and are on disk when use returns nil.
func (l *siteLedger) use(do func(b *book) ([]Entry, error)) (err error) {
	defer func() {
		if err != nil && errors.Is(err, ErrLedger) {
			l.file, l.size, l.book = nil, 0, nil // read it anew
		}
	}()
	f, err := l.open()
	if err != nil {
		return err
	}
	if f == nil { // nothing to read, and nothing may be created
		_, err := do(newBook())
		return err
	}
	defer f.Close()
	if err := l.read(f); err != nil {
		return err
	}
	entries, err := do(l.book)
	if err != nil || len(entries) == 0 {
		return err
	}
	if l.readOnly {
		return fmt.Errorf("%w: it was opened read-only", ErrLedger)
	}
	return l.append(f, entries)
}

func (l *siteLedger) open() (*os.File, error) {
	// The target of a link could be any file of the node's user, and would be truncated.
	flags := os.O_RDWR | os.O_CREATE | statelock.NoFollow
	if l.readOnly {
		flags = os.O_RDONLY | statelock.NoFollow
	}
	_, err := os.Lstat(l.path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		h, err := ReadLedgerHead(l.head)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLedger, err)
		}
		if h != nil || l.known != nil {
			return nil, fmt.Errorf("%w: %s is missing, but had entries; restore it from a backup: it is the site's "+
				"only record of charges", ErrLedger, l.path)
		}
		if l.readOnly {
			return nil, nil
		}
	}
	f, err := os.OpenFile(l.path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; make it writable", ErrLedger, err)
	}
	// A node appends charges, people's commands append decisions. Without locks nothing is charged or decided.
	if err := statelock.Lock(f, l.readOnly); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: lock it: %w", ErrLedger, err), f.Close())
	}
	if fresh {
		if err := syncFolder(l.path); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrLedger, err), f.Close())
		}
	}
	return f, nil
}

// syncFolder makes a new file's name durable.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// read takes in what any process wrote since the last time.
func (l *siteLedger) read(f *os.File) error {
	at, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	if l.file == nil || !os.SameFile(l.file, at) {
		l.book, l.size = newBook(), 0
	}
	if at.Size() < l.size {
		return fmt.Errorf("%w: %s was truncated while the node ran; restore it from a backup", ErrLedger, l.path)
	}
	acknowledged, err := ReadLedgerHead(l.head)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	if k := l.known; k != nil && (acknowledged == nil || acknowledged.Seq < k.Seq) {
		acknowledged = k
	}
	raw, err := io.ReadAll(io.NewSectionReader(f, l.size, at.Size()-l.size))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	good, err := l.book.take(raw, acknowledged)
	if err != nil {
		return fmt.Errorf("%w: %s, %w", ErrLedger, l.path, err)
	}
	l.file, l.size = at, l.size+int64(good)
	switch last := l.book.last; {
	case acknowledged == nil && last.Seq > 1:
		return fmt.Errorf("%w: %s, with its last entry, is missing; restore it together with the ledger from one "+
			"backup", ErrLedger, l.head)
	case acknowledged != nil && acknowledged.Seq > last.Seq:
		return fmt.Errorf("%w: %s ends with entry %d, but had %d; it was truncated: restore it from a backup",
			ErrLedger, l.path, last.Seq, acknowledged.Seq)
	case acknowledged != nil && l.book.hashes[acknowledged.Seq-1] != acknowledged.Hash:
		return fmt.Errorf("%w: entry %d of %s does not match %s; restore both from one backup", ErrLedger,
			acknowledged.Seq, l.path, l.head)
	case l.known != nil && l.book.hashes[l.known.Seq-1] != l.known.Hash:
		return fmt.Errorf("%w: entry %d of %s changed while this process ran; restore it and its .head from one "+
			"backup", ErrLedger, l.known.Seq, l.path)
	case last.Seq > 0:
		l.known = &LedgerHead{last.Seq, last.Hash}
		if !l.readOnly && (acknowledged == nil || acknowledged.Seq < last.Seq) {
			// A crash came before the head was written. The entry still counts.
			if err := l.known.Write(l.head, l.sync); err != nil {
				return fmt.Errorf("%w: %w", ErrLedger, err)
			}
		}
	}
	return nil
}

// append writes entries after the valid part of the file.
func (l *siteLedger) append(f *os.File, entries []Entry) error {
	var lines bytes.Buffer
	last, err := l.book.seal(entries, l.now())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	for _, e := range entries {
		line, err := e.canonical()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
		lines.Write(append(line, '\n'))
	}
	// The rest is a line torn by a crash, for which no answer left.
	if err = f.Truncate(l.size); err == nil {
		_, err = f.WriteAt(lines.Bytes(), l.size)
	}
	if err = errors.Join(err, l.sync(f)); err == nil {
		err = LedgerHead{last.Seq, last.Hash}.Write(l.head, l.sync)
	}
	if err != nil {
		return fmt.Errorf("%w: %w; free some space, and make it writable", ErrLedger, err)
	}
	for _, e := range entries {
		if err := l.book.add(e); err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
	}
	l.size += int64(lines.Len())
	l.known = &LedgerHead{last.Seq, last.Hash}
	return nil
}

// Entries returns the verified entries of the ledger, oldest first.
func (e *Enforcer) Entries() (entries []Entry, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err = e.ledger.use(func(b *book) ([]Entry, error) {
		if b.last.Seq == 0 {
			return nil, nil
		}
		raw, err := os.ReadFile(e.o.Ledger)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLedger, err)
		}
		for line := range bytes.Lines(raw[:e.ledger.size]) {
			entry, err := parseEntry(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrLedger, err)
			}
			entries = append(entries, entry)
		}
		return nil, nil
	})
	return entries, err
}
