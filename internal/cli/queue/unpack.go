package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/proof"
)

// unpack makes a folder of the files of a bundle that was verified: there is all of it at once, or nothing. A folder
// of that name is replaced, if it holds files of the bundle's names alone.
func unpack(b proof.Bundle, out string) error {
	if err := replaceable(b, out); err != nil {
		return err
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
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	old := filepath.Join(fresh, "old")
	if err := os.Rename(out, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, out); err != nil {
		if back := os.Rename(old, out); back != nil && !errors.Is(back, fs.ErrNotExist) {
			kept = true
			return fmt.Errorf("%w; what was there is in %s now", errors.Join(err, back), old)
		}
		return err
	}
	return nil
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
