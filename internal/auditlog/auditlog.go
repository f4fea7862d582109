// Package auditlog keeps a file of who did what: JSON lines, one for each join, run,
// release and refusal. It is for people who look into what happened; what was spent
// stands in the ledger, which is the authority.
//
// Open a [Log], Write to it, Close it. A nil Log takes everything and keeps nothing, so
// that a role without one needs no checks.
//
// The file is only ever appended to. SIGHUP closes it and opens the path again, so that
// a rotation can rename it. What is about releases is synced to disk before Write
// returns. When the disk is full nothing is silent: Write fails, the log of the process
// has it, and [Log.Check] fails until the file takes lines again; the roles release
// nothing meanwhile.
package auditlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// ErrLost is what errors.Is finds when the file does not take lines.
var ErrLost = errors.New("the audit log cannot be written")

// Log is an open audit log. It may be used by several goroutines.
type Log struct {
	path, role, name string
	log              *zap.Logger
	now              func() time.Time

	mu   sync.Mutex
	file file
	torn bool // the file ends within a line
	err  error

	hangup chan os.Signal
	done   chan struct{}
	closed sync.WaitGroup
	once   sync.Once
}

// file is what a Log needs of an *os.File; tests have others.
type file interface {
	io.WriteCloser
	Sync() error
}

// Open opens the file for a process of a role and a name, and writes that it started.
// The file is made with mode 0600 where there is none, and its folder with 0700. An empty path is no log.
func Open(path, role, name string, log *zap.Logger) (*Log, error) {
	if path == "" {
		return nil, nil
	}
	l := &Log{
		path: path, role: role, name: name, log: log, now: time.Now,
		hangup: make(chan os.Signal, 1), done: make(chan struct{}),
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.Write(Entry{Event: Started}); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	signal.Notify(l.hangup, syscall.SIGHUP)
	l.closed.Go(l.reopenOnHangup)
	return l, nil
}

// Append writes one line to a file that another process has open, for a command beside it. An empty path is no log.
func Append(path, role, name string, e Entry) error {
	if path == "" {
		return nil
	}
	l := &Log{path: path, role: role, name: name, log: zap.NewNop(), now: time.Now}
	if err := l.open(); err != nil {
		return err
	}
	return errors.Join(l.write(e), l.file.Close())
}

// open opens the path. Callers hold mu, or are alone.
func (l *Log) open() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return fmt.Errorf("%w: %w; set audit_log to a writable file", ErrLost, err)
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w; set audit_log to a writable file", ErrLost, err)
	}
	l.file, l.torn = f, endsTorn(f)
	return nil
}

// endsTorn says whether a file ends within a line, as one does whose disk was full.
func endsTorn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Reopen closes the file and opens its path again. Where that fails the old file stays.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	return errors.Join(old.Close(), l.write(Entry{Event: Started, Reason: "reopened"}))
}

func (l *Log) reopenOnHangup() {
	for {
		select {
		case <-l.hangup:
			if err := l.Reopen(); err != nil {
				l.log.Error("audit log not reopened", zap.String("path", l.path), zap.Error(err))
			} else {
				l.log.Info("audit log reopened", zap.String("path", l.path))
			}
		case <-l.done:
			return
		}
	}
}

// Write appends a line, whole or not at all as far as the disk allows. An error matches
// ErrLost and is in the log of the process already; who releases something has to heed
// it, others may go on.
func (l *Log) Write(e Entry) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(e)
}

// write is Write with mu held.
func (l *Log) write(e Entry) error {
	e.Time, e.Role, e.Name = l.now().UTC().Format("2006-01-02T15:04:05.000Z"), l.role, l.name
	line, err := json.Marshal(e.bounded())
	if err != nil {
		return l.lost(e, err)
	}
	line = append(line, '\n')
	if l.torn {
		line = append([]byte{'\n'}, line...) // what was cut off keeps a line of its own
	}
	n, err := l.file.Write(line)
	if n > 0 {
		l.torn = line[n-1] != '\n'
	}
	if err == nil && e.lasting() {
		err = l.file.Sync()
	}
	if err != nil {
		return l.lost(e, err)
	}
	if l.err != nil {
		l.log.Info("audit log can be written again", zap.String("path", l.path))
	}
	l.err = nil
	return nil
}

func (l *Log) lost(e Entry, err error) error {
	l.err = fmt.Errorf("%w: %w; make room for %s", ErrLost, err, l.path)
	fields := []zap.Field{zap.String("event", e.Event), zap.Error(l.err)}
	for key, value := range map[string]string{"run": e.Run, "node": e.Node, "peer": e.Peer} {
		if value != "" {
			fields = append(fields, zap.String(key, value))
		}
	}
	if e.Round != nil {
		fields = append(fields, zap.Uint64("round", *e.Round))
	}
	l.log.Error("lost a line of the audit log", fields...)
	return l.err
}

// Check says whether lines can be written: nil, or an error that matches ErrLost. After
// a failure it tries, with a line that says so.
func (l *Log) Check() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return nil
	}
	return l.write(Entry{Event: Started, Reason: "earlier lines were lost; the process log lists them"})
}

// Close writes that the process stopped, and closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	var err error
	l.once.Do(func() {
		signal.Stop(l.hangup)
		close(l.done)
		l.closed.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		err = errors.Join(l.write(Entry{Event: Stopped}), l.file.Close())
	})
	return err
}
