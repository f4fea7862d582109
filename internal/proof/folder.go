package proof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Folder has the files of a folder that others may have made. It follows no link out of the folder, and opens
// only regular files. A pipe would make the reader wait, and a device has no end.
type Folder struct{ root *os.Root }

// OpenFolder opens a folder. The caller must close it.
func OpenFolder(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("the run's folder: %w", err)
	}
	return &Folder{root}, nil
}

// Open opens a file of the folder, and fails for anything else.
func (f *Folder) Open(name string) (fs.File, error) {
	// Without this flag, opening a pipe waits for a writer.
	file, err := f.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a file; remove it, and get the folder " +
			"again")}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }
