package requester

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/proof"
)

// unpack makes a folder with the files of a verified bundle, all at once or not at all. With force it replaces a
// folder of that name that has only files with names from the bundle.
func unpack(b proof.Bundle, out string, force bool) error {
	if force {
		if err := replaceable(b, out); err != nil {
			return err
		}
	}
	fresh, err := os.MkdirTemp(filepath.Dir(filepath.Clean(out)), ".fetch-*")
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			os.RemoveAll(fresh)
		}
	}()
	made := filepath.Join(fresh, "made")
	for name, content := range b {
		path := filepath.Join(made, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = create(path, content)
		}
		if err != nil {
			return err
		}
	}
	if !force {
		return os.Rename(made, out) // replaces no file, and only an empty folder
	}
	old := filepath.Join(fresh, "old")
	if err := os.Rename(out, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = replaceable(b, old) // again, now that nobody else writes there
	if err == nil {
		err = os.Rename(made, out)
	}
	if err != nil {
		if back := os.Rename(old, out); back != nil && !errors.Is(back, fs.ErrNotExist) {
			kept = true
			return fmt.Errorf("%w; the earlier files are now in %s", errors.Join(err, back), old)
		}
		return err
	}
	return nil
}

// create writes a new file: two names of the bundle may be the same on a file system that ignores case.
func create(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// replaceable refuses a folder with content that another fetch of the run would not restore.
func replaceable(b proof.Bundle, out string) error {
	return filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == out {
			return nil
		}
		if err != nil || path != out && e.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, path)
		if err != nil || path == out && e.IsDir() {
			return err
		}
		if b[filepath.ToSlash(name)] == nil || !e.Type().IsRegular() {
			return fmt.Errorf("%s is not a file of the bundle, and --force would remove it; give another folder", path)
		}
		return nil
	})
}
