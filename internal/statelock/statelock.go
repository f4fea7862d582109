// Package statelock keeps a folder, or a file, for one process at a time. The lock is the system's on a file, so it
// ends with the process, however that ends, and is never left behind.
package statelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// name is the file in the folder. It stays there, with the number of the process that had it last.
const name = "process.lock"

// ErrTaken says that another process has the folder.
var ErrTaken = errors.New("the folder is in use")

// ErrUnsupported says that the system has no file locks.
var ErrUnsupported = errors.New("file locks are not supported on this system; use another")

// errBusy is a lock that another process has.
var errBusy = errors.New("another process has the lock")

const (
	tries = 20
	pause = 50 * time.Millisecond
)

// Lock waits until no other process has an open file, or with share until none has it alone. Closing the file unlocks
// it. It fails with [ErrUnsupported], and for files on a disk without locks.
func Lock(f *os.File, share bool) error {
	if share {
		return lock(f, shared)
	}
	return lock(f, exclusive)
}

// Take locks an existing folder until release. It waits a second for a process that is about to end. A system without
// file locks excludes nobody.
func Take(dir string) (release func(), err error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w; let this process write to it", err)
	}
	for range tries {
		if err = lock(f, exclusive|now); !errors.Is(err, errBusy) {
			break
		}
		time.Sleep(pause)
	}
	switch {
	case errors.Is(err, errBusy):
		err = fmt.Errorf("%s: %w by %s; stop that one, or name another state folder: two processes would overwrite "+
			"each other's files", dir, ErrTaken, holder(f))
	case err != nil && !errors.Is(err, ErrUnsupported):
		err = fmt.Errorf("lock %s: %w; put the state folder on a disk with file locks", path, err)
	default:
		// Only for the message of another process.
		_, err = f.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Check returns an error that wraps [ErrTaken] if another process has a folder, which need not exist.
func Check(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		return nil // no process had it, or Take says why it cannot
	}
	release, err := Take(dir)
	if err == nil {
		release()
	}
	return err
}

func holder(f *os.File) string {
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if process, bad := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && bad == nil {
		return fmt.Sprintf("process %d", process)
	}
	return "another process"
}
