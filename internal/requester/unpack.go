package requester

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/proof"
)

// unpack makes a folder of the files of a bundle that was verified: there is all of it at once, or nothing. With force
// a folder of that name is replaced, if it holds files of the bundle's names alone.
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
		return os.Rename(made, out) // replaces no file, and no folder but an empty one
	}
	old := filepath.Join(fresh, "old")
	if err := os.Rename(out, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = replaceable(b, old) // as it is now that nobody else writes there
	if err == nil {
		err = os.Rename(made, out)
	}
	if err != nil {
		if back := os.Rename(old, out); back != nil && !errors.Is(back, fs.ErrNotExist) {
			kept = true
			return fmt.Errorf("%w; what was there is in %s now", errors.Join(err, back), old)
		}
		return err
	}
	return nil
}

// create writes a file that is not there yet: two names of the bundle may be one to the file system, such as one that
// knows no capitals.
func create(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// replaceable refuses a folder with something that another fetch of the run would not bring back.
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
			return fmt.Errorf("%s is not a file of the bundle, and --force would remove it; name another folder", path)
		}
		return nil
	})
}
